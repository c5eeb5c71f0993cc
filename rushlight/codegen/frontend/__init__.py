"""From Python functions to loops: elementwise kernels, reductions, rows, loop kernels."""
