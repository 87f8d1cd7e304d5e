"""
First steps with a folder
=========================

A folder for each class is all it takes. This example writes such folders with images that come with the package,
learns them, and predicts images that were not learned.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
from PIL import Image

import votestream as vs

kinds = ["cat", "frog", "ship", "truck"]

# %%
# Write 40 images of each class to ``photos/CLASS/``. With photos of your own this is done already.

holder = TemporaryDirectory()
folder = Path(holder.name, "photos")
images, labels = vs.sample_images("train")
for kind in kinds:
    (folder / kind).mkdir(parents=True)
    for number, image in enumerate(images[labels == kind][:40]):
        Image.fromarray(image).save(folder / kind / f"{number}.png")

# %%
# ``ImageClassifier`` is a frozen network and a learner as one. ``labelled_images`` reads the folders; images are
# read as they are learned, and none is kept. On the command line this is ``votestream learn photos --model
# shop.safetensors``.

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
figure.suptitle("Predicted class and its probability; red where it is wrong")
plt.show()

# %%
# The model is one file, and goes on learning after it was loaded.

with TemporaryDirectory() as place:
    model.save(f"{place}/shop.safetensors")
    print(vs.load(f"{place}/shop.safetensors").predict(tests[chosen[:1]]))
