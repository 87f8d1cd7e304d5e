"""Learners on running statistics of the features: no sample is kept."""
