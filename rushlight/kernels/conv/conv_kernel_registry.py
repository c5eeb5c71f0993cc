"""The native kernels of convolutions: those that are built in, found by kind and dtype."""

from __future__ import annotations

import functools

from rushlight.codegen.target import current
from rushlight.core.roles import host
from rushlight.ir.expr import Type
from rushlight.kernels.conv import depthwise as plane
from rushlight.kernels.conv import depthwise_schedule, direct, implicit_gemm, winograd
from rushlight.kernels.conv.conv_geometry import Geometry
from rushlight.kernels.matmul.matmul_kernel_registry import ready


@functools.cache
def convolution_kernel(kind: str, dtype: str):
    """A native kernel, from the cache or built; see `epilogue_kernel`.

    The kinds of `Geometry.scheduled` are built from tensor expressions.
    """
    if not kind.startswith("planes"):
        return epilogue_kernel(kind, dtype, "", None)
    name = f"convolution_{kind}_{dtype}"
    sizes, biased = kind.rsplit("_", 1)
    g = Geometry.of_kind(sizes)
    make = functools.partial(depthwise_schedule.for_host, name, g, dtype, biased == "1")
    return host.code_cache.native(name, "", make)


def epilogue_kernel(kind, dtype, named_by, epilogue, digest=""):
    """A native kernel, with an epilogue where it gives results.

    Args:
        kind: ``forward``, ``weight_gradient``, ``padded``, ``few_channels`` and
            ``few_weights`` of `convolution_direct`, ``winograd`` and its
            ``winograd_filters``, or ``depthwise`` and ``depthwise_weights`` with the rows
            and columns of a filter and of its steps, as ``depthwise_3_3_1_1``.
        named_by: what the kernel's name ends in.
        epilogue: of the sums, as `Epilogue`, or None.
        digest: of all that decides what the epilogue computes.
    """
    type, name = Type(dtype), f"convolution_{kind}_{dtype}{named_by}"
    loops = implicit_gemm
    write = {
        "forward": lambda tile: loops.forward(name, type, type, tile, epilogue),
        "weight_gradient": lambda tile: loops.weight_gradient(name, type, type, tile),
        "padded": lambda tile: loops.padded(name, type, tile.lanes),
        "few_channels": lambda tile: direct.few_channels(name, type, tile, epilogue),
        "few_weights": lambda tile: direct.few_weights(name, type, tile),
        "winograd": lambda tile: winograd.convolution(name, type, tile, epilogue),
        "winograd_filters": lambda tile: winograd.filters(name, type, tile.lanes),
    }
    if kind.startswith("depthwise"):
        stem, *shape = kind.rsplit("_", 4)
        shape, rest = tuple(map(int, shape)), () if epilogue is None else (epilogue,)
        make = getattr(plane, stem)
        write[kind] = lambda tile: make(
            name, type, tile.lanes, shape[:2], shape[2:], *rest
        )
    tile_of = winograd.winograd_tile if kind == "winograd" else loops.convolution_tile
    tile = tile_of(dtype, current())
    return host.code_cache.native(
        name, digest, lambda: ready(write[kind](tile), epilogue)
    )
