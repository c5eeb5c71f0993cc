"""Where operators are written in ONNX's version 9: none are, there is no export yet."""
