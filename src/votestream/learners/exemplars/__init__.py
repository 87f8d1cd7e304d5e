"""Learners that keep features of some samples, or of all."""
