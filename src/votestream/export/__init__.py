"""Models for places without Python: ONNX."""

from votestream.export.onnx_file import export_onnx
from votestream.export.page import export_page

__all__ = ["export_onnx", "export_page"]
