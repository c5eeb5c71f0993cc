"""Engines for quantized kernels: there are none yet."""

engine = "none"
supported_engines = ["none"]
