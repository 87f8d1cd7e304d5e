"""A model file on disk and the files beside it: lock, list of learned photos, journal and undo."""
