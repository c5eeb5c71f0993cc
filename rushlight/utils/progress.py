"""How far loops, downloads and compilers have come, on a terminal.

>>> from rushlight.utils.progress import progress
>>> list(progress(range(3), "steps"))
[0, 1, 2]
"""

from rushlight.core.progress import Progress, progress

__all__ = ["Progress", "progress"]
