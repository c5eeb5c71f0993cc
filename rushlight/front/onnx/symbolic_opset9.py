"""PyTorch's module of version 9; operators are written by `rushlight.onnx.lowering`."""
