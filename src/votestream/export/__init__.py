"""Models for places without Python: ONNX."""
