"""The native kernels of convolutions, from the cache or built."""

from __future__ import annotations

import functools

from rushlight.backends.roles import host
from rushlight.codegen.expr import Type
from rushlight.codegen.target import current
from rushlight.ops import contraction
from rushlight.ops import convolution_direct as direct
from rushlight.ops import convolution_kernels as kernels


@functools.cache
def convolution_kernel(kind: str, dtype: str):
    """A native kernel, from the cache or built.

    Args:
        kind: ``forward``, ``weight_gradient``, ``padded``, or ``few_channels`` and
            ``few_weights`` of `convolution_direct`.
    """
    type, name = Type(dtype), f"convolution_{kind}_{dtype}"
    write = {
        "forward": lambda tile: kernels.forward(name, type, type, tile),
        "weight_gradient": lambda tile: kernels.weight_gradient(name, type, type, tile),
        "padded": lambda tile: kernels.padded(name, type, tile.lanes),
        "few_channels": lambda tile: direct.few_channels(name, type, tile),
        "few_weights": lambda tile: direct.few_weights(name, type, tile),
    }[kind]
    files = kernels.__file__, contraction.__file__, direct.__file__
    digest = "".join(map(host.cache.source_digest, files))
    return host.cache.native(
        name, digest, lambda: write(kernels.convolution_tile(dtype, current()))
    )
