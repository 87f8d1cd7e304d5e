"""Bench runs in TensorBoard: a folder of events for each, `runs/SUITE/RUN`."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from PIL import Image
from torch.utils.tensorboard import SummaryWriter

from votestream.compat.records import Record
from votestream.compat.versions import warn_outside

warn_outside("tensorboard", "2.21", "2.21")


class TensorBoardLog:
    """Scalars after each task, settings and final numbers as hyperparameters, the suite's figure as an image.

    >>> curves = {"accuracy/all so far": [(1, 90.0), (2, 81.5)]}
    >>> record = Record("smoke", "NCM, seed 0", {"learner": "ncm"}, curves, numbers={"Last": 81.5})
    >>> TensorBoardLog(Path("runs")).add(record)
    >>> [path.as_posix() for path in Path("runs").glob("*/*")]
    ['runs/smoke/NCM, seed 0']
    """

    def __init__(self, folder: Path = Path("runs")) -> None:
        self.folder = folder

    def add(self, record: Record) -> None:
        with SummaryWriter(str(self.folder / record.suite / _file_name(record.name))) as writer:
            for name, points in record.all_curves.items():
                for step, value in points:
                    writer.add_scalar(name, value, step)
            if record.error:
                writer.add_text("error", record.error)
                return
            about = {**record.settings, **record.about}
            writer.add_text("about", "\n".join(f"- {name}: `{value}`" for name, value in about.items()))
            # "." keeps them with the run: else TensorBoard shows a second one beside it.
            writer.add_hparams(dict(record.settings), {f"run/{k}": v for k, v in record.numbers.items()}, run_name=".")

    def add_figure(self, suite: str, path: Path) -> None:
        with SummaryWriter(str(self.folder / suite / "figure")) as writer:
            writer.add_image(suite, np.asarray(Image.open(path).convert("RGB")), dataformats="HWC")

    def close(self) -> None:
        """Every run is closed as it is written."""


def _file_name(name: str) -> str:
    """The name without what no folder may be called; spaces and commas stay.

    >>> _file_name("ER (Q: 20/task)")
    'ER (Q_ 20_task)'
    """
    return re.sub(r'[\\/:*?"<>|\0]', "_", name)


def open_log() -> TensorBoardLog:
    """Where `votestream bench run --log tensorboard` writes: `runs` in this folder."""
    return TensorBoardLog()
