"""Host memory and host kernels."""
