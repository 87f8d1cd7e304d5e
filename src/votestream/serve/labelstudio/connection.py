"""What all requests of Label Studio share."""

from __future__ import annotations

from votestream.serve.labelstudio.in_order import InOrder
from votestream.serve.labelstudio.task_images import TaskImages
from votestream.serve.web.options import Options


class Connection:
    """The images of tasks, and the order of events."""

    def __init__(self, options: Options) -> None:
        self.images = TaskImages(options.label_studio, options.limits)
        self.in_order = InOrder()
