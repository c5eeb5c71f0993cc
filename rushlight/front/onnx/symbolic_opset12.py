"""Where operators are written in ONNX's version 12: none are, there is no export yet."""
