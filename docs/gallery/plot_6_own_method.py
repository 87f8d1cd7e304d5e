"""
A method of your own in the bench
=================================

A new method is one class. This example writes it, compares it with two other methods on a stream of handwritten
digits, and prints the table of the bench. If the class is in a file ``mine.py``, ``votestream bench run online
--learner mine:SphereMeans`` compares it with all other methods.
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
# The method scales each sample to unit length and predicts the class with the nearest mean. :doc:`/extending` shows a
# learner that does not use another one.


@vs.register("sphere_means")
class SphereMeans(vs.NearestClassMean):
    """The nearest class mean on the unit sphere."""

    def rows_of(self, X, width):  # every row passes here, to be learned or to be predicted
        rows = super().rows_of(X, width)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


# %%
# The stream has scikit-learn's digits, two new digits in each task. A digit is 64 numbers, so it needs no backbone.


@vs.register_stream("digits")
def digits(seed, backbone=None):
    X, y = load_digits(return_X_y=True)
    return vs.stream_from(X.astype(np.float32), y, tasks=5, seed=seed, test_share=0.3, name="digits")


# %%
# A suite is a set of methods and streams. ``votestream bench run digits-suite`` runs a suite in several processes; here
# it runs in this process.

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
# Each row contains the accuracy after each task. Plot it:

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
