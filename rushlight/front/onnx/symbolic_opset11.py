"""PyTorch's module of version 11; operators are written by `rushlight.onnx.lowering`."""
