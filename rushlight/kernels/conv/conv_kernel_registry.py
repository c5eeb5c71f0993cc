"""The native kernels of convolutions: those that are built in, found by kind and dtype."""

import functools

from rushlight.codegen.target import current
from rushlight.core.roles import host
from rushlight.ir.expr import Type
from rushlight.kernels.conv import depthwise as plane
from rushlight.kernels.conv import (
    depthwise_schedule,
    direct,
    implicit_gemm,
    pixels,
    winograd,
    winograd_pixels,
)
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
            ``winograd_filters``; of channels-last images ``pixels``, ``pixel_weights``,
            ``winograd_pixels``, ``pixel_filters`` and ``winograd_weights``; or
            ``depthwise`` and ``depthwise_weights`` with the rows and columns of a filter
            and of its steps, as ``depthwise_3_3_1_1``.
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
        "pixel_filters": lambda tile: winograd.filters(name, type, tile.lanes, True),
        "winograd_pixels": lambda tile: winograd_pixels.convolution(name, type, tile),
        "pixels": lambda tile: pixels.forward(name, type, tile),
        "pixel_weights": lambda tile: pixels.weight_gradient(name, type, tile),
        "winograd_weights": lambda tile: winograd_pixels.weight_gradient(
            name, type, tile
        ),
    }
    if kind.startswith("depthwise"):
        stem, *shape = kind.rsplit("_", 4)
        shape, rest = tuple(map(int, shape)), () if epilogue is None else (epilogue,)
        make = getattr(plane, stem)
        write[kind] = lambda tile: make(
            name, type, tile.lanes, shape[:2], shape[2:], *rest
        )
    tiles = {
        "winograd": winograd.winograd_tile,
        "winograd_pixels": winograd_pixels.pixel_tile,
        "winograd_weights": winograd.winograd_tile,
        "pixels": pixels.pixel_tile,
        "pixel_weights": pixels.pixel_tile,
    }
    tile = tiles.get(kind, loops.convolution_tile)(dtype, current())
    return host.code_cache.native(
        name, digest, lambda: ready(write[kind](tile), epilogue)
    )
