"""Models for places without Python: ONNX."""

from votestream.export.onnx_file import export_onnx

__all__ = ["export_onnx"]
