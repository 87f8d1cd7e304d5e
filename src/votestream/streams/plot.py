"""A plot of a stream: each class's share of what arrives, over time."""

from __future__ import annotations

import os

import numpy as np

from votestream.streams.tasks import Stream


def class_shares(stream: Stream, bins: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Each class's share of each stretch of time (classes, bins), and where the stretches begin and end.

    Example:
        >>> from votestream.streams import stream_from
        >>> plain = stream_from(np.zeros((8, 1)), np.repeat([0, 1], 4), tasks=2, order=[0, 1])
        >>> class_shares(plain, bins=2)[0].tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    arriving = stream.labels[np.concatenate(stream.plan)]
    edges = np.unique(np.linspace(0, len(arriving), min(bins, len(arriving)) + 1).round().astype(int))
    when = np.searchsorted(edges, np.arange(len(arriving)), side="right") - 1
    counts = np.zeros((len(stream.class_order), len(edges) - 1))
    np.add.at(counts, (arriving, when), 1)
    return counts / counts.sum(0), edges


def plot_stream(stream: Stream, path: str | os.PathLike[str], bins: int = 200) -> None:
    """Draw it to a file: class shares over time, and beside them how many samples each class has in all.

    Needs matplotlib: the extra `plots`.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    shares, edges = class_shares(stream, bins)
    n_classes = len(shares)
    figure = Figure(figsize=(11, min(max(0.22 * n_classes + 1.6, 3.2), 7.5)), layout="constrained")
    FigureCanvasAgg(figure)
    over_time, in_all = figure.subplots(1, 2, width_ratios=[5, 1], sharey=True)
    steps = np.arange(n_classes + 1) - 0.5
    seen = np.ma.masked_equal(np.sqrt(shares), 0)  # what does not arrive stays white
    painted = over_time.pcolormesh(edges, steps, seen, cmap="magma_r", vmin=0, vmax=1, rasterized=True)
    if stream.told:
        for edge in np.cumsum([len(rows) for rows in stream.plan])[:-1]:
            over_time.axvline(edge, color="tab:blue", linewidth=0.6, alpha=0.7)
    over_time.set(xlabel="samples seen", ylabel="class, in class order", ylim=(n_classes - 0.5, -0.5))
    over_time.xaxis.set_major_formatter("{x:,.0f}")
    if n_classes <= 30:
        names = [str(stream.data.class_names.get(label, label)) for label in stream.class_order]
        over_time.set_yticks(range(n_classes), [name if len(name) < 25 else f"{name[:22]}..." for name in names])
    bar = figure.colorbar(painted, ax=over_time, pad=0.01)
    ticks = np.array([0, 0.02, 0.1, 0.25, 0.5, 1])
    bar.set_ticks(np.sqrt(ticks), labels=[f"{tick:.0%}" for tick in ticks])  # roots: a few strays shall be seen
    bar.set_label("share of what arrives")
    in_stream = np.bincount(stream.labels[np.concatenate(stream.plan)], minlength=n_classes)
    in_all.barh(range(n_classes), in_stream, height=0.8 if n_classes <= 30 else 1)
    in_all.set_xlabel("samples in all")
    figure.suptitle("\n".join([str(stream).partition("\n")[0], *stream.how]), fontsize=10)
    figure.savefig(path, dpi=110)
