"""`SUITE.csv` in the folder of results: one whole row for each run, appended as it ends."""

from __future__ import annotations

import csv
import hashlib
import io
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from filelock import FileLock, Timeout

from votestream.bench.columns import FIELDS, KEY, is_sound, key_of
from votestream.bench.runs import Run

CHECKOUT = Path(__file__).resolve().parents[3]  # of the sources, where the package was installed from them with -e

csv.field_size_limit(2**31 - 1)  # characters of a cell; the usual limit is passed by a confusion matrix of 256 classes


class ResultsError(ValueError):
    """A file of results that cannot be gone on with; the message says what to do."""


def folder_here(root: Path = Path()) -> Path:
    """Where results are read and written unless a folder is named: `results`, in a checkout `results/accuracy`."""
    in_checkout = root / "results" / "accuracy"
    return in_checkout if in_checkout.is_dir() else root / "results"


def checkout_results() -> Path | None:
    """The results of the checkout that this package runs from, if it does and there are any."""
    folder = folder_here(CHECKOUT)
    return folder if folder.is_dir() and (CHECKOUT / "pyproject.toml").is_file() else None


class Results:
    """The rows of one file. Several processes may append to it at once.

    A row is one line, written in one piece under a lock. A process that is killed while it writes leaves at worst a
    last line without its end, which readers pass over and the next writer cuts off.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     results = Results(Path(folder) / "mine.csv")
    ...     results.append({"method": "ncm", "seed": 0, "Last": 48.7})
    ...     [(row["method"], row["Last"]) for row in results.rows()]
    [('ncm', '48.7')]
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._claims = self.path.parent / f".{self.path.stem}.running"

    def rows(self) -> list[dict[str, str]]:
        """What is there, one row for each run: the last, where it was run again."""
        if not self.path.exists():
            return []
        return list({key_of(row): row for row in self._read(self.path.read_bytes())}.values())

    def _read(self, text: bytes) -> list[dict[str, str]]:
        """Every whole line, with nothing in the columns that an earlier version did not have."""
        try:
            return self._parsed(text[: text.rfind(b"\n") + 1].decode())
        except (UnicodeDecodeError, csv.Error) as error:
            raise ResultsError(f"{self.path} is no file of results: {error}. Mend it or move it away.") from error

    def _parsed(self, text: str) -> list[dict[str, str]]:
        reader = csv.DictReader(io.StringIO(text), restval="")
        columns = reader.fieldnames or KEY
        if not set(KEY) <= set(columns) <= set(FIELDS):
            raise ResultsError(f"{self.path} has other columns than this version writes: move it away.")
        rows = []
        for row in reader:
            if None in row or not is_sound(row):
                raise ResultsError(
                    f"{self.path}, line {reader.line_num}: this is no row of results. Mend it or take it out."
                )
            given = {name: text for name, text in row.items() if text}
            rows.append({**dict.fromkeys(FIELDS, ""), "settings": "{}", "options": "{}", **given})
        return rows

    def done(self, retry: bool = False, again: bool = False) -> set[tuple[str, ...]]:
        """Keys of the runs that need not be run: with `retry` the failed ones are not among them, with `again` none."""
        if again:
            return set()
        return {key_of(row) for row in self.rows() if not (retry and row["error"])}

    def append(self, row: Mapping[str, Any]) -> None:
        """Add a row at once and for good."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(self.path.parent / f".{self.path.stem}.lock"):
            self._renew_columns()
            with self.path.open("ab+") as file:
                _cut_torn_line(file)
                line = io.StringIO()
                writer = csv.DictWriter(line, FIELDS, lineterminator="\n")
                if file.seek(0, os.SEEK_END) == 0:
                    writer.writeheader()
                writer.writerow({name: _one_line(value) for name, value in row.items()})
                _write(file, line.getvalue())

    def _renew_columns(self) -> None:
        """Give a file of an earlier version the columns of this one: written beside it and put in its place."""
        text = self.path.read_bytes() if self.path.exists() else b""
        if b"\n" not in text or text.startswith((",".join(FIELDS) + "\n").encode()):
            return
        renewed = io.StringIO()
        writer = csv.DictWriter(renewed, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self._read(text))
        beside = self.path.with_name(f".{self.path.name}.new")
        with beside.open("wb") as file:
            _write(file, renewed.getvalue())
        beside.replace(self.path)

    def claim(self, run: Run, retry: bool = False, again: bool = False) -> Callable[[], None] | None:
        """Take a run for this process; returns what gives it back, to be called when its row is written.

        None where it is done already, or another process is at it. A process that dies gives back what it had.
        """
        self._claims.mkdir(parents=True, exist_ok=True)
        path = self._claim_of(run)
        lock = FileLock(path)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            return None

        def give_back() -> None:
            # The row is there by now, so that who takes the run next sees that it is done; the file may go.
            path.unlink(missing_ok=True)
            lock.release()

        if run.key in self.done(retry, again):
            give_back()
            return None
        return give_back

    def clear(self, run: Run) -> None:
        """Take away what is left of the claim of a process that died when the run's row was just written."""
        if self._claim_of(run).exists() and (give_back := self.claim(run)) is not None:
            give_back()

    def _claim_of(self, run: Run) -> Path:
        return self._claims / f"{hashlib.sha256(repr(run.key).encode()).hexdigest()[:24]}.lock"


def _write(file: BinaryIO, text: str) -> None:
    file.write(text.encode())
    file.flush()
    os.fsync(file.fileno())


def _cut_torn_line(file: Any) -> None:
    """Drop what follows the last line end: a row whose writer was killed."""
    size = file.seek(0, os.SEEK_END)
    if not size:
        return
    file.seek(0)
    end = file.read().rfind(b"\n") + 1
    if end < size:
        file.truncate(end)


def _one_line(value: Any) -> str:
    text = "" if value is None else f"{value:.4f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
    return text.replace("\r", "").replace("\n", " | ")
