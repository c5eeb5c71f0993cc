"""Kernels written as loops for one purpose: products, convolutions, transforms, attention."""
