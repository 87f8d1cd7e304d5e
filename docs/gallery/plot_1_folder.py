"""
First steps with a folder
=========================

This example writes one folder of images for each class, learns the folders, and predicts images that were not
learned. The images come with the package.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
from PIL import Image

import votestream as vs

kinds = ["cat", "frog", "ship", "truck"]

# %%
# Write 40 images of each class to ``photos/CLASS/``. With photos of your own you do not need this step.

holder = TemporaryDirectory()
folder = Path(holder.name, "photos")
images, labels = vs.sample_images("train")
for kind in kinds:
    (folder / kind).mkdir(parents=True)
    for number, image in enumerate(images[labels == kind][:40]):
        Image.fromarray(image).save(folder / kind / f"{number}.png")

# %%
# ``ImageClassifier`` combines a frozen network, the backbone, with a learner. ``labelled_images`` reads the folders:
# each image is read when it is learned, and none is stored. On the command line this is ``votestream learn photos
# --model shop.safetensors``.

model = vs.ImageClassifier("reduced_resnet18", vs.GaussianVoting())
model.partial_fit(vs.labelled_images(folder))
holder.cleanup()
print(model.classes_, f"{model.memory_bytes() / 1000:.0f} kB kept")

# %%
# Predict three images of each class that were not learned, with their probabilities.

tests, truth = vs.sample_images("test")
chosen = [row for kind in kinds for row in (truth == kind).nonzero()[0][:3]]
shares = model.predict_proba(tests[chosen])

figure, grid = plt.subplots(3, 4, figsize=(8, 6.6), layout="constrained")
for row, share, axes in zip(chosen, shares, grid.T.ravel(), strict=True):
    axes.imshow(tests[row])
    guess = model.classes_[share.argmax()]
    axes.set_title(f"{guess}, {share.max():.0%}", color="tab:green" if guess == truth[row] else "tab:red")
    axes.set_axis_off()
figure.suptitle("Predicted class and its probability; wrong predictions in red")
plt.show()

# %%
# The model is one file. A loaded model can predict and continue to learn.

with TemporaryDirectory() as place:
    model.save(f"{place}/shop.safetensors")
    print(vs.load(f"{place}/shop.safetensors").predict(tests[chosen[:1]]))
