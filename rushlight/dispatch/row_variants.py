"""Kernels that go over rows, one for each way of working on them.

The variants are named by how a row's elements lie: ``contiguous``; ``strided``, where those
of neighbouring rows are adjacent and rows fill the lanes of a vector; and ``transposed``,
for short contiguous rows, which are transposed in registers first. A launch's sizes
and strides decide, as they do in a kernel that has all ways (see
`codegen.frontend.nest_loops`), and a way is compiled when a launch first takes it.
"""

from __future__ import annotations

import cython
from cython.cimports.rushlight.runtime.cpu.launch import NativeKernel

NAMES = (None, "contiguous", "transposed", "strided")
MOST = cython.declare(cython.int, 60)  # operands that there are bits for
_every = cython.declare(cython.bint, False)


def compile_every(wanted: cython.bint) -> None:
    """Whether whoever compiles one way is to compile all: for kernels to be packed."""
    global _every
    _every = wanted


@cython.cclass
class Ways:
    """The kernels of one specialisation.

    Args:
        source: the `Rowwise` or `Reduction`.
        kinds: what it is specialised for.
    """

    def __init__(self, source, kinds):
        self.source, self.kinds = source, kinds
        self.kernels = [None] * len(NAMES)
        found = source.ways(*kinds)
        self.several = found is not None and found[0].bit_length() < MOST
        self.varying, self.longest = found if self.several else (0, 0)
        if _every:
            for way in range(1, len(NAMES)) if self.several else (0,):
                self.native(way)

    @cython.cfunc
    def native(self, way: cython.int) -> NativeKernel:
        """The kernel of one way."""
        found = self.kernels[way]
        if found is None:
            found = self.source.specialize(*self.kinds, mode=NAMES[way])
            self.kernels[way] = found
        return found
