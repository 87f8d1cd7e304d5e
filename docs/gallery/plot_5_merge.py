"""
Merge two models
================

Two shops each train a model, with different classes and one common class. ``votestream.merge`` makes one model of
both. It needs no images and no new training.
"""

import matplotlib.pyplot as plt
import numpy as np

import votestream as vs

images, labels = vs.sample_images("train")
tests, truth = vs.sample_images("test")
backbone = vs.create_backbone("reduced_resnet18", device="cpu")
kinds = ["cat", "dog", "frog", "ship", "truck"]
learned = np.isin(labels, kinds).nonzero()[0][::2]
X, y = backbone(images[learned]), labels[learned]
asked = np.isin(truth, kinds).nonzero()[0][::2]
X_test, y_test = backbone(tests[asked]), truth[asked]

# %%
# The first shop has cats, dogs and half of the frogs, the second ships, trucks and the other half.

half = np.arange(len(y)) % 2 == 0
of_first = np.isin(y, ["cat", "dog"]) | ((y == "frog") & half)
first = vs.GaussianVoting(device="cpu").partial_fit(X[of_first], y[of_first])
second = vs.GaussianVoting(device="cpu").partial_fit(X[~of_first], y[~of_first])
merged = vs.merge([first, second])
print(merged.classes_, merged.class_counts_)

# %%
# A third model learned all samples. The merged model is as similar to it as a model that learned the same samples in
# another order.

together = vs.GaussianVoting(device="cpu").partial_fit(X, y)
print(f"same answers: {np.mean(merged.predict(X_test) == together.predict(X_test)):.1%}")

models = {"first shop": first, "second shop": second, "merged": merged, "one model\nwith all samples": together}
figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
shares = [100 * model.score(X_test, y_test) for model in models.values()]
bars = axes.bar(list(models), shares, color=["tab:gray", "tab:gray", "tab:blue", "tab:orange"])
axes.bar_label(bars, fmt="%.1f %%")
axes.set_xlabel("model")
axes.set_ylabel("accuracy on all five classes (%)")
axes.set_ylim(0, 100)
axes.grid(alpha=0.3, axis="y")
plt.show()
