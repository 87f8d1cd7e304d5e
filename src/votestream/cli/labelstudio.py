"""`votestream label-studio`: the command that trains a model on the annotations of a Label Studio project."""

from __future__ import annotations

import asyncio
import http.client
import json
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Annotated, Any

import typer

from votestream.common.exits import CODES, PARTLY, Refused, note
from votestream.common.printing import shown

POLL_SECONDS = 1.0  # between two requests for the state of the synchronisation

app = typer.Typer(no_args_is_help=True, help="Train a model on the annotations of a Label Studio project.")


@app.callback()
def main() -> None:
    """Train a model on the annotations of a Label Studio project."""


@app.command(epilog=CODES)
def sync(
    model: Annotated[
        str,
        typer.Argument(
            help="The model file, created if it does not exist; or the address of the service that serves it, such as "
            "http://127.0.0.1:8080.",
            show_default=False,
        ),
    ],
    project: Annotated[int, typer.Option(min=1, help="The number of the project, as in its URL.", show_default=False)],
    label_studio_url: Annotated[
        str | None, typer.Option(metavar="URL", help="The URL of Label Studio, with a model file.", show_default="none")
    ] = None,
    label_studio_token: Annotated[
        str | None,
        typer.Option(
            envvar="LABEL_STUDIO_API_KEY",
            help="The access token of Label Studio, with a model file.",
            show_default="none",
        ),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="VOTESTREAM_TOKEN", help="The token of the service, with its address.", show_default="none"
        ),
    ] = None,
) -> None:
    """Synchronise a model with a project: learn new annotations, correct changed ones, undo deleted ones.

    Annotations that were learned before are not learned again.

    Example: votestream label-studio sync shop.safetensors --project 2 --label-studio-url http://localhost:8081
    """
    if model.startswith(("http://", "https://")):
        if label_studio_url is not None:
            raise Refused("The service has its own Label Studio address: leave --label-studio-url out.")
        outcome = _in_service(model.rstrip("/"), project, token)
    else:
        outcome = _in_file(Path(model), project, label_studio_url, label_studio_token)
    for problem in outcome["problems"]:
        note(shown(problem))
    if outcome["state"] != "done":
        raise Refused(shown(outcome.get("error", "The synchronisation has failed.")))
    counts = (f"{outcome[kind]:,} {kind}" for kind in ("learned", "corrected", "undone", "unchanged", "failed"))
    typer.echo(f"Annotations of project {project}: {', '.join(counts)}.")
    if outcome["problems"]:
        raise typer.Exit(PARTLY)


def _in_file(model: Path, project: int, url: str | None, token: str | None) -> dict[str, Any]:
    from votestream.serve.engine import Engine
    from votestream.serve.labelstudio.event_order import EventOrder
    from votestream.serve.labelstudio.studio import Studio, check_studio
    from votestream.serve.labelstudio.sync import Sync
    from votestream.serve.labelstudio.task_images import TaskImages
    from votestream.serve.web.options import LabelStudio, Limits

    if url is None:
        raise Refused("Give the address of Label Studio with --label-studio-url.")
    try:
        studio = Studio(LabelStudio(check_studio(url), token))
    except ValueError as problem:
        raise Refused(f"{problem}.") from None
    engine = Engine.open(model)
    try:
        for remark in engine.remarks:
            note(remark)

        async def run() -> dict[str, Any]:
            one = Sync(engine, studio, TaskImages(studio, Limits()), EventOrder(), project)
            await one.run()
            return one.outcome

        return asyncio.run(run())
    finally:
        engine.close()


def _in_service(address: str, project: int, token: str | None) -> dict[str, Any]:
    """Let the service synchronise, and wait until it is done."""
    path = f"{address}/label-studio/sync" if "/v1/" in address else f"{address}/v1/label-studio/sync"
    outcome = _request(path, token, {"project": project})
    while outcome["state"] == "running":
        time.sleep(POLL_SECONDS)
        outcome = _request(f"{path}?project={project}", token)
    return outcome


def _request(address: str, token: str | None, body: dict[str, Any] | None = None) -> dict[str, Any]:
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(address, data, headers), timeout=60) as answer:
            body_of_answer: dict[str, Any] = json.load(answer)
            return body_of_answer
    except urllib.error.HTTPError as problem:
        raise Refused(shown(_sentence(problem))) from None
    except (OSError, http.client.HTTPException, ValueError) as problem:
        reason = getattr(problem, "reason", None) or problem
        raise Refused(f"{shown(address)} cannot be reached: {shown(reason)}.") from None


def _sentence(problem: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(problem.read(1 << 14))["error"])
    except (KeyError, TypeError, ValueError, OSError):
        return f"The service answers with status {problem.code}."
