"""The networks of this package, and what makes any network fast."""
