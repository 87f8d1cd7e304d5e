"""How fast CandidatesVoting learns and answers, beside the plain reading and the bare arithmetic, in one run.

    python benchmarks/learn_speed.py            # prints a table, writes results/speed/learn_speed.csv

The stream: 50,000 x 160 features, 100 classes in 20 tasks, Q = 2000, mini-batches of 10. "Bare arithmetic" is what
the method cannot do without: for learning, as many products [20 x 160] x [160 x C], softmaxes and gradients as it
takes steps, in torch and in NumPy, nothing else; for prediction, its matrix products alone. Ratios are of
medians over rounds in which all take turns.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import plain_reading  # type: ignore[import-not-found]
import votestream as vs
from rows import COMMAND, SPEED, write

D, C, N_TASKS, Q, BATCH = 160, 100, 20, 2000, 10


def make_stream(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Overlapping Gaussian classes, numbered by first appearance; and 10,000 queries of the same kind."""
    rng = np.random.default_rng(0)
    centres = 0.5 * rng.standard_normal((C, D)).astype(np.float32)
    per_task = C // N_TASKS
    labels = []
    for task in range(N_TASKS):
        y = rng.permutation(np.repeat(np.arange(per_task), n // C))
        first = {c: i for i, c in enumerate(dict.fromkeys(y.tolist()))}
        labels += [task * per_task + first[c] for c in y.tolist()]
    y = np.array(labels)

    def draw(labels: np.ndarray) -> np.ndarray:
        return centres[labels] + 0.85 * rng.standard_normal((len(labels), D), dtype=np.float32)

    return draw(y), y, draw(rng.integers(0, C, 10_000))


def learn(X: np.ndarray, y: np.ndarray, rows_a_call: int) -> vs.CandidatesVoting:
    model = vs.CandidatesVoting(budget=Q, device="cpu")
    for i in range(0, len(X), rows_a_call):
        model.partial_fit(X[i : i + rows_a_call], y[i : i + rows_a_call])
    return model


def learn_plainly(X: np.ndarray, y: np.ndarray) -> plain_reading.PlainLearner:
    model = plain_reading.PlainLearner(Q=Q)
    for i in range(0, len(X), BATCH):
        if i % (len(X) // N_TASKS) == 0:
            model.new_task()
        model.learn(X[i : i + BATCH], y[i : i + BATCH])
    return model


def bare_learning(X: np.ndarray, y: np.ndarray, in_torch: bool) -> None:
    """The products, softmaxes and gradients of learning; the same rows stand in for the paired exemplars."""
    rng = np.random.default_rng(0)
    steps = len(X) // BATCH
    twice = np.concatenate([X.reshape(steps, BATCH, D)] * 2, axis=1)
    hot = np.eye(C, dtype=np.float32)[np.concatenate([y.reshape(steps, BATCH)] * 2, axis=1)]
    weights = rng.standard_normal((C, D)).astype(np.float32) / D
    tensors = torch.from_numpy(twice), torch.from_numpy(hot), torch.from_numpy(weights)
    start = time.perf_counter()
    for step in range(steps):
        classes = C // N_TASKS * (1 + step * N_TASKS // steps)
        if in_torch:
            batch, target, w = tensors[0][step], tensors[1][step, :, :classes], tensors[2][:classes]
            error = torch.softmax(batch @ w.T, 1)
            error -= target
            w.addmm_(error.T, batch, alpha=-0.1 / 20)
        else:
            b, target, v = twice[step], hot[step, :, :classes], weights[:classes]
            e = b @ v.T
            e -= e.max(1, keepdims=True)
            np.exp(e, out=e)
            e /= e.sum(1, keepdims=True)
            e -= target
            v -= 0.1 / 20 * (e.T @ b)
    bare_learning.seconds = time.perf_counter() - start  # type: ignore[attr-defined]


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def about(settings: str) -> dict[str, str]:
    """What a row says of the run that made it."""
    return {
        "settings": settings,
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads",
        "libraries": f"NumPy {np.__version__}, torch {torch.__version__}",
        "version": vs.__version__,
        "command": COMMAND,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=SPEED / "learn_speed.csv")
    args = parser.parse_args()
    X, y, queries = make_stream(args.samples)
    n, task = len(X), len(X) // N_TASKS
    model, plain = learn(X, y, task), learn_plainly(X, y)
    exemplars, weights = model.exemplars_.features, model.weights_
    few = queries[:500]

    def bare(in_torch: bool) -> Callable[[], float]:
        def work() -> float:
            bare_learning(X, y, in_torch)
            return float(bare_learning.seconds)  # type: ignore[attr-defined]

        return work

    def timed(work: Callable[[], object]) -> Callable[[], float]:
        return lambda: seconds(work)

    def products(rows: np.ndarray) -> None:
        for i in range(0, len(rows), 256):  # in blocks, as any sensible program would
            rows[i : i + 256] @ exemplars.T
        rows @ weights.T

    measures: dict[str, tuple[int, Callable[[], float]]] = {
        "learn, 10 rows a call": (n, timed(lambda: learn(X, y, BATCH))),
        "learn, a task a call": (n, timed(lambda: learn(X, y, task))),
        "learn, plain reading": (n, timed(lambda: learn_plainly(X, y))),
        "learn, bare arithmetic in torch": (n, bare(True)),
        "learn, bare arithmetic in NumPy": (n, bare(False)),
        "predict 10,000 rows": (len(queries), timed(lambda: model.predict(queries))),
        "predict 10,000 rows, its products alone": (len(queries), timed(lambda: products(queries))),
        "predict row by row": (
            len(few),
            timed(lambda: [model.predict(few[i : i + 1]) for i in range(len(few))]),
        ),
        "predict row by row, plain reading": (100, timed(lambda: plain.predict(few[:100]))),
    }
    times: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(args.rounds):
        for name, (_, work) in measures.items():
            time.sleep(0.5)  # threads that the one before left spinning go to sleep
            times[name].append(work())
    rate = {name: count / statistics.median(times[name]) for name, (count, _) in measures.items()}

    rows = []
    for name, (count, _) in measures.items():
        row = {
            "what": name,
            "per second": round(rate[name]),
            "best round": round(count / min(times[name])),
            "of plain reading": "",
            "of bare arithmetic": "",
        }
        if name.startswith("learn"):
            row["of plain reading"] = f"{rate[name] / rate['learn, plain reading']:.2f}"
            row["of bare arithmetic"] = f"{rate[name] / rate['learn, bare arithmetic in torch']:.2f}"
        elif name.startswith("predict 10"):
            row["of bare arithmetic"] = f"{rate[name] / rate['predict 10,000 rows, its products alone']:.2f}"
        else:
            row["of plain reading"] = f"{rate[name] / rate['predict row by row, plain reading']:.2f}"
        rows.append(row)
    print(f"{'':42}{'a second':>10}{'best':>10}{'x plain':>10}{'x bare':>10}")
    for row in rows:
        what, *numbers = row.values()
        print(
            f"{what:42}"
            + "".join(f"{number:>10,}" if isinstance(number, int) else f"{number:>10}" for number in numbers)
        )

    settings = f"{n} x {D}, {C} classes, {N_TASKS} tasks, Q={Q}, batch {BATCH}, {args.rounds} rounds"
    write(args.out, [{**row, **about(settings)} for row in rows])


if __name__ == "__main__":
    main()
