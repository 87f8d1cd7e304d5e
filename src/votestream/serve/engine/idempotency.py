"""Answers that several requests may wait for, and idempotency keys: a request that is sent again is done once."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import asdict
from typing import Any

from votestream.serve.engine.journal import (
    MAX_ANNOTATION_KEY_BYTES,
    MAX_ANNOTATION_KEYS,
    MAX_KEY_BYTES,
    MAX_KEYS,
    StoredAnswer,
)
from votestream.serve.engine.messages import (
    BadRequest,
    Conflict,
    Correction,
    FileProblem,
    LearnedSample,
    LearnResult,
    PreviousPrediction,
)

MAX_KEY_LENGTH = 200
ANNOTATION_PREFIX = "label-studio/"  # of the keys of annotations, which are kept longer than others


class PendingAnswer:
    """The answer to one request. Every `future()` receives it; the work may be skipped once all futures are cancelled.

    >>> pending = PendingAnswer()
    >>> future = pending.future()
    >>> pending.start(), pending.resolve("learned")
    (True, None)
    >>> future.result()
    'learned'
    """

    def __init__(self, stored: StoredAnswer | None = None, keys: IdempotencyKeys | None = None) -> None:
        self.stored = stored  # the idempotency key of the request, with no answer yet
        self._keys = keys
        self._lock = threading.Lock()
        self._futures: list[Future[Any]] = []
        self._started = self._finished = False

    def future(self) -> Future[Any] | None:
        """A future for one more request that waits. None if the answer is final."""
        added: Future[Any] = Future()
        with self._lock:
            if self._finished:
                return None
            if self._started:
                added.set_running_or_notify_cancel()
            self._futures.append(added)
        return added

    @property
    def abandoned(self) -> bool:
        """Whether all futures are cancelled."""
        with self._lock:
            return all(future.cancelled() for future in self._futures)

    def start(self) -> bool:
        """From here on the work is done, even if clients disconnect. False if all did before, or it has its answer."""
        with self._lock:
            if not self._started:
                self._futures = [future for future in self._futures if future.set_running_or_notify_cancel()]
                self._started = bool(self._futures)
            if self._started:
                return not self._finished
        self._finish()
        return False

    def resolve(self, result: Any) -> None:
        for future in self._finish() if self.start() else ():
            future.set_result(result)

    def fail(self, problem: BaseException) -> None:
        for future in self._finish() if self.start() else ():
            future.set_exception(problem)

    def _finish(self) -> list[Future[Any]]:
        """Give the key back first: a request that comes later must not join an answer that is final."""
        if self._keys is not None:
            self._keys.release(self)
        with self._lock:
            self._finished = True
            return self._futures


class IdempotencyKeys:
    """Remembers answers by idempotency key, so that the same request with the same key is done only once."""

    def __init__(self, stored: Iterable[StoredAnswer]) -> None:
        self._lock = threading.Lock()
        self._answers = {
            False: _AnswerCache(MAX_KEYS, MAX_KEY_BYTES),
            True: _AnswerCache(MAX_ANNOTATION_KEYS, MAX_ANNOTATION_KEY_BYTES),
        }
        for answer in stored:
            self._cache_of(answer.key).add(answer)
        self._running: dict[str, PendingAnswer] = {}

    def claim(self, key: str, digest: str) -> PendingAnswer | Future[Any]:
        """A PendingAnswer if the caller has to do the work; a Future if it is done or under way."""
        if not (isinstance(key, str) and 0 < len(key) <= MAX_KEY_LENGTH and key.isprintable()):
            raise BadRequest(f"An idempotency key must be printable text of at most {MAX_KEY_LENGTH} characters.")
        with self._lock:
            done, running = self._cache_of(key).get(key), self._running.get(key)
            before = done or (running.stored if running is not None else None)
            if before is not None and before.digest != digest:
                raise Conflict(f"The idempotency key {key} was used for another request.")
            if done is not None:
                future: Future[Any] = Future()
                future.set_result(from_json(done.answer))
                return future
            if running is not None and (joined := running.future()) is not None:
                return joined
            self._running[key] = PendingAnswer(StoredAnswer(key, digest, ""), self)
            return self._running[key]

    def find(self, key: str) -> LearnResult | Correction | None:
        """The answer that was given to a request with this key."""
        with self._lock:
            done = self._cache_of(key).get(key)
        return None if done is None else from_json(done.answer)

    def annotation_keys(self, prefix: str) -> list[str]:
        """The keys of annotations that start with the prefix, oldest first."""
        with self._lock:
            return [key for key in self._answers[True] if key.startswith(prefix)]

    def _cache_of(self, key: str) -> _AnswerCache:
        return self._answers[key.startswith(ANNOTATION_PREFIX)]

    def release(self, pending: PendingAnswer) -> None:
        """Forget that the work is under way."""
        with self._lock:
            if pending.stored is not None and self._running.get(pending.stored.key) is pending:
                del self._running[pending.stored.key]

    def store(self, answers: Iterable[StoredAnswer]) -> list[str]:
        """Remember answers. Returns the keys of the oldest answers, which no longer fit."""
        with self._lock:
            return [dropped for answer in answers for dropped in self._cache_of(answer.key).add(answer)]


class _AnswerCache(OrderedDict[str, StoredAnswer]):
    """Answers by key. The oldest are dropped if there are too many, or if they have too many bytes."""

    def __init__(self, max_count: int, max_bytes: int) -> None:
        super().__init__()
        self.max_count, self.max_bytes, self.bytes = max_count, max_bytes, 0

    def add(self, stored: StoredAnswer) -> list[str]:
        """Add an answer. Returns the keys that were dropped."""
        dropped = []
        self[stored.key] = stored
        self.bytes += len(stored.answer)
        while len(self) > self.max_count or self.bytes > self.max_bytes:
            key, old = self.popitem(last=False)
            self.bytes -= len(old.answer)
            dropped.append(key)
        return dropped


def request_digest(*parts: Any) -> str:
    """A digest of a request's content. Bytes are hashed as they are, everything else as JSON."""
    made = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = bytes(part) if isinstance(part, (bytes, memoryview)) else json.dumps(part).encode()
        made.update(len(data).to_bytes(8, "little"))
        made.update(data)
    return made.hexdigest()


def to_json(answer: LearnResult | Correction) -> str:
    """An answer as the journal stores it."""
    return json.dumps(asdict(answer))


def from_json(text: str) -> LearnResult | Correction:
    """The answer that `to_json` wrote."""
    fields = json.loads(text)
    if "kind" in fields:
        return Correction(**fields)
    samples = [
        LearnedSample(**{**sample, "was": None if sample["was"] is None else PreviousPrediction(**sample["was"])})
        for sample in fields["lessons"]
    ]
    return LearnResult(samples, [FileProblem(**problem) for problem in fields["problems"]])
