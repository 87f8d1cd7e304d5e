"""Reading images safely: formats, limits, EXIF orientation, folders of classes. No torch."""
