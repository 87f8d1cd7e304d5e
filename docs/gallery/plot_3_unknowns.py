"""
Unknown images
==============

A classifier predicts one of its classes for every image, also for images of unknown classes. With ``track=True`` a
model also computes an out-of-distribution score, so that a program can ask a person about unknown images.
"""

import matplotlib.pyplot as plt
import numpy as np

import votestream as vs

# %%
# Learn four classes. Each sample is predicted just before it is learned. The model uses these predictions to compute
# its accuracy and the scale of the scores.

known, unknown = ["automobile", "bird", "frog", "ship"], ["cat", "horse"]
images, labels = vs.sample_images("train")
model = vs.ImageClassifier("reduced_resnet18", vs.GaussianVoting(track=True))
rows = np.random.default_rng(0).permutation(np.isin(labels, known).nonzero()[0])
model.partial_fit(images[rows], labels[rows])
print(model.track_record().so_far)

# %%
# ``unknown_score`` is between 0 and 1: about 5 % of images of known classes score above 0.95.

tests, truth = (part[::2] for part in vs.sample_images("test"))
scores = {
    "known classes": model.unknown_score(tests[np.isin(truth, known)]),
    "cats and horses, not learned": model.unknown_score(tests[np.isin(truth, unknown)]),
}
for name, found in scores.items():
    print(f"{name}: {np.mean(found > 0.95):.0%} above 0.95")

# %%
# The small backbone reads only 32 x 32 pixels, so many cats have the scores of known classes. The page :doc:`/life`
# has measurements with a larger backbone.

figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
shares = [np.full(len(found), 100 / len(found)) for found in scores.values()]
axes.hist(list(scores.values()), bins=np.linspace(0, 1, 21), weights=shares, label=list(scores))
axes.axvline(0.95, color="black", linestyle="--", label="ask a person above this")
axes.set_xlabel("unknown score")
axes.set_ylabel("share of the images (%)")
axes.legend(loc="upper left")
axes.grid(alpha=0.3, axis="y")
plt.show()
