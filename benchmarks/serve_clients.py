"""Clients of `votestream serve` that note what they were told, and a model that is taught the same apart from it."""

from __future__ import annotations

import copy
import http.client
import json
import random
import threading
import time
import uuid
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

import numpy as np
from numpy.typing import NDArray

from votestream.learners import Learner
from votestream.model_store.model_file import DEFAULT_LEARNER, new_learner

WIDTH = 64
LABELS = [f"class {n}" for n in range(12)]
QUERIES = np.abs(np.random.default_rng(1).normal(size=(20, WIDTH))).astype(np.float32)
FLOATS = {"content-type": "application/octet-stream"}
JSON = {"content-type": "application/json"}


@dataclass(frozen=True)
class Request:
    """A change that is asked for, with its own idempotency key."""

    method: str
    path: str
    body: bytes
    headers: dict[str, str]
    rows: NDArray[np.float32] | None = None  # that it teaches
    labels: tuple[str, ...] = ()

    def send(self, connection: http.client.HTTPConnection) -> tuple[int, Any]:
        connection.request(self.method, self.path, self.body, self.headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


@dataclass
class Log:
    """What clients were told. `changes` has every number once, unless something was lost or done twice."""

    changes: dict[int, tuple[str, Any]] = field(default_factory=dict)  # a call stands under its first number
    numbers: set[int] = field(default_factory=set)
    twice: list[int] = field(default_factory=list)
    pending: dict[str, Request] = field(default_factory=dict)  # sent, and never answered
    answers: list[tuple[int, int, str, float | None]] = field(default_factory=list)
    refused: dict[int, int] = field(default_factory=dict)  # by status
    resent: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, key: str, request: Request, status: int, told: Any) -> list[int]:
        """Numbers of the lessons that it taught."""
        with self.lock:
            del self.pending[key]
            if status != 200:
                self.refused[status] = self.refused.get(status, 0) + 1
                return []
            lessons = [lesson["lesson"] for lesson in told["lessons"]] if request.rows is not None else []
            numbers = lessons or [told["lesson"]]
            self.twice += [number for number in numbers if number in self.numbers]
            self.numbers.update(numbers)
            if request.rows is not None:
                self.changes[numbers[0]] = ("learn", request)
            elif request.path == "/v1/undo":
                self.changes[numbers[0]] = ("undo", told["undone"]["lesson"])
            elif request.method == "DELETE":
                self.changes[numbers[0]] = ("forget", request.labels[0])
            else:
                self.changes[numbers[0]] = ("rename", request.labels)
            return lessons


def teaching(rng: random.Random, mine: list[int]) -> Request:
    """One sample, mostly; now and then several, an undo of one of `mine`, a class renamed or forgotten."""
    key = {"idempotency-key": uuid.uuid4().hex}
    kind = rng.random()
    if kind < 0.06 and mine:
        body = json.dumps({"lesson": mine.pop(rng.randrange(len(mine)))}).encode()
        return Request("POST", "/v1/undo", body, key | JSON)
    if kind < 0.08:
        old, new = rng.sample(LABELS, 2)
        body = json.dumps({"to": new, "merge": True}).encode()
        return Request("POST", f"/v1/classes/{quote(old)}/rename", body, key | JSON, labels=(old, new))
    if kind < 0.09:
        label = rng.choice(LABELS)
        return Request("DELETE", f"/v1/classes/{quote(label)}", b"", key, labels=(label,))
    n = 3 if kind > 0.95 else 1
    number = rng.randrange(len(LABELS))
    drawn = np.random.default_rng(rng.randrange(1 << 30)).normal(size=(n, WIDTH)).astype(np.float32)
    rows = np.abs(drawn + QUERIES[number])
    path = f"/v1/learn-features?{urlencode({'width': WIDTH, 'label': LABELS[number]})}"
    return Request("POST", path, rows.tobytes(), key | FLOATS, rows, (LABELS[number],) * n)


