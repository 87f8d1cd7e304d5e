"""The photo commands: list the photos of a folder, decode them, train on them, predict and evaluate."""
