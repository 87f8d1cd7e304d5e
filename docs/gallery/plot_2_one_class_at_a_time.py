"""
One class at a time
===================

The hardest order of a stream is one class at a time: all samples of a class, then all samples of the next class, and
no sample of an earlier class again. A network that is trained step by step forgets the earlier classes. Learners on
statistics do not.
"""

import matplotlib.pyplot as plt

import votestream as vs

# %%
# The stream has the features of a quarter of the images that come with the package, from the built-in backbone. Its
# ten classes are ten tasks of one class each.

images, labels = vs.sample_images("train")
tests, truth = vs.sample_images("test")
backbone = vs.create_backbone("reduced_resnet18", device="cpu")
test = (backbone(tests[::4]), truth[::4])
stream = vs.stream_from(backbone(images[::4]), labels[::4], test=test, tasks=10, seed=0)
print(stream)

# %%
# ``task.test`` contains the test samples of all classes so far. ``FeatureReplay`` trains a linear layer with SGD. With
# a budget of ten it stores one feature vector for each class and trains on it again.

learners = {
    "GaussianVoting": vs.GaussianVoting(device="cpu"),
    "NearestClassMean": vs.NearestClassMean(device="cpu"),
    "SGD, 10 exemplars": vs.FeatureReplay(budget=10, device="cpu"),
}
curves = {name: [] for name in learners}
for task in stream:
    for x, y in task:
        for learner in learners.values():
            learner.partial_fit(x, y)
    for name, learner in learners.items():
        curves[name].append(100 * learner.score(*task.test))

# %%
# The accuracy of every learner falls, because more classes are harder to distinguish. The learner with SGD also
# forgets.

figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
for (name, accuracies), marker in zip(curves.items(), "osD", strict=True):
    axes.plot(range(1, 11), accuracies, marker=marker, label=name)
axes.set_xlabel("classes learned, one at a time")
axes.set_ylabel("accuracy on all classes so far (%)")
axes.set_xticks(range(1, 11))
axes.set_ylim(0, 103)
axes.grid(alpha=0.3)
axes.legend()
plt.show()
