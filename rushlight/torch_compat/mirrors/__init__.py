"""PyTorch's private and deprecated modules, imported as ``rushlight.NAME``."""

__path__: list = []  # one copy of each, as in ``rushlight.front``
