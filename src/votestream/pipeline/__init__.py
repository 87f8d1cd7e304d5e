"""A backbone and a learner as one: images in, labels out."""

from votestream.pipeline.image_classifier import ImageClassifier

__all__ = ["ImageClassifier"]
