"""
A method of your own in the bench
=================================

A new method is one class. Here it is written, run on a stream of handwritten digits beside two others, and becomes
a line of the bench's table. In a file ``mine.py`` it runs beside all others by ``votestream bench run online
--learner mine:SphereMeans``.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import votestream as vs
from votestream.bench.protocol import carry_out
from votestream.bench.results import Results
from votestream.bench.runs import Run
from votestream.bench.tables import markdown

# %%
# The method: each sample is scaled to unit length, and the nearest class mean wins. :doc:`/extending` has a learner
# that is written from nothing.


@vs.register("sphere_means")
class SphereMeans(vs.NearestClassMean):
    """The nearest class mean on the unit sphere."""

    def rows_of(self, X, width):  # every row passes here, to be learned or to be predicted
        rows = super().rows_of(X, width)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


# %%
# The stream: scikit-learn's digits, two new ones a task. They are 64 numbers each, so no backbone looks at them.


@vs.register_stream("digits")
def digits(seed, backbone=None):
    X, y = load_digits(return_X_y=True)
    return vs.stream_from(X.astype(np.float32), y, tasks=5, seed=seed, test_share=0.3, name="digits")


# %%
# A suite says what is compared. ``votestream bench run digits-suite`` would run it in processes; here it runs in
# this one.

methods = (
    vs.Method("NCM", "ncm"),
    vs.Method("Mine: means on the sphere", "sphere_means"),
    vs.Method("GaussianVoting", "gaussian_voting"),
)
suite = vs.Suite("digits-suite", "Digits, two a task", methods, (vs.StreamSpec("digits"),))
with TemporaryDirectory() as folder:
    results = Results(Path(folder, "digits-suite.csv"))
    for method in methods:
        for seed in range(3):
            results.append(carry_out(Run(method, suite.streams[0], seed, suite.backbone, ""), device="cpu"))
    rows = results.rows()
print(markdown(suite, rows))

# %%
# Each row has the accuracy after each task.

figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
for method, marker in zip(methods, "osD", strict=True):
    runs = [[float(each) for each in row["after each task"].split()] for row in rows if row["method"] == method.label]
    axes.plot(range(1, 6), np.mean(runs, axis=0), marker=marker, label=method.label)
axes.set_xticks(range(1, 6), [f"{2 * task}" for task in range(1, 6)])
axes.set_xlabel("digits learned")
axes.set_ylabel("accuracy on all digits so far (%)")
axes.grid(alpha=0.3)
axes.legend()
plt.show()
