"""Where operators are written in ONNX's version 13: none are, there is no export yet."""
