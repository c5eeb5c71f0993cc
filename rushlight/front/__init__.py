"""PyTorch's public modules, which are imported as ``rushlight.NAME``: see the README."""

__path__: list = []  # one copy of each: there is no ``rushlight.front.linalg``
