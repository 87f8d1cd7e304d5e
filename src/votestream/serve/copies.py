"""A follower's copy of a model: the file, and a note beside it that says whose copy it is.

`shop.safetensors.follows` is JSON: the writer's address, the model's identity, and the one or two states (number and
digest) that the file may be. It is written before the file is replaced: whenever a follower is killed, the file is one
of them. A file that is none of them was not written by a follower, and is left alone.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from votestream.core.snapshot import Snapshot
from votestream.io.model_files import sync_folder
from votestream.io.partial_files import beside, permissions
from votestream.learners import Learner
from votestream.model_store.paths import ModelStoreError as PhotoError
from votestream.serve.journal import journal_beside
from votestream.serve.messages import Version
from votestream.serve.opening import read_model
from votestream.serve.settings import EngineSettings
from votestream.serve.state import signature
from votestream.serve.upstream import PIECE, Sent, Unreachable, Unusable, Upstream
from votestream.serve.view import Digest


class Copied(NamedTuple):
    """A state of the writer's model, ready to predict; without a learner where nothing was learned."""

    version: Version
    learner: Learner | None
    snapshot: Snapshot | None
    backbone: dict[str, Any] | None


class Note(NamedTuple):
    """What lies beside the copy."""

    writer: str
    model: str
    states: list[tuple[int, str]]  # lesson and digest


class LocalCopy:
    """The copy at `path`. One thread at a time uses it. `version` is the state in the file, None without a file."""

    def __init__(self, path: Path, upstream: Upstream, settings: EngineSettings) -> None:
        self.path, self._upstream, self._settings = path, upstream, settings
        self._beside = path.with_name(f"{path.name}.follows")
        self._note = self._read_note()
        self.version = self._found()
        self._file = signature(path)
        self._writing = threading.Lock()
        self._closed = False

    def close(self) -> None:
        """From here on nothing is written any more; from any thread."""
        with self._writing:
            self._closed = True

    @property
    def trusted(self) -> bool:
        """Whether the file is a copy of that writer's model, as far as can be told without asking it."""
        return self.version is not None and self._note is not None and self._note.writer == self._upstream.url

    def load(self) -> Copied:
        """The state in the file."""
        assert self.version is not None
        return self._ready(self.version, self.path)

    def update(self, show: Callable[[Copied], None]) -> None:
        """Bring the file to the writer's newest state, unless it holds that; `show` is called before it is on disk."""
        with self._upstream.file(self.version) as sent:
            if sent is None:
                self._renew_note()
                return
            if self.version is not None and sent.version.model != self.version.model:
                raise Unusable(
                    f"{self._upstream.url} serves another model now than the one that {self.path} is a copy of: move "
                    f"{self.path} away and start the follower again to follow that one."
                )
            if signature(self.path) not in (None, self._file):
                raise PhotoError(f"{self.path} was changed by something else meanwhile, which stays: move it away.")
            if sent.version.digest:
                self._receive(sent, show)
            else:
                self._empty(sent.version, show)
        self._file = signature(self.path)

    def _receive(self, sent: Sent, show: Callable[[Copied], None]) -> None:
        """Written beside, read and checked, and only then in place of what was there."""
        with beside(self.path) as (handle, name):
            digest = Digest()
            with os.fdopen(handle, "wb") as file:
                for piece in sent.pieces:
                    digest.update(piece)
                    file.write(piece)
                file.flush()
                if digest.text != sent.version.digest:
                    raise Unreachable(f"{self._upstream.url} sent a file that does not match its ETag.")
                show(self._ready(sent.version, Path(name)))
                os.fsync(file.fileno())
            with self._still_open():
                self._write_note(sent.version)
                os.chmod(name, permissions(self.path))
                os.replace(name, self.path)
        sync_folder(self.path.parent)
        self.version = sent.version

    def _empty(self, version: Version, show: Callable[[Copied], None]) -> None:
        """All that was learned was taken back: there is no file any more."""
        show(Copied(version, None, None, None))
        with self._still_open():
            self.path.unlink(missing_ok=True)
        self.version = None

    @contextmanager
    def _still_open(self) -> Iterator[None]:
        with self._writing:
            if self._closed:
                raise Unreachable("The follower is stopping.")
            yield

    def _ready(self, version: Version, path: Path) -> Copied:
        try:
            learner, backbone = read_model(path, self._settings)
        except PhotoError as problem:
            source = str(self.path) if path == self.path else f"The file of {self._upstream.url}"
            raise PhotoError(str(problem).replace(str(path), source)) from None
        name = "" if backbone is None else backbone["name"]
        if ":" in name and self._settings.backbone != name:
            raise PhotoError(
                f"The model of {self._upstream.url} sees through the backbone {name}, which is not part of VoteStream: "
                "if it may be loaded here, name it with --backbone."
            )
        return Copied(version, learner, learner.snapshot(), backbone)

    # ---- whose copy it is -----------------------------------------------------------------------

    def _found(self) -> Version | None:
        """The state in the file; PhotoError where the file is no copy."""
        if not self.path.exists():
            return None
        instead = "name another file for the copy"
        if (lessons := journal_beside(self.path)).exists():
            raise PhotoError(f"{self.path} was taught here, {lessons.name} has its lessons: {instead}.")
        digest = Digest()
        with self.path.open("rb") as file:
            while piece := file.read(PIECE):
                digest.update(piece)
        if self._note is not None:
            for lesson, known in self._note.states:
                if known == digest.text:
                    return Version(self._note.model, lesson, known)
        raise PhotoError(f"{self.path} is no copy that a follower wrote, and would be lost: {instead}.")

    def _read_note(self) -> Note | None:
        try:
            told = json.loads(self._beside.read_text(encoding="utf-8"))
            states = [(int(lesson), str(digest)) for lesson, digest in told["states"]]
            return Note(str(told["writer"]), str(told["model"]), states)
        except FileNotFoundError:
            return None
        except (KeyError, OSError, RecursionError, TypeError, ValueError):
            raise PhotoError(
                f"{self._beside} is damaged, or not ours: a follower notes there what {self.path.name} is a copy of. "
                "Move both away."
            ) from None

    def _write_note(self, coming: Version) -> None:
        """Before the file is replaced by that state."""
        here = [] if self.version is None else [self.version]
        states = [(version.lesson, version.digest) for version in (*here, coming)]
        self._note = Note(self._upstream.url, coming.model, states)
        with beside(self._beside) as (handle, name):
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(self._note._asdict(), file)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, permissions(self._beside))
            os.replace(name, self._beside)
        sync_folder(self.path.parent)

    def _renew_note(self) -> None:
        """The writer has moved to another address, and its model is the same."""
        if self.version is not None and not self.trusted:
            self._write_note(self.version)
