"""Answers to come: several may wait for one, and whoever hangs up stops nobody else."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import asdict
from typing import Any

from votestream.serve.engine.journal import ANNOTATION_KEY_BYTES, ANNOTATION_KEYS, KEY_BYTES, KEYS, Kept
from votestream.serve.engine.messages import BadRequest, Change, Conflict, Guess, Lesson, Problem, Taught

LONGEST_KEY = 200
ANNOTATION = "label-studio/"  # what the keys of annotations begin with, which are kept longer than others


class Promise:
    """One request's answer. Every `future()` gets it; when all of them are cancelled, nobody wants it any more."""

    def __init__(self, kept: Kept | None = None) -> None:
        self.kept = kept  # the key that came with the request
        self.keys: Keys | None = None
        self._lock = threading.Lock()
        self._futures: list[Future[Any]] = []
        self._begun = self._over = False

    def future(self) -> Future[Any] | None:
        """For one more who waits; None where it is over."""
        made: Future[Any] = Future()
        with self._lock:
            if self._over:
                return None
            if self._begun:
                made.set_running_or_notify_cancel()
            self._futures.append(made)
        return made

    @property
    def wanted(self) -> bool:
        with self._lock:
            return not all(future.cancelled() for future in self._futures)

    def begin(self) -> bool:
        """From here on it will be done, whoever hangs up; False if all have hung up already, or it is answered."""
        with self._lock:
            if not self._begun:
                self._futures = [future for future in self._futures if future.set_running_or_notify_cancel()]
                self._begun = bool(self._futures)
            if self._begun:
                return not self._over
            self._over = True
        self._finish()
        return False

    def resolve(self, result: Any) -> None:
        for future in self._ending():
            future.set_result(result)

    def fail(self, problem: BaseException) -> None:
        for future in self._ending():
            future.set_exception(problem)

    def _ending(self) -> list[Future[Any]]:
        return self._finish() if self.begin() else []

    def _finish(self) -> list[Future[Any]]:
        if self.keys is not None:
            self.keys.release(self)
        with self._lock:
            self._over = True
            return self._futures


class Keys:
    """Idempotency keys: the same request with the same key is done once, and answered as often as it comes."""

    def __init__(self, answered: Iterable[Kept]) -> None:
        self._lock = threading.Lock()
        self._answers = {False: _Answers(KEYS, KEY_BYTES), True: _Answers(ANNOTATION_KEYS, ANNOTATION_KEY_BYTES)}
        for kept in answered:
            self._group(kept.key).add(kept)
        self._under_way: dict[str, Promise] = {}

    def claim(self, key: str, digest: str) -> Promise | Future[Any]:
        """A promise, where the request is to be done; a future, where it was or is being done."""
        if not (isinstance(key, str) and 0 < len(key) <= LONGEST_KEY and key.isprintable()):
            raise BadRequest(f"An idempotency key must be printable text of at most {LONGEST_KEY} characters.")
        with self._lock:
            done, promise = self._group(key).get(key), self._under_way.get(key)
            before = done or (promise.kept if promise is not None else None)
            if before is not None and before.digest != digest:
                raise Conflict(f"The idempotency key {key} was used for another request.")
            if done is not None:
                future: Future[Any] = Future()
                future.set_result(from_json(done.answer))
                return future
            if promise is not None and (joined := promise.future()) is not None:
                return joined
            made = self._under_way[key] = Promise(Kept(key, digest, ""))
            made.keys = self
            return made

    def find(self, key: str) -> Taught | Change | None:
        """What a request with that key was answered."""
        with self._lock:
            done = self._group(key).get(key)
        return None if done is None else from_json(done.answer)

    def of_annotations(self, prefix: str) -> list[str]:
        """The keys of annotations that begin so, oldest first."""
        with self._lock:
            return [key for key in self._answers[True] if key.startswith(prefix)]

    def _group(self, key: str) -> _Answers:
        return self._answers[key.startswith(ANNOTATION)]

    def release(self, promise: Promise) -> None:
        with self._lock:
            if promise.kept is not None and self._under_way.get(promise.kept.key) is promise:
                del self._under_way[promise.kept.key]

    def keep(self, answered: Iterable[Kept]) -> list[str]:
        """Keep answers; the oldest keys, which there is no room for any more."""
        with self._lock:
            return [dropped for kept in answered for dropped in self._group(kept.key).add(kept)]


class _Answers(OrderedDict[str, Kept]):
    """Answers by their keys; the oldest go where there are too many, or too many bytes of them."""

    def __init__(self, most: int, most_bytes: int) -> None:
        super().__init__()
        self.most, self.most_bytes, self.bytes = most, most_bytes, 0

    def add(self, kept: Kept) -> list[str]:
        """Keep an answer; the keys of those that went."""
        dropped = []
        self[kept.key] = kept
        self.bytes += len(kept.answer)
        while len(self) > self.most or self.bytes > self.most_bytes:
            key, old = self.popitem(last=False)
            self.bytes -= len(old.answer)
            dropped.append(key)
        return dropped


def request_digest(*parts: Any) -> str:
    """Digest of what a request says; bytes count as they are."""
    made = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = bytes(part) if isinstance(part, (bytes, memoryview)) else json.dumps(part).encode()
        made.update(len(data).to_bytes(8, "little"))
        made.update(data)
    return made.hexdigest()


def as_json(answer: Taught | Change) -> str:
    return json.dumps(asdict(answer))


def from_json(text: str) -> Taught | Change:
    """What `as_json` wrote."""
    told = json.loads(text)
    if "kind" in told:
        return Change(**told)
    lessons = [
        Lesson(**{**lesson, "was": None if lesson["was"] is None else Guess(**lesson["was"])})
        for lesson in told["lessons"]
    ]
    return Taught(lessons, [Problem(**problem) for problem in told["problems"]])
