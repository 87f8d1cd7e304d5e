"""`votestream serve`: the command that serves models as a page and over HTTP."""

from __future__ import annotations

import dataclasses
import importlib.util
import logging
import os
import secrets
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from votestream.cli.options import Budget, Device, LearnerName, MaxPixels, PresetOption, Stages, Views
from votestream.common.exits import CODES, INTERRUPTED, Refused, note
from votestream.common.extras import install_extra
from votestream.common.printing import shown

# The packages of the extra `serve` and torch are imported by the command when it runs.
if TYPE_CHECKING:
    from votestream.serve.engine import Engine
    from votestream.serve.engine.settings import EngineSettings
    from votestream.serve.replica.follower import Follower
    from votestream.serve.replica.upstream import Upstream
    from votestream.serve.web.dependencies import Served
    from votestream.serve.web.options import Options

app = typer.Typer()

MIN_TOKEN_LENGTH = 16
NEEDED_PACKAGES = ("fastapi", "uvicorn", "python_multipart", "segno")


@app.command(epilog=CODES)
def serve(
    model: Annotated[
        Path,
        typer.Argument(
            help="The model file, created if it does not exist; or a folder of model files.", show_default=False
        ),
    ],
    host: Annotated[
        str, typer.Option(help="The address to listen on. An address that other computers reach needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8080,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="VOTESTREAM_TOKEN", help="A secret that every client of the service must send.", show_default="none"
        ),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="The address of a site whose pages may use the service; may be repeated."),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A host name of the service, such as that of a proxy; may be repeated."),
    ] = None,
    certificate: Annotated[Path | None, typer.Option(metavar="FILE", help="For https: the certificate (PEM).")] = None,
    key: Annotated[Path | None, typer.Option(metavar="FILE", help="For https: the certificate's key (PEM).")] = None,
    backbone: Annotated[
        str | None,
        typer.Option(
            help="The network that extracts features, for a new model.", show_default="by the first image's size"
        ),
    ] = None,
    preset: PresetOption = None,
    views: Views = None,
    stages: Stages = None,
    learner: LearnerName = None,
    budget: Budget = None,
    device: Device = None,
    max_pixels: MaxPixels = None,
    sample: Annotated[
        bool, typer.Option("--sample", help="Train a new model on the ten classes of `votestream demo` first.")
    ] = False,
    label_studio_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="The URL of Label Studio, from which images may be fetched.", show_default="none"
        ),
    ] = None,
    label_studio_token: Annotated[
        str | None,
        typer.Option(envvar="LABEL_STUDIO_API_KEY", help="The access token of Label Studio.", show_default="none"),
    ] = None,
    follow: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Serve a read-only copy of the model at this address; MODEL is the file of the copy.",
            show_default="none",
        ),
    ] = None,
    follow_token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A file with the token of that service, instead of VOTESTREAM_FOLLOW_TOKEN.",
            show_default="none",
        ),
    ] = None,
    max_stale: Annotated[
        float | None,
        typer.Option(
            min=20,
            metavar="SECONDS",
            help="/readyz reports 'not ready' after this time without contact to that service.",
            show_default="it stays ready",
        ),
    ] = None,
    access_log: Annotated[
        bool, typer.Option("--access-log", help="Print a line for each request: method, route, status, milliseconds.")
    ] = False,
) -> None:
    """Serve a model as a page for learning and predicting in a browser, and over HTTP. See docs/serve.md.

    A labelled image is confirmed when it is on disk (MODEL.lessons).
    It survives a crash from then on. The model file follows within seconds.
    Ctrl-C or SIGTERM stops the service after everything is written.

    Example: votestream serve shop.safetensors
    """
    if missing := [name for name in NEEDED_PACKAGES if importlib.util.find_spec(name) is None]:
        raise Refused(f"The service needs {', '.join(missing)}: {install_extra('serve')}.")
    from votestream.backbones.presets import with_preset
    from votestream.compute.place import one_thread
    from votestream.model_store.lock import note_address
    from votestream.serve.app import create_app
    from votestream.serve.engine.settings import EngineSettings
    from votestream.serve.labelstudio.studio import check_studio
    from votestream.serve.web.address_routes import own_address
    from votestream.serve.web.options import LabelStudio, Options
    from votestream.serve.web.security import check_origin
    from votestream.serve.web.server import Server, check_certificate, listen

    if (certificate is None) != (key is None):
        raise Refused("https needs both --certificate and --key.")
    https = None if certificate is None or key is None else (certificate, key)
    if https is not None:
        check_certificate(*https)
    studio = (
        None
        if label_studio_url is None
        else LabelStudio(_check_value(check_studio, label_studio_url), label_studio_token)
    )
    options = Options(
        host=host,
        port=port,
        token=_check_token(token, host),
        allow_origins=tuple(_check_value(check_origin, one) for one in allow_origin or ()),
        allow_hosts=tuple(allow_host or ()),
        https=https is not None,
        label_studio=studio,
        access_log=access_log,
    )
    chosen_views, chosen_stages = with_preset(preset, views, stages)
    settings = EngineSettings(
        backbone=backbone,
        views=chosen_views,
        stages=chosen_stages,
        learner=learner,
        budget=budget,
        device=device,
        max_pixels=max_pixels,
    )
    upstream = _upstream(follow, follow_token_file, max_stale, model, sample)
    models: AbstractContextManager[Mapping[str, Served]]
    if upstream is None:
        models = open_models(models_in(model), settings, sample)
    else:
        models = open_copy(model, upstream, settings, max_stale)
    # Requests are answered in parallel, and services share a machine: more threads for one request would only wait.
    with listen(options) as listener, one_thread():
        options = dataclasses.replace(options, port=listener.getsockname()[1])
        logging.basicConfig(format="%(asctime)s %(message)s")
        for name in ("uvicorn", "python_multipart"):  # they warn of every invalid request
            logging.getLogger(name).setLevel(logging.ERROR)
        with models as engines:
            for path in models_in(model).values():
                note_address(path, own_address(options))
            server = Server(
                create_app(engines, options), options.limits, https, lambda: _print_addresses(model, options, follow)
            )
            server.run([listener])
            ending = "." if follow else ": writing the model file."
            typer.echo(f"Stopping{ending}", err=True)
    if server.ended_by == signal.SIGINT:
        raise typer.Exit(INTERRUPTED)


