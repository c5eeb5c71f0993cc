"""PyTorch's module of version 13; operators are written by `rushlight.onnx.lowering`."""
