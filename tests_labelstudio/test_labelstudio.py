"""`votestream serve` as the ML backend of the real Label Studio."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager

import pytest

from serve.processes import command, environment, service
from studio import chosen, counts, knows


@pytest.fixture
def model(tmp_path):
    return tmp_path / "shop.safetensors"


@contextmanager
def backend(model, studio, *options, token=None, **more):
    with service(
        model, "--label-studio-url", studio.url, *options, LABEL_STUDIO_API_KEY=token or studio.token, **more
    ) as running:
        yield running


def sync(model, *options, **more):
    """`votestream label-studio sync`: its exit code and what it printed."""
    arguments = command()
    arguments[arguments.index("serve") :] = ["label-studio", "sync", *map(str, (model, *options))]
    done = subprocess.run(arguments, env=environment(**more), capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


def test_annotations_are_learned_changed_and_undone_as_they_are_in_label_studio(studio, model):
    project = studio.project("red", "green", "red", "green", "red", "green", "red")
    with backend(model, studio) as running:
        project.connect(running)
        made = [project.annotate(place, label) for place, label in enumerate(("red", "green", "red", "green"))]
        assert knows(running, red=2, green=2)
        project.change(made[0], "green")
        assert knows(running, red=1, green=3)
        project.change(made[0], "red")
        assert knows(running, red=2, green=2)
        project.delete_annotation(made[1])
        assert knows(running, red=2, green=1)
        project.annotate(4, None, was_cancelled=True)  # skipped
        project.annotate(5, "green")
        assert knows(running, red=2, green=2)


def test_predictions_name_the_aliases_and_a_task_without_a_readable_image_fails_none(studio, model):
    project = studio.project("red", "green", "red", "green")
    with backend(model, studio) as running:
        project.connect(running)
        project.annotate(0, "red")
        project.annotate(1, "green")
        assert knows(running, red=1, green=1)
        broken = {"image": "/data/upload/no such file.png"}
        task = studio.call("POST", f"/api/projects/{project.number}/import", json=[broken])
        assert task["task_count"] == 1
        found = studio.call("GET", "/api/tasks", params={"project": project.number})["tasks"]
        project.tasks.append(max(one["id"] for one in found))
        project.act("retrieve_tasks_predictions", 2, 3, 4)
        predicted = project.predictions()
        assert [one and one[0] for one in predicted[2:]] == ["red", "green", None]
        assert all(score > 0.5 for _, score in predicted[2:4])


def test_deleted_tasks_take_what_their_annotations_taught_with_them(studio, model):
    project = studio.project("red", "green", "red", "green", "red")
    with backend(model, studio) as running:
        project.connect(running)
        for place, label in enumerate(("red", "green", "red", "green", "red")):
            project.annotate(place, label)
        assert knows(running, red=3, green=2)
        project.delete_task(0)
        assert knows(running, red=2, green=2)
        project.act("delete_tasks_annotations", 2)
        assert knows(running, red=1, green=2)
        project.act("delete_tasks", 1, 3)
        assert knows(running, red=1)


def test_label_studio_registers_one_webhook_for_everything_when_the_model_is_connected(studio, model):
    project = studio.project("red")
    with backend(model, studio) as running:
        project.connect(running)
        [webhook] = project.webhooks()
        assert webhook["url"] == f"{running.address}/webhook"
        assert webhook["send_for_all_actions"]
        assert webhook["send_payload"]


def test_what_was_done_while_the_service_was_down_is_made_up_for_by_train(studio, model):
    project = studio.project("red", "green", "red", "green", "red", "green")
    with backend(model, studio) as running:
        connection, port = project.connect(running), running.port
        made = [project.annotate(place, label) for place, label in enumerate(("red", "green", "red", "green"))]
        assert knows(running, red=2, green=2)
        running.end()
    project.annotate(4, "red")
    project.annotate(5, "blue")
    project.change(made[0], "green")
    project.delete_annotation(made[1])
    project.delete_task(2)
    with backend(model, studio, "--port", port) as running:
        assert counts(running) == {"red": 2, "green": 2}
        studio.call("POST", f"/api/ml/{connection}/train", json={})
        assert knows(running, red=1, green=2, blue=1)
        project.annotate(0, "red")  # webhooks go on where the synchronisation has ended
        assert knows(running, red=2, green=2, blue=1)


def test_an_annotated_project_is_learned_in_one_go_and_nothing_twice(studio, model):
    project = studio.project("red", "green", "red", "green")
    images = studio.call("GET", "/api/tasks", params={"project": project.number, "fields": "all"})["tasks"]
    annotated = [
        {"data": task["data"], "annotations": [{"result": chosen(label)}]}
        for task, label in zip(images, ("red", "green", "red", "green"), strict=True)
    ]
    studio.call("POST", f"/api/projects/{project.number}/import", json=annotated * 15)  # more than a page of them
    options = ("--project", project.number, "--label-studio-url", studio.url)
    for expected in ("60 learned", "60 unchanged"):
        code, said = sync(model, *options, LABEL_STUDIO_API_KEY=studio.token)
        assert (code, expected in said) == (0, True), said
    with backend(model.with_name("served.safetensors"), studio) as running:
        for expected in ("60 learned", "60 unchanged"):
            code, said = sync(running.address, "--project", project.number)
            assert (code, expected in said) == (0, True), said
        assert counts(running) == {"red": 30, "green": 30}


def test_a_token_that_label_studio_refuses_is_named_and_nothing_is_undone(studio, model):
    project = studio.project("red")
    project.annotate(0, "red")
    options = ("--project", project.number, "--label-studio-url", studio.url)
    assert sync(model, *options, LABEL_STUDIO_API_KEY=studio.token)[0] == 0
    code, said = sync(model, *options, LABEL_STUDIO_API_KEY="0" * 40)
    assert code == 2
    assert "does not let this token read the project" in said
    code, said = sync(model, "--project", 999_999, *options[2:], LABEL_STUDIO_API_KEY=studio.token)
    assert code == 2
    assert "/api/projects/999999/" in said
    assert "1 unchanged" in sync(model, *options, LABEL_STUDIO_API_KEY=studio.token)[1]


def test_a_personal_access_token_serves_as_well_as_a_legacy_one(studio, model):
    project = studio.project("red", "green")
    project.annotate(0, "red")
    personal = studio.call("POST", "/api/token/")["token"]
    with backend(model, studio, token=personal) as running:
        connection = project.connect(running)
        project.annotate(1, "green")
        assert knows(running, green=1)
        studio.call("POST", f"/api/ml/{connection}/train", json={})
        assert knows(running, green=1, red=1)


def test_with_a_token_the_webhook_needs_a_header_that_is_added_in_label_studio(studio, model):
    project, token = studio.project("red", "green"), "0123456789abcdef"
    with backend(model, studio, VOTESTREAM_TOKEN=token) as running:
        running.http.headers["Authorization"] = f"Bearer {token}"
        project.connect(running, auth_method="BASIC_AUTH", basic_auth_user="any", basic_auth_pass=token)
        project.annotate(0, "red")
        assert counts(running) == {}
        [webhook] = project.webhooks()
        headers = {"Authorization": f"Bearer {token}"}
        studio.call("PATCH", f"/api/webhooks/{webhook['id']}/", json={"headers": headers})
        project.annotate(1, "green")
        assert knows(running, green=1)
        code, said = sync(running.address, "--project", project.number, VOTESTREAM_TOKEN=token)
        assert (code, "1 learned" in said) == (0, True), said
        assert counts(running) == {"green": 1, "red": 1}