def models_in(place: Path) -> dict[str, Path]:
    """The model files to serve, by name: the given one, or all in a folder."""
    if not place.is_dir():
        return {place.name.removesuffix(".safetensors"): place}
    found = {file.stem: file for file in sorted(place.glob("*.safetensors")) if file.is_file()}
    if not found:
        raise Refused(
            f"{place} holds no model file (*.safetensors). Name one, such as {place / 'model.safetensors'}, and it is "
            "created."
        )
    return found


@contextmanager
def open_models(paths: dict[str, Path], settings: EngineSettings, sample: bool = False) -> Iterator[dict[str, Engine]]:
    """Open the models; at the end close them, which writes their files."""
    from votestream.serve.engine import Engine

    engines: dict[str, Engine] = {}
    try:
        for name, path in paths.items():
            engines[name] = Engine.open(path, settings)
            for remark in engines[name].remarks:
                note(remark)
            if sample:
                train_on_sample(engines[name])
        yield engines
    finally:
        for engine in engines.values():
            engine.close()


def _upstream(
    follow: str | None, token_file: Path | None, max_stale: float | None, model: Path, sample: bool
) -> Upstream | None:
    """The service to follow, if any."""
    from votestream.serve.replica.upstream import Upstream, check_writer
    from votestream.serve.web.options import is_loopback

    if follow is None:
        if token_file is not None or max_stale is not None:
            raise Refused("--follow-token-file and --max-stale need --follow URL.")
        return None
    url = _check_value(check_writer, follow)
    if model.is_dir():
        raise Refused(f"--follow copies one model: name the file of the copy, such as {model / 'copy.safetensors'}.")
    if sample:
        raise Refused("--follow serves a read-only copy: leave --sample out.")
    token = os.environ.get("VOTESTREAM_FOLLOW_TOKEN") if token_file is None else token_file.read_text()
    token = token.strip() if token else None
    if token is not None and not (token.isascii() and token.isprintable() and " " not in token):
        raise Refused("The token for --follow must be one word of letters, digits, - and _.")
    if token and url.startswith("http:") and not is_loopback(urlsplit(url).hostname or ""):
        note(f"The model and the token are sent unencrypted between {url} and here: use https to protect them.")
    return Upstream(url, token)


@contextmanager
def open_copy(
    path: Path, upstream: Upstream, settings: EngineSettings, max_stale: float | None
) -> Iterator[dict[str, Follower]]:
    """The copy of a model that is taught elsewhere."""
    from votestream.serve.replica.follower import Follower

    copy = Follower.open(path, upstream, settings, max_stale)
    try:
        yield {path.name.removesuffix(".safetensors"): copy}
    finally:
        copy.close()


def train_on_sample(engine: Engine) -> None:
    """Train the model on the demo's classes, two at a time, if it has no classes yet."""
    from votestream.serve.sample_images import labelled_images

    if engine.describe()["classes"]:
        note("The model has classes already: it is not trained on the demo's classes.")
        return
    for task, label, uploads in labelled_images():
        engine.learn(uploads, label, task).result()


def _check_token(token: str | None, host: str) -> str | None:
    """Check the token; an address that other computers reach needs one."""
    from votestream.serve.web.options import is_loopback

    if not token:
        if is_loopback(host):
            return None
        raise Refused(
            f"Everyone who can reach {host} could read and change the model. Give a token, such as --token "
            f"{secrets.token_urlsafe(16)} (or VOTESTREAM_TOKEN), or leave --host out to serve this computer only."
        )
    if len(token) < MIN_TOKEN_LENGTH or not token.isascii() or not token.replace("-", "").replace("_", "").isalnum():
        raise Refused(
            f"A token must have at least {MIN_TOKEN_LENGTH} characters, each a letter, a digit, - or _, such as "
            f"{secrets.token_urlsafe(16)}."
        )
    return token


def _check_value(check: Callable[[str], str], value: str) -> str:
    try:
        return check(value)
    except ValueError as problem:
        raise Refused(f"{problem}.") from None


def _print_addresses(model: Path, options: Options, follow: str | None) -> None:
    """Print the addresses of the service, and who may use it."""
    from votestream.serve.web.address_routes import for_others, own_address, with_token

    others = for_others(options)
    typer.echo(shown(f"{model} is served at {with_token(own_address(options), options.token)}"))
    if follow:
        typer.echo(f"It is a read-only copy of the model at {follow}.")
    for address in others:
        typer.echo(f"  for others: {with_token(address, options.token)}")
    who = f"everyone who can reach {options.host}" if others else "the programs and users of this computer"
    typer.echo(f"Open to {who}, {'with the token' if options.token else 'without a token'}. Ctrl-C stops it.")
    if others and not options.https:
        note(
            "Images and the token are sent unencrypted: --certificate and --key turn on https, which cameras also need."
        )
