"""
Correct a model
===============

Half of the frogs were in the folder "bird" by mistake. This example removes the class "bird" and learns it again from
the right images. The other classes need no new training.
"""

import matplotlib.pyplot as plt
import numpy as np

import votestream as vs

images, labels = vs.sample_images("train")
tests, truth = vs.sample_images("test")
kinds = ["bird", "cat", "frog", "ship"]
backbone = vs.create_backbone("reduced_resnet18", device="cpu")
features = {kind: backbone(images[labels == kind][:60]) for kind in kinds}
asked = np.isin(truth, kinds).nonzero()[0][::2]
X_test, y_test = backbone(tests[asked]), truth[asked]

# %%
# Learn half of the frogs as birds.

model = vs.GaussianVoting(device="cpu")
wrong = {**features, "bird": np.concatenate([features["bird"], features["frog"][:30]]), "frog": features["frog"][30:]}
for kind, rows in wrong.items():
    model.partial_fit(rows, [kind] * len(rows))


def accuracies():
    """The accuracy on each class in per cent."""
    answers = model.predict(X_test)
    return [100 * np.mean(answers[y_test == kind] == kind) for kind in kinds]


before = accuracies()

# %%
# ``forget`` removes a class from the statistics. Then learn the birds again, and the 30 frogs as frogs.

model.forget("bird")
model.partial_fit(features["bird"], ["bird"] * 60)
model.partial_fit(features["frog"][:30], ["frog"] * 30)
after = accuracies()

# %%
# ``rename`` changes only a label. A service also stores its training examples in a journal, so that ``undo`` can take
# back single ones.

model.rename("ship", "boat")
print(model.classes_)

figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
places = np.arange(len(kinds))
axes.bar(places - 0.2, before, 0.4, label="with 30 frogs learned as birds")
axes.bar(places + 0.2, after, 0.4, label="after the correction")
axes.set_xticks(places, kinds)
axes.set_xlabel("class")
axes.set_ylabel("accuracy (%)")
axes.set_ylim(0, 118)
axes.legend(ncols=2, loc="upper center")
axes.grid(alpha=0.3, axis="y")
plt.show()
