"""The journal beside a model that keeps its newest changes: `shop.safetensors.lessons`, an SQLite database.

It holds bases (the model after some change) and every change since the oldest base. The state of the model follows from
it: the newest base, and the later changes that are not undone. From time to time a checkpoint brings the model file up
to date. In the table `about`, `folded` is the checkpoint in the model file, and `coming` the one that is being written.

Only one thread at a time may use it: the one that opens it, then the writer.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from votestream.io.migrations import FORMAT, upgraded
from votestream.io.model_files import digest, sync_folder
from votestream.model_store.paths import ModelStoreError, resolve_link

OURS, VERSION = 0x564F5453, 1  # in the file's header: "VOTS", and the version of these tables
MAX_KEYS, MAX_KEY_BYTES = 10_000, 16 << 20  # answers that are kept for repeated requests
MAX_ANNOTATION_KEYS, MAX_ANNOTATION_KEY_BYTES = 200_000, 64 << 20  # answers for annotations of Label Studio
TABLES = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE bases (number INTEGER PRIMARY KEY, header TEXT NOT NULL, digest TEXT NOT NULL);
CREATE TABLE arrays (base INTEGER, name TEXT, kind TEXT NOT NULL, shape TEXT NOT NULL, bytes BLOB NOT NULL,
                     PRIMARY KEY (base, name));
CREATE TABLE changes (number INTEGER PRIMARY KEY, call INTEGER NOT NULL, kind TEXT NOT NULL, about TEXT NOT NULL,
                      features BLOB, digest TEXT NOT NULL, undone_by INTEGER);
CREATE TABLE keys (number INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, digest TEXT NOT NULL, answer TEXT NOT NULL);
"""
Arrays = dict[str, NDArray[Any]]


class JournalEntry(NamedTuple):
    """One change. The samples of one request share a `call`: the number of the first of them."""

    number: int
    call: int
    kind: str  # "learn", "rename", "forget", "undo"
    about: dict[str, Any]
    features: NDArray[np.float32] | None = None  # of a sample that was learned and is not undone
    undone_by: int | None = None  # the change that undid it


class Checkpoint(NamedTuple):
    """The state in a model file: all changes up to a number. The fingerprint is empty if there is no file."""

    number: int
    fingerprint: str
    samples: int


class StoredAnswer(NamedTuple):
    """The answer to a request with an idempotency key."""

    key: str
    digest: str
    answer: str


def journal_path(model: Path) -> Path:
    path = resolve_link(model)
    return path.with_name(f"{path.name}.lessons")


