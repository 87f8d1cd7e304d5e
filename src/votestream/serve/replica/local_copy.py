"""The local copy of a follower: the model file, and a note beside it about where it comes from.

`shop.safetensors.follows` is JSON: the writer's address, the model's identity, and the one or two states (number and
digest) that the file may have. It is written before the file is replaced, so that the file has one of these states even
if the follower is killed. A file in another state was not written by a follower, and is not overwritten.
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
from votestream.model_store.paths import ModelStoreError
from votestream.serve.engine.journal import journal_path
from votestream.serve.engine.messages import ModelVersion
from votestream.serve.engine.model_view import FileDigest
from votestream.serve.engine.recovery import read_model_file
from votestream.serve.engine.served_model import file_signature
from votestream.serve.engine.settings import EngineSettings
from votestream.serve.replica.upstream import CHUNK_BYTES, SentModel, Unreachable, Unusable, Upstream


class LoadedModel(NamedTuple):
    """A state of the writer's model that is ready to predict. The learner is None if nothing was learned yet."""

    version: ModelVersion
    learner: Learner | None
    snapshot: Snapshot | None
    backbone: dict[str, Any] | None


class CopyNote(NamedTuple):
    """The content of the note beside the copy."""

    writer: str
    model: str
    states: list[tuple[int, str]]  # lesson and digest


class LocalCopy:
    """The copy at `path`, for one thread at a time. `version` is the state in the file, None without a file."""

    def __init__(self, path: Path, upstream: Upstream, settings: EngineSettings) -> None:
        self.path, self._upstream, self._settings = path, upstream, settings
        self._note_path = path.with_name(f"{path.name}.follows")
        self._note = self._read_note()
        self.version = self._version_of_file()
        self._file = file_signature(path)
        self._writing = threading.Lock()
        self._closed = False

    def close(self) -> None:
        """Write nothing from now on. Any thread may call this."""
        with self._writing:
            self._closed = True

    @property
    def trusted(self) -> bool:
        """Whether the note says that the file is a copy of this writer's model."""
        return self.version is not None and self._note is not None and self._note.writer == self._upstream.url

    def load(self) -> LoadedModel:
        """Load the state in the file."""
        assert self.version is not None
        return self._load(self.version, self.path)

    def update(self, show: Callable[[LoadedModel], None]) -> None:
        """Fetch the writer's newest state, if the file has an older one. `show` is called before it is on disk."""
        with self._upstream.file(self.version) as sent:
            if sent is None:
                self._renew_note()
                return
            if self.version is not None and sent.version.model != self.version.model:
                raise Unusable(
                    f"{self._upstream.url} serves another model now than the one that {self.path} is a copy of: move "
                    f"{self.path} away and start the follower again to follow that one."
                )
            if file_signature(self.path) not in (None, self._file):
                raise ModelStoreError(
                    f"{self.path} was changed by another program, and is not overwritten: move it away."
                )
            if sent.version.digest:
                self._receive(sent, show)
            else:
                self._delete(sent.version, show)
        self._file = file_signature(self.path)

    def _receive(self, sent: SentModel, show: Callable[[LoadedModel], None]) -> None:
        """Write the file beside the copy, check it, and only then replace the copy."""
        with beside(self.path) as (handle, name):
            digest = FileDigest()
            with os.fdopen(handle, "wb") as file:
                for chunk in sent.chunks:
                    digest.update(chunk)
                    file.write(chunk)
                file.flush()
                if digest.text != sent.version.digest:
                    raise Unreachable(f"{self._upstream.url} sent a file that does not match its ETag.")
                show(self._load(sent.version, Path(name)))
                os.fsync(file.fileno())
            with self._not_closed():
                self._write_note(sent.version)
                os.chmod(name, permissions(self.path))
                os.replace(name, self.path)
        sync_folder(self.path.parent)
        self.version = sent.version

    def _delete(self, version: ModelVersion, show: Callable[[LoadedModel], None]) -> None:
        """Delete the file, since all samples were undone."""
        show(LoadedModel(version, None, None, None))
        with self._not_closed():
            self.path.unlink(missing_ok=True)
        self.version = None

    @contextmanager
    def _not_closed(self) -> Iterator[None]:
        with self._writing:
            if self._closed:
                raise Unreachable("The follower is stopping.")
            yield

    def _load(self, version: ModelVersion, path: Path) -> LoadedModel:
        try:
            learner, backbone = read_model_file(path, self._settings)
        except ModelStoreError as problem:
            source = str(self.path) if path == self.path else f"The file of {self._upstream.url}"
            raise ModelStoreError(str(problem).replace(str(path), source)) from None
        name = "" if backbone is None else backbone["name"]
        if ":" in name and self._settings.backbone != name:
            raise ModelStoreError(
                f"The model of {self._upstream.url} uses the backbone {name}, which is not part of VoteStream: "
                "if it may be loaded here, name it with --backbone."
            )
        return LoadedModel(version, learner, learner.snapshot(), backbone)

    # ---- the note -------------------------------------------------------------------------------

    def _version_of_file(self) -> ModelVersion | None:
        """The state in the file. Raises ModelStoreError if the file is not a copy that a follower wrote."""
        if not self.path.exists():
            return None
        instead = "name another file for the copy"
        if (journal := journal_path(self.path)).exists():
            raise ModelStoreError(f"{self.path} was trained here, and {journal.name} has its changes: {instead}.")
        digest = FileDigest()
        with self.path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                digest.update(chunk)
        if self._note is not None:
            for lesson, known in self._note.states:
                if known == digest.text:
                    return ModelVersion(self._note.model, lesson, known)
        raise ModelStoreError(f"{self.path} is not a copy that a follower wrote, and would be overwritten: {instead}.")

    def _read_note(self) -> CopyNote | None:
        try:
            fields = json.loads(self._note_path.read_text(encoding="utf-8"))
            states = [(int(lesson), str(digest)) for lesson, digest in fields["states"]]
            return CopyNote(str(fields["writer"]), str(fields["model"]), states)
        except FileNotFoundError:
            return None
        except (KeyError, OSError, RecursionError, TypeError, ValueError):
            raise ModelStoreError(
                f"{self._note_path} is not the note of a follower about {self.path.name}, or it is damaged. "
                "Move both away."
            ) from None

    def _write_note(self, next_version: ModelVersion) -> None:
        """Note the next state, before the file is replaced."""
        here = [] if self.version is None else [self.version]
        states = [(version.lesson, version.digest) for version in (*here, next_version)]
        self._note = CopyNote(self._upstream.url, next_version.model, states)
        with beside(self._note_path) as (handle, name):
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(self._note._asdict(), file)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, permissions(self._note_path))
            os.replace(name, self._note_path)
        sync_folder(self.path.parent)

    def _renew_note(self) -> None:
        """Note the new address of a writer that has moved."""
        if self.version is not None and not self.trusted:
            self._write_note(self.version)
