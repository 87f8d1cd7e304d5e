"""Folders of photos: found, read once, learned and asked about; the command line's half of the work."""
