"""NVIDIA's assembler, where there is one."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path


def find_ptxas():
    """The assembler of an installation, or of the package ``nvidia-cuda-nvcc``."""
    places = (Path(folder) for folder in sys.path)
    wheels = (str(p) for place in places for p in place.glob("nvidia/cu*/bin/ptxas"))
    return shutil.which("ptxas") or next(wheels, None)


PTXAS = find_ptxas()
