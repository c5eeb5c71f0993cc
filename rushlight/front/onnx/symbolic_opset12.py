"""PyTorch's module of version 12; operators are written by `rushlight.onnx.lowering`."""