def teach(port: int, log: Log, seed: int, stop: threading.Event) -> None:
    """Teach until told to stop, or until the service is gone."""
    rng, mine = random.Random(seed), list[int]()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    while not stop.is_set():
        request = teaching(rng, mine)
        key = request.headers["idempotency-key"]
        with log.lock:
            log.pending[key] = request
        try:
            mine += log.note(key, request, *request.send(connection))
        except (OSError, http.client.HTTPException, ValueError):
            return
    connection.close()


def ask(port: int, log: Log, seed: int, stop: threading.Event) -> None:
    """Predict until told to stop, or until the service is gone, and note some of the answers."""
    rng = random.Random(seed)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    while not stop.is_set():
        number = rng.randrange(len(QUERIES))
        try:
            connection.request("POST", f"/v1/predict-features?width={WIDTH}", QUERIES[number].tobytes(), FLOATS)
            answer = connection.getresponse()
            told = json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError):
            return
        if answer.status == 200:
            first = told["answers"][0]
            with log.lock:
                log.answers.append((first["lesson"], number, first["label"], first["confidence"]))
        time.sleep(0.02 * rng.random())
    connection.close()


class Reference:
    """A model that is taught what the log says, one call after the other, in this process."""

    def __init__(self) -> None:
        self.learner: Learner = new_learner(DEFAULT_LEARNER, None, 0)
        self.number = 0

    def follow(self, log: Log, number: int) -> tuple[int, int]:
        """Go on to the state after a change; of the answers on the way, how many were checked and how many differ."""
        start = copy.deepcopy(self.learner)
        calls: list[tuple[int, str, Any]] = []  # since the start
        by_lesson: dict[int, list[tuple[int, str, float | None]]] = {}
        for lesson, query, label, confidence in log.answers:
            by_lesson.setdefault(lesson, []).append((query, label, confidence))
        checked, differing = self._check(by_lesson.pop(self.number, []))
        for first in sorted(one for one in log.changes if one > self.number):
            kind, about = log.changes[first]
            if kind == "undo":
                calls = _without(calls, about)
                self.learner = copy.deepcopy(start)
                for call in calls:
                    _apply(self.learner, *call[1:])
            else:
                if kind == "learn":
                    about = {first + place: (row, about.labels[place]) for place, row in enumerate(about.rows)}
                calls.append((first, kind, about))
                _apply(self.learner, kind, about)
            last = max(about) if kind == "learn" else first
            more, wrong = self._check(by_lesson.pop(last, []))
            checked, differing = checked + more, differing + wrong
        # An answer whose lesson is no state that ever was cannot be reproduced.
        differing += sum(map(len, by_lesson.values()))
        log.answers.clear()
        self.number = number
        return checked, differing

    def _check(self, answers: list[tuple[int, str, float | None]]) -> tuple[int, int]:
        if not answers:
            return 0, 0
        classes, said = self.learner.classes_.tolist(), {}
        for query in {query for query, _, _ in answers}:  # one row at a time, as it was asked: products round otherwise
            row = QUERIES[query : query + 1]
            share, (sure,) = self.learner.predict_proba(row)[0], self.learner.confidence(row)
            said[query] = classes[share.argmax()], None if np.isnan(sure) else round(float(sure), 6)
        return len(answers), sum(said[query] != (label, confidence) for query, label, confidence in answers)


def _without(calls: list[tuple[int, str, Any]], lesson: int) -> list[tuple[int, str, Any]]:
    kept = []
    for first, kind, about in calls:
        if kind == "learn":
            about = {number: taught for number, taught in about.items() if number != lesson}
        if about and not (kind != "learn" and first == lesson):
            kept.append((first, kind, about))
    return kept


def _apply(learner: Learner, kind: str, about: Any) -> None:
    if kind == "learn":
        learner.partial_fit(np.stack([row for row, _ in about.values()]), [label for _, label in about.values()])
    elif kind == "rename":
        learner.rename(*about)
    else:
        learner.forget(about)
