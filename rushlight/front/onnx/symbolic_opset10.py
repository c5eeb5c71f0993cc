"""Where operators are written in ONNX's version 10: none are, there is no export yet."""
