"""A model file on disk, and what lies beside it: the journal of what was learned, and undo."""
