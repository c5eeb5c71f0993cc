"""PyTorch's module of version 10; operators are written by `rushlight.onnx.lowering`."""
