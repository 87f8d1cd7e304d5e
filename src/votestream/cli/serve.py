"""`votestream serve`: a page and an HTTP service that learn and predict at the same time."""

from __future__ import annotations

import dataclasses
import importlib.util
import logging
import secrets
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from votestream.cli.looks import Stages, Views
from votestream.cli.photos import Budget, Device, LearnerName, MaxPixels
from votestream.common.exits import CODES, INTERRUPTED, Refused, note
from votestream.common.extras import install_extra
from votestream.common.printing import shown

# What the extra `serve` installs, and the network, are imported by the command when it runs.
if TYPE_CHECKING:
    from votestream.serve.engine import Engine
    from votestream.serve.settings import EngineSettings
    from votestream.serve.web.options import Options

app = typer.Typer()

SHORTEST_TOKEN = 16
NEEDED = ("fastapi", "uvicorn", "python_multipart", "segno")


@app.command(epilog=CODES)
def serve(
    model: Annotated[
        Path,
        typer.Argument(help="The model file, made if it is not there; or a folder of model files.", show_default=False),
    ],
    host: Annotated[
        str, typer.Option(help="The address to listen on; any but this computer's own needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8080,
    token: Annotated[
        str | None,
        typer.Option(envvar="VOTESTREAM_TOKEN", help="Whoever uses the service has to send it.", show_default="none"),
    ] = None,
    allow_origin: Annotated[
        list[str] | None, typer.Option(metavar="URL", help="A site whose pages may use the service. May be repeated.")
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A name that the service is reached by, as behind a proxy. May be repeated."),
    ] = None,
    certificate: Annotated[Path | None, typer.Option(metavar="FILE", help="For https: the certificate (PEM).")] = None,
    key: Annotated[Path | None, typer.Option(metavar="FILE", help="For https: the certificate's key (PEM).")] = None,
    backbone: Annotated[
        str | None,
        typer.Option(help="What looks at the images; only for a new model.", show_default="by the first image's size"),
    ] = None,
    views: Views = None,
    stages: Stages = None,
    learner: LearnerName = None,
    budget: Budget = None,
    device: Device = None,
    max_pixels: MaxPixels = None,
    sample: Annotated[
        bool, typer.Option("--sample", help="Teach a new model the ten classes of `votestream demo` first.")
    ] = False,
    label_studio_url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="The Label Studio whose images may be fetched.", show_default="none"),
    ] = None,
    label_studio_token: Annotated[
        str | None, typer.Option(envvar="LABEL_STUDIO_API_KEY", help="Its access token.", show_default="none")
    ] = None,
    access_log: Annotated[
        bool, typer.Option("--access-log", help="A line for each request: method, route, status, milliseconds.")
    ] = False,
) -> None:
    """Serve a model: a page to teach it and ask it, and the same over HTTP. docs/serve.md has examples.

    A lesson is acknowledged when it is on disk (MODEL.lessons) and survives a crash; the model file follows within
    seconds. Ctrl-C or SIGTERM ends the service in an orderly way.
    """
    if missing := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        raise Refused(f"The service needs {', '.join(missing)}: {install_extra('serve')}.")
    from votestream.serve.settings import EngineSettings
    from votestream.serve.web.app import create_app
    from votestream.serve.web.labelstudio_images import check_studio
    from votestream.serve.web.options import LabelStudio, Options
    from votestream.serve.web.security import check_origin
    from votestream.serve.web.server import Server, check_certificate, listen

    if (certificate is None) != (key is None):
        raise Refused("https needs both --certificate and --key.")
    https = None if certificate is None or key is None else (certificate, key)
    if https is not None:
        check_certificate(*https)
    studio = (
        None if label_studio_url is None else LabelStudio(_valid(check_studio, label_studio_url), label_studio_token)
    )
    options = Options(
        host=host,
        port=port,
        token=_checked(token, host),
        allow_origins=tuple(_valid(check_origin, one) for one in allow_origin or ()),
        allow_hosts=tuple(allow_host or ()),
        https=https is not None,
        label_studio=studio,
        access_log=access_log,
    )
    settings = EngineSettings(
        backbone=backbone,
        views=views,
        stages=stages,
        learner=learner,
        budget=budget,
        device=device,
        max_pixels=max_pixels,
    )
    paths = models_in(model)
    with listen(options) as listener:
        options = dataclasses.replace(options, port=listener.getsockname()[1])
        logging.basicConfig(format="%(asctime)s %(message)s")
        for name in ("uvicorn", "python_multipart"):  # they warn of every request that is wrong
            logging.getLogger(name).setLevel(logging.ERROR)
        with opened(paths, settings) as engines:
            if sample:
                for engine in engines.values():
                    teach_sample(engine)
            server = Server(create_app(engines, options), options.limits, https, lambda: _say(model, options))
            server.run([listener])
            typer.echo("Stopping: what was learned is being written to the model file.", err=True)
    if server.ended_by == signal.SIGINT:
        raise typer.Exit(INTERRUPTED)


