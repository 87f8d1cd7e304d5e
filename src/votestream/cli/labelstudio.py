"""`votestream label-studio`: a model and the annotations of a Label Studio project."""

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

ASK_AGAIN = 1.0  # seconds between two questions how far the service is

app = typer.Typer(no_args_is_help=True, help="Work with Label Studio.")


@app.callback()
def main() -> None:
    """Work with Label Studio."""


@app.command(epilog=CODES)
def sync(
    model: Annotated[
        str,
        typer.Argument(
            help="The model file, made if it is not there; or the address of the service that serves it, such as "
            "http://127.0.0.1:8080.",
            show_default=False,
        ),
    ],
    project: Annotated[
        int, typer.Option(min=1, help="The number of the project, as in its address.", show_default=False)
    ],
    label_studio_url: Annotated[
        str | None, typer.Option(metavar="URL", help="Label Studio's address; for a model file.", show_default="none")
    ] = None,
    label_studio_token: Annotated[
        str | None,
        typer.Option(envvar="LABEL_STUDIO_API_KEY", help="Its access token; for a model file.", show_default="none"),
    ] = None,
    token: Annotated[
        str | None, typer.Option(envvar="VOTESTREAM_TOKEN", help="The token of the service.", show_default="none")
    ] = None,
) -> None:
    """Bring a model in step with a project: learn its annotations, correct changed ones, undo deleted ones.

    What was learned from the project before is not learned again.

    Example: votestream label-studio sync shop.safetensors --project 2 --label-studio-url http://localhost:8081
    """
    if model.startswith(("http://", "https://")):
        if label_studio_url is not None:
            raise Refused("The service knows its Label Studio: leave --label-studio-url out.")
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
    from votestream.serve.labelstudio.event_order import EventOrder as InOrder
    from votestream.serve.labelstudio.studio import Studio, check_studio
    from votestream.serve.labelstudio.sync import Sync
    from votestream.serve.labelstudio.task_images import TaskImages
    from votestream.serve.web.options import LabelStudio, Limits

    if url is None:
        raise Refused("Which Label Studio? Name its address with --label-studio-url.")
    try:
        studio = Studio(LabelStudio(check_studio(url), token))
    except ValueError as problem:
        raise Refused(f"{problem}.") from None
    engine = Engine.open(model)
    try:
        for remark in engine.remarks:
            note(remark)

        async def run() -> dict[str, Any]:
            one = Sync(engine, studio, TaskImages(studio, Limits()), InOrder(), project)
            await one.run()
            return one.outcome

        return asyncio.run(run())
    finally:
        engine.close()


def _in_service(address: str, project: int, token: str | None) -> dict[str, Any]:
    """Have the service do it, and wait until it is done."""
    path = f"{address}/label-studio/sync" if "/v1/" in address else f"{address}/v1/label-studio/sync"
    outcome = _asked(path, token, {"project": project})
    while outcome["state"] == "running":
        time.sleep(ASK_AGAIN)
        outcome = _asked(f"{path}?project={project}", token)
    return outcome


def _asked(address: str, token: str | None, body: dict[str, Any] | None = None) -> dict[str, Any]:
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(address, data, headers), timeout=60) as answer:
            told: dict[str, Any] = json.load(answer)
            return told
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
