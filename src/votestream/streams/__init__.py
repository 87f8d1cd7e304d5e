"""What arrives: data sets in their official formats, cut into tasks and batches."""

from votestream.images.files import DataWarning
from votestream.images.labelled import LabelledImages, labelled_images
from votestream.streams.catalogue import data_folder
from votestream.streams.data_set import DataError, DataSet
from votestream.streams.from_arrays import stream_from
from votestream.streams.get import get_data
from votestream.streams.image_files import ImageFiles
from votestream.streams.load import load_data
from votestream.streams.make import list_streams, register_stream, stream
from votestream.streams.sample import sample_images
from votestream.streams.tasks import Stream, Task
from votestream.streams.transforms import blurry, long_tail, one_class_at_a_time, repeated, task_free

__all__ = [
    "DataError",
    "DataSet",
    "DataWarning",
    "ImageFiles",
    "LabelledImages",
    "Stream",
    "Task",
    "blurry",
    "data_folder",
    "get_data",
    "labelled_images",
    "list_streams",
    "load_data",
    "long_tail",
    "one_class_at_a_time",
    "register_stream",
    "repeated",
    "sample_images",
    "stream",
    "stream_from",
    "task_free",
]