def models_in(place: Path) -> dict[str, Path]:
    """The model files to serve, by name: the one that is named, or all in a folder."""
    if not place.is_dir():
        return {place.name.removesuffix(".safetensors"): place}
    found = {file.stem: file for file in sorted(place.glob("*.safetensors")) if file.is_file()}
    if not found:
        raise Refused(
            f"{place} holds no model file (*.safetensors). Name one, such as {place / 'model.safetensors'}, and it is "
            "made."
        )
    return found


@contextmanager
def opened(paths: dict[str, Path], settings: EngineSettings) -> Iterator[dict[str, Engine]]:
    """The models, open; in the end all are closed, which writes their files."""
    from votestream.serve.engine import Engine

    engines: dict[str, Engine] = {}
    try:
        for name, path in paths.items():
            engines[name] = Engine.open(path, settings)
            for remark in engines[name].remarks:
                note(remark)
        yield engines
    finally:
        for engine in engines.values():
            engine.close()


def teach_sample(engine: Engine) -> None:
    """The demo's classes, two at a time, unless the model knows something already."""
    from votestream.serve.sample import lessons

    if engine.describe()["classes"]:
        note("The model knows something already: the demo's classes are not taught to it.")
        return
    for task, label, uploads in lessons():
        engine.learn(uploads, label, task).result()


def _checked(token: str | None, host: str) -> str | None:
    """The token, where it is one; an address that others reach needs one."""
    from votestream.serve.web.options import is_loopback

    if not token:
        if is_loopback(host):
            return None
        raise Refused(
            f"Whoever reaches {host} could teach and read the model. Give a token, such as --token "
            f"{secrets.token_urlsafe(16)} (or VOTESTREAM_TOKEN), or leave --host out to serve this computer only."
        )
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.replace("-", "").replace("_", "").isalnum():
        raise Refused(
            f"A token must have at least {SHORTEST_TOKEN} characters, each a letter, a digit, - or _, such as "
            f"{secrets.token_urlsafe(16)}."
        )
    return token


def _valid(check: Callable[[str], str], value: str) -> str:
    try:
        return check(value)
    except ValueError as problem:
        raise Refused(f"{problem}.") from None


def _say(model: Path, options: Options) -> None:
    """Where the service is, and who may use it."""
    from votestream.serve.web.addresses import for_others, own_address, with_token

    others = for_others(options)
    typer.echo(shown(f"{model} is served at {with_token(own_address(options), options.token)}"))
    for address in others:
        typer.echo(f"  for others: {with_token(address, options.token)}")
    who = f"whoever reaches {options.host}" if others else "the programs and users of this computer"
    typer.echo(f"Open to {who}{' and has the token' if options.token else ', without a token'}. Ctrl-C ends it.")
    if others and not options.https:
        note("Images and the token travel unencrypted: --certificate and --key turn https on, which cameras need too.")
