"""A model's life: what is kept beside learning, so that a model can be judged and corrected."""
