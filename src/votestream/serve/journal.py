"""The file beside a model that keeps its newest lessons: `shop.safetensors.lessons`, an SQLite database.

It holds bases (the model as it was after some change) and every change since the oldest base. So the state of the
model is always a function of what is on disk: a base, and the changes after it that were not taken back. The model
file is brought up to date from time to time; `folded` is the state in it, `coming` the one that is being written.

One thread at a time may use it: whoever opens it, then the writer.
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
from votestream.model_store.paths import ModelStoreError as PhotoError
from votestream.model_store.paths import resolve_link as followed

OURS, VERSION = 0x564F5453, 1  # in the file's header: "VOTS", and the version of these tables
KEYS, KEY_BYTES = 10_000, 16 << 20  # answers kept for requests that are sent again
ANNOTATION_KEYS, ANNOTATION_KEY_BYTES = 200_000, 64 << 20  # those for what Label Studio's annotations taught
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


class Entry(NamedTuple):
    """One change. Samples that one request taught together have one `call`, the number of the first of them."""

    number: int
    call: int
    kind: str  # "learn", "rename", "forget", "undo"
    about: dict[str, Any]
    features: NDArray[np.float32] | None = None  # of a sample that was learned and not taken back
    undone_by: int | None = None  # the change that took it back


class Folded(NamedTuple):
    """What a model file holds: all changes up to a number, so many samples. Without a file, there is no fingerprint."""

    number: int
    fingerprint: str
    samples: int


class Kept(NamedTuple):
    """A request that was answered, known by the key that came with it."""

    key: str
    digest: str
    answer: str


def journal_beside(model: Path) -> Path:
    path = followed(model)
    return path.with_name(f"{path.name}.lessons")


class LessonsFile:
    """The database, open for this process alone."""

    def __init__(self, path: Path) -> None:
        self.path = path
        _check_kind(path)
        try:
            self._db = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as problem:
            raise PhotoError(f"{path} cannot be opened: {problem}.") from None
        try:
            self._prepare()
        except BaseException:
            self._db.close()
            raise

    def _prepare(self) -> None:
        with self._explained():
            # Without -shm files, which network file systems cannot share, and with nobody else in it.
            self._one("PRAGMA locking_mode = EXCLUSIVE")
            self._one("PRAGMA journal_mode = WAL")
            self._one("PRAGMA synchronous = FULL")
            self._one("PRAGMA fullfsync = ON")  # on macOS, where less does not reach the disk
            self._one("PRAGMA secure_delete = ON")
            self._one("PRAGMA journal_size_limit = 4194304")
            self.new = self._one("PRAGMA application_id") == 0 and self._one("SELECT count(*) FROM sqlite_master") == 0
            if self.new:
                with self.transaction():
                    for statement in TABLES.split(";")[:-1]:
                        self._db.execute(statement)
                    self._db.execute(f"PRAGMA application_id = {OURS}")
                    self._db.execute(f"PRAGMA user_version = {VERSION}")
                sync_folder(self.path.parent)
                return
            version = self._one("PRAGMA user_version")
            if self._one("PRAGMA application_id") != OURS:
                raise PhotoError(
                    f"{self.path} is in the way: `votestream serve` keeps its lessons there. Move it away."
                )
            if version != VERSION:
                raise PhotoError(
                    f"{self.path} is of version {version}, and this VoteStream reads {VERSION}: update it."
                )
            if (found := self._one("PRAGMA quick_check(1)")) != "ok":
                raise sqlite3.DatabaseError(" ".join(found.split()))
        for number in self.bases():
            self.base(number)  # compares checksums, as the next line does
        self.entries(0)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Whatever is wrong with the file becomes a sentence that says what to do."""
        try:
            yield
        except sqlite3.OperationalError as problem:  # the disk, or a lock
            raise PhotoError(f"{self.path} cannot be used: {problem}.") from None
        except (sqlite3.Error, KeyError, TypeError, ValueError) as problem:
            raise PhotoError(
                f"{self.path} is damaged ({problem}). It holds the newest lessons, which may not be in the model file "
                "yet: put a copy of it back, or move it away to go on without them."
            ) from None

    def close(self) -> None:
        with suppress(sqlite3.Error):
            self._db.close()

    def _one(self, statement: str, *values: Any) -> Any:
        row = self._db.execute(statement, values).fetchone()
        return None if row is None else row[0]

    # ---- reading --------------------------------------------------------------------------------

    def last_number(self) -> int:
        with self._explained():
            highest = self._one("SELECT max(number) FROM (SELECT number FROM changes UNION SELECT number FROM bases)")
            return int(highest or 0)

    def bases(self) -> list[int]:
        """The changes after which there is a base, in order."""
        with self._explained():
            return [number for (number,) in self._db.execute("SELECT number FROM bases ORDER BY number")]

    def base(self, number: int) -> tuple[dict[str, Any], Arrays]:
        """Header and arrays of a base."""
        with self._explained():
            text, told = self._db.execute("SELECT header, digest FROM bases WHERE number = ?", (number,)).fetchone()
            rows = self._db.execute("SELECT name, kind, shape, bytes FROM arrays WHERE base = ?", (number,))
            arrays = {
                name: np.frombuffer(data, np.dtype(kind)).reshape(json.loads(shape)).copy()
                for name, kind, shape, data in rows
            }
            if digest(text, arrays) != told:
                raise ValueError("the model in it does not match its checksum")
            return upgraded({"format": 2, **json.loads(text)}), arrays  # version 0.2.0 wrote no format

    def entries(self, after: int) -> list[Entry]:
        """The changes after a number, in order."""
        with self._explained():
            return list(map(_entry, self._db.execute(f"{_SELECT} WHERE number > ? ORDER BY number", (after,))))

    def entry(self, number: int) -> Entry | None:
        with self._explained():
            row = self._db.execute(f"{_SELECT} WHERE number = ?", (number,)).fetchone()
            return None if row is None else _entry(row)

    def newest(self, n: int) -> list[Entry]:
        """The last so many changes, newest first."""
        with self._explained():
            return list(map(_entry, self._db.execute(f"{_SELECT} ORDER BY number DESC LIMIT ?", (n,))))

    def last_standing(self) -> int | None:
        """The newest change that was not taken back."""
        with self._explained():
            standing = self._one("SELECT max(number) FROM changes WHERE kind != 'undo' AND undone_by IS NULL")
            return None if standing is None else int(standing)

    def undone_since(self, number: int) -> bool:
        """Whether changes up to a number were taken back after it."""
        with self._explained():
            return bool(self._one("SELECT count(*) FROM changes WHERE number <= ? AND undone_by > ?", number, number))

    def kept_answers(self) -> list[Kept]:
        """Oldest first."""
        with self._explained():
            return [Kept(*row) for row in self._db.execute("SELECT key, digest, answer FROM keys ORDER BY number")]

    def note(self, name: str) -> Any:
        """What was noted under a name, None where nothing was."""
        with self._explained():
            text = self._one("SELECT value FROM about WHERE name = ?", name)
            return None if text is None else json.loads(text)

    def folded(self, name: str = "folded") -> Folded | None:
        noted = self.note(name)
        return None if noted is None else Folded(*noted)

    def bytes_on_disk(self) -> int:
        files = (self.path, self.path.with_name(f"{self.path.name}-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def identity(self) -> str:
        """By which copies of the model know whose copies they are; drawn when it is first asked for."""
        if (found := self.note("model")) is None:
            found = secrets.token_hex(8)
            with self.transaction():
                self.set_note("model", found)
        return str(found)

    # ---- writing: within a transaction ----------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """On disk when it ends, all of it; or nothing."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                with suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
            raise

    def add(self, entries: Iterable[Entry]) -> None:
        self._db.executemany("INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?)", map(_row, entries))

    def mark_undone(self, number: int, by: int) -> None:
        """The change does not count any more, and its features are gone."""
        self._db.execute("UPDATE changes SET undone_by = ?, features = NULL WHERE number = ?", (by, number))

    def add_base(self, number: int, header: dict[str, Any], arrays: Arrays) -> None:
        text = json.dumps({"format": FORMAT, **header})
        self._db.execute("INSERT INTO bases VALUES (?, ?, ?)", (number, text, digest(text, contiguous(arrays))))
        rows = ((number, name, a.dtype.str, json.dumps(a.shape), a.tobytes()) for name, a in arrays.items())
        self._db.executemany("INSERT INTO arrays VALUES (?, ?, ?, ?, ?)", rows)

    def drop_bases(self, first: int, last: int) -> None:
        """Those from a number to another."""
        self._db.execute("DELETE FROM bases WHERE number BETWEEN ? AND ?", (first, last))
        self._db.execute("DELETE FROM arrays WHERE base BETWEEN ? AND ?", (first, last))

    def drop_changes(self, last: int) -> None:
        """Those up to a number, features and all."""
        self._db.execute("DELETE FROM changes WHERE number <= ?", (last,))

    def set_note(self, name: str, value: Any) -> None:
        self._db.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (name, json.dumps(value)))

    def keep_answer(self, kept: Kept) -> None:
        self._db.execute("INSERT INTO keys (key, digest, answer) VALUES (?, ?, ?)", kept)

    def drop_answers(self, keys: Iterable[str]) -> None:
        self._db.executemany("DELETE FROM keys WHERE key = ?", ((key,) for key in keys))

    def tidy(self) -> None:
        """Let the write-ahead log go, so that nothing deleted is left in it."""
        self._one("PRAGMA wal_checkpoint(TRUNCATE)")


_SELECT = "SELECT number, call, kind, about, features, digest, undone_by FROM changes"


def contiguous(arrays: Arrays) -> Arrays:
    return {name: np.ascontiguousarray(array).reshape(array.shape) for name, array in arrays.items()}


def _row(entry: Entry) -> tuple[Any, ...]:
    about, data = json.dumps(entry.about), None if entry.features is None else entry.features.tobytes()
    return (*entry[:3], about, data, _digest(*entry[:3], about, data), entry.undone_by)


def _entry(row: tuple[Any, ...]) -> Entry:
    number, call, kind, about, data, told, undone_by = row
    if undone_by is None and _digest(number, call, kind, about, data) != told:
        raise ValueError(f"lesson {number} does not match its checksum")
    return Entry(number, call, kind, json.loads(about), None if data is None else np.frombuffer(data, "<f4"), undone_by)


def _digest(number: int, call: int, kind: str, about: str, data: bytes | None) -> str:
    made = hashlib.blake2b(f"{number} {call} {kind} {about}\n".encode(), digest_size=8)
    made.update(data or b"")
    return made.hexdigest()


def _check_kind(path: Path) -> None:
    """Leave alone what is no database."""
    try:
        if not path.is_file() and path.exists():
            raise PhotoError(f"{path} is in the way: `votestream serve` keeps its lessons there. Move it away.")
        with path.open("rb") as file:
            start = file.read(16)
    except FileNotFoundError:
        return
    except OSError as problem:
        raise PhotoError(f"{path} cannot be read: {problem.strerror or problem}.") from None
    if start and start != b"SQLite format 3\0":
        raise PhotoError(
            f"{path} is no file of lessons, or a damaged one: put a copy of it back, or move it away to go on without "
            "the lessons that it held."
        )
