"""Label Studio's API, as its page uses it."""

from __future__ import annotations

import time

import httpx

from serve.http_client import image

CONFIG = (
    '<View><Image name="image" value="$image"/><Choices name="choice" toName="image">'
    '<Choice value="Rot" alias="red"/><Choice value="Grün" alias="green"/><Choice value="blue"/></Choices></View>'
)


def chosen(label):
    return [{"from_name": "choice", "to_name": "image", "type": "choices", "value": {"choices": [label]}}]


class Studio:
    """A user of Label Studio, with a legacy token."""

    def __init__(self, url, token):
        self.url, self.token = url, token
        self.http = httpx.Client(base_url=url, headers={"Authorization": f"Token {token}"}, timeout=60)

    def call(self, method, path, **how):
        answer = self.http.request(method, path, **how)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text[:1000]}"
        return answer.json() if answer.content else None

    def project(self, *labels):
        """A new project with an image of each of these colours."""
        about = self.call("POST", "/api/projects/", json={"title": "shop", "label_config": CONFIG})
        return Project(self, about["id"], labels)


class Project:
    """`tasks` are the numbers of its tasks, in the order of their images."""

    def __init__(self, studio, number, labels):
        self.studio, self.number, self.tasks = studio, number, []
        for place, label in enumerate(labels):
            self.add(label, place)

    def add(self, label, number):
        """A task with an image of a colour, which is uploaded."""
        file = (f"ä {number}.png", image(label, number), "image/png")
        self.studio.call("POST", f"/api/projects/{self.number}/import", files={"file": file})
        found = self.studio.call("GET", "/api/tasks", params={"project": self.number, "page_size": 1000})["tasks"]
        self.tasks.append(max(task["id"] for task in found))

    def connect(self, service, **how):
        """Connect the service as its model; the number of the connection."""
        about = {"url": service.address, "project": self.number, "title": "VoteStream", **how}
        return self.studio.call("POST", "/api/ml", json=about)["id"]

    def annotate(self, place, label, **more):
        """The number of a new annotation."""
        about = {"result": [] if label is None else chosen(label), **more}
        return self.studio.call("POST", f"/api/tasks/{self.tasks[place]}/annotations/", json=about)["id"]

    def change(self, annotation, label):
        self.studio.call("PATCH", f"/api/annotations/{annotation}/", json={"result": chosen(label)})

    def delete_annotation(self, annotation):
        self.studio.call("DELETE", f"/api/annotations/{annotation}/")

    def delete_task(self, place):
        self.studio.call("DELETE", f"/api/tasks/{self.tasks[place]}/")

    def act(self, action, *places):
        """What the data manager does with tasks that are selected."""
        selected = {"all": False, "included": [self.tasks[place] for place in places]}
        self.studio.call(
            "POST",
            "/api/dm/actions",
            params={"id": action, "project": self.number},
            json={"selectedItems": selected},
        )

    def predictions(self):
        """The choice and the score of each task's newest prediction, by place; None where nothing is predicted."""
        found = self.studio.call("GET", "/api/predictions", params={"project": self.number})
        newest = {one["task"]: one for one in sorted(found, key=lambda one: one["id"])}
        results = [newest.get(task) for task in self.tasks]
        return [
            (one["result"][0]["value"]["choices"][0], one["score"]) if one and one["result"] else None
            for one in results
        ]

    def webhooks(self):
        return self.studio.call("GET", "/api/webhooks", params={"project": self.number})


def counts(service):
    return {one["label"]: one["count"] for one in service.http.get("/v1/model").json()["classes"]}


def knows(service, **expected):
    """Whether the model comes to know so many images of each class, and of no other."""
    deadline = time.monotonic() + 10
    while (found := counts(service)) != expected:
        assert time.monotonic() < deadline, f"{found} instead of {expected}"
        time.sleep(0.05)
    return True
