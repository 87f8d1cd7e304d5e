"""Label Studio's ML backend: predict its tasks, and learn, correct and undo its annotations."""
