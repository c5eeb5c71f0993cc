"""Where operators are written in ONNX's version 11: none are, there is no export yet."""