class ChangeJournal:
    """The database. No other process can open it meanwhile."""

    def __init__(self, path: Path) -> None:
        self.path = path
        _check_kind(path)
        try:
            self._db = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as problem:
            raise ModelStoreError(f"{path} cannot be opened: {problem}.") from None
        try:
            self._prepare()
        except BaseException:
            self._db.close()
            raise

    def _prepare(self) -> None:
        with self._readable_errors():
            # Exclusive locking needs no -shm file, which network file systems cannot share.
            self._scalar("PRAGMA locking_mode = EXCLUSIVE")
            self._scalar("PRAGMA journal_mode = WAL")
            self._scalar("PRAGMA synchronous = FULL")
            self._scalar("PRAGMA fullfsync = ON")  # macOS needs it to reach the disk
            self._scalar("PRAGMA secure_delete = ON")
            self._scalar("PRAGMA journal_size_limit = 4194304")
            self.new = (
                self._scalar("PRAGMA application_id") == 0 and self._scalar("SELECT count(*) FROM sqlite_master") == 0
            )
            if self.new:
                with self.transaction():
                    for statement in TABLES.split(";")[:-1]:
                        self._db.execute(statement)
                    self._db.execute(f"PRAGMA application_id = {OURS}")
                    self._db.execute(f"PRAGMA user_version = {VERSION}")
                sync_folder(self.path.parent)
                return
            version = self._scalar("PRAGMA user_version")
            if self._scalar("PRAGMA application_id") != OURS:
                raise ModelStoreError(
                    f"{self.path} is in the way: `votestream serve` writes its journal there. Move it away."
                )
            if version != VERSION:
                raise ModelStoreError(
                    f"{self.path} is of version {version}, and this VoteStream reads {VERSION}: update it."
                )
            if (found := self._scalar("PRAGMA quick_check(1)")) != "ok":
                raise sqlite3.DatabaseError(" ".join(found.split()))
        for number in self.bases():
            self.base(number)  # checks the checksum; so does the next line
        self.entries(0)

    @contextmanager
    def _readable_errors(self) -> Iterator[None]:
        """Turn errors of the database into a ModelStoreError that says what to do."""
        try:
            yield
        except sqlite3.OperationalError as problem:  # the disk, or a lock
            raise ModelStoreError(f"{self.path} cannot be used: {problem}.") from None
        except (sqlite3.Error, KeyError, TypeError, ValueError) as problem:
            raise ModelStoreError(
                f"{self.path} is damaged ({problem}). It holds the newest lessons, which may not be in the model file "
                "yet: put a copy of it back, or move it away to go on without them."
            ) from None

    def close(self) -> None:
        with suppress(sqlite3.Error):
            self._db.close()

    def _scalar(self, statement: str, *values: Any) -> Any:
        row = self._db.execute(statement, values).fetchone()
        return None if row is None else row[0]

    # ---- reading --------------------------------------------------------------------------------

    def last_number(self) -> int:
        with self._readable_errors():
            highest = self._scalar(
                "SELECT max(number) FROM (SELECT number FROM changes UNION SELECT number FROM bases)"
            )
            return int(highest or 0)

    def bases(self) -> list[int]:
        """The numbers of the changes after which there is a base, in order."""
        with self._readable_errors():
            return [number for (number,) in self._db.execute("SELECT number FROM bases ORDER BY number")]

    def base(self, number: int) -> tuple[dict[str, Any], Arrays]:
        """Header and arrays of a base."""
        with self._readable_errors():
            text, stored_digest = self._db.execute(
                "SELECT header, digest FROM bases WHERE number = ?", (number,)
            ).fetchone()
            rows = self._db.execute("SELECT name, kind, shape, bytes FROM arrays WHERE base = ?", (number,))
            arrays = {
                name: np.frombuffer(data, np.dtype(kind)).reshape(json.loads(shape)).copy()
                for name, kind, shape, data in rows
            }
            if digest(text, arrays) != stored_digest:
                raise ValueError("the model in it does not match its checksum")
            return upgraded({"format": 2, **json.loads(text)}), arrays  # version 0.2.0 wrote no format

    def entries(self, after: int) -> list[JournalEntry]:
        """The changes after a number, in order."""
        with self._readable_errors():
            return list(map(_entry, self._db.execute(f"{_SELECT} WHERE number > ? ORDER BY number", (after,))))

    def entry(self, number: int) -> JournalEntry | None:
        with self._readable_errors():
            row = self._db.execute(f"{_SELECT} WHERE number = ?", (number,)).fetchone()
            return None if row is None else _entry(row)

    def newest(self, n: int) -> list[JournalEntry]:
        """The last `n` changes, newest first."""
        with self._readable_errors():
            return list(map(_entry, self._db.execute(f"{_SELECT} ORDER BY number DESC LIMIT ?", (n,))))

    def last_undoable(self) -> int | None:
        """The number of the newest change that is not undone."""
        with self._readable_errors():
            standing = self._scalar("SELECT max(number) FROM changes WHERE kind != 'undo' AND undone_by IS NULL")
            return None if standing is None else int(standing)

    def undone_since(self, number: int) -> bool:
        """Whether a change up to this number was undone after it."""
        with self._readable_errors():
            return bool(
                self._scalar("SELECT count(*) FROM changes WHERE number <= ? AND undone_by > ?", number, number)
            )

    def stored_answers(self) -> list[StoredAnswer]:
        """All stored answers, oldest first."""
        with self._readable_errors():
            return [
                StoredAnswer(*row) for row in self._db.execute("SELECT key, digest, answer FROM keys ORDER BY number")
            ]

    def note(self, name: str) -> Any:
        """The value that was stored under a name, or None."""
        with self._readable_errors():
            text = self._scalar("SELECT value FROM about WHERE name = ?", name)
            return None if text is None else json.loads(text)

    def checkpoint(self, name: str = "folded") -> Checkpoint | None:
        noted = self.note(name)
        return None if noted is None else Checkpoint(*noted)

    def bytes_on_disk(self) -> int:
        files = (self.path, self.path.with_name(f"{self.path.name}-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def identity(self) -> str:
        """A random identity of the model, which followers compare. It is created at the first call."""
        if (found := self.note("model")) is None:
            found = secrets.token_hex(8)
            with self.transaction():
                self.set_note("model", found)
        return str(found)

    # ---- writing, in a transaction --------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Everything in the block is on disk when it ends, or nothing is."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                with suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
            raise

    def add(self, entries: Iterable[JournalEntry]) -> None:
        self._db.executemany("INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?)", map(_row, entries))

    def mark_undone(self, number: int, by: int) -> None:
        """Mark a change as undone, and delete its features."""
        self._db.execute("UPDATE changes SET undone_by = ?, features = NULL WHERE number = ?", (by, number))

    def add_base(self, number: int, header: dict[str, Any], arrays: Arrays) -> None:
        text = json.dumps({"format": FORMAT, **header})
        self._db.execute("INSERT INTO bases VALUES (?, ?, ?)", (number, text, digest(text, contiguous(arrays))))
        rows = ((number, name, a.dtype.str, json.dumps(a.shape), a.tobytes()) for name, a in arrays.items())
        self._db.executemany("INSERT INTO arrays VALUES (?, ?, ?, ?, ?)", rows)

    def drop_bases(self, first: int, last: int) -> None:
        """Delete the bases from one number to another."""
        self._db.execute("DELETE FROM bases WHERE number BETWEEN ? AND ?", (first, last))
        self._db.execute("DELETE FROM arrays WHERE base BETWEEN ? AND ?", (first, last))

    def drop_changes(self, last: int) -> None:
        """Delete the changes up to a number, with their features."""
        self._db.execute("DELETE FROM changes WHERE number <= ?", (last,))

    def set_note(self, name: str, value: Any) -> None:
        self._db.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (name, json.dumps(value)))

    def store_answer(self, kept: StoredAnswer) -> None:
        self._db.execute("INSERT INTO keys (key, digest, answer) VALUES (?, ?, ?)", kept)

    def drop_answers(self, keys: Iterable[str]) -> None:
        self._db.executemany("DELETE FROM keys WHERE key = ?", ((key,) for key in keys))

    def truncate_log(self) -> None:
        """Empty the write-ahead log, so that no deleted data is left in it."""
        self._scalar("PRAGMA wal_checkpoint(TRUNCATE)")


_SELECT = "SELECT number, call, kind, about, features, digest, undone_by FROM changes"


def contiguous(arrays: Arrays) -> Arrays:
    return {name: np.ascontiguousarray(array).reshape(array.shape) for name, array in arrays.items()}


def _row(entry: JournalEntry) -> tuple[Any, ...]:
    about, data = json.dumps(entry.about), None if entry.features is None else entry.features.tobytes()
    return (*entry[:3], about, data, _digest(*entry[:3], about, data), entry.undone_by)


def _entry(row: tuple[Any, ...]) -> JournalEntry:
    number, call, kind, about, data, stored_digest, undone_by = row
    if undone_by is None and _digest(number, call, kind, about, data) != stored_digest:
        raise ValueError(f"lesson {number} does not match its checksum")
    return JournalEntry(
        number, call, kind, json.loads(about), None if data is None else np.frombuffer(data, "<f4"), undone_by
    )


def _digest(number: int, call: int, kind: str, about: str, data: bytes | None) -> str:
    made = hashlib.blake2b(f"{number} {call} {kind} {about}\n".encode(), digest_size=8)
    made.update(data or b"")
    return made.hexdigest()


def _check_kind(path: Path) -> None:
    """Raise ModelStoreError if the file is not a database, and leave it alone."""
    try:
        if not path.is_file() and path.exists():
            raise ModelStoreError(f"{path} is in the way: `votestream serve` writes its journal there. Move it away.")
        with path.open("rb") as file:
            start = file.read(16)
    except FileNotFoundError:
        return
    except OSError as problem:
        raise ModelStoreError(f"{path} cannot be read: {problem.strerror or problem}.") from None
    if start and start != b"SQLite format 3\0":
        raise ModelStoreError(
            f"{path} is not a journal of `votestream serve`, or it is damaged: put a copy of it back, or move it "
            "away to go on without the lessons in it."
        )
