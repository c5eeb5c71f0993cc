"""Runs a graph and notes what each step gives: sizes, types and layout."""

import traceback
from typing import Any, NamedTuple

from rushlight.core.layout import channels_last, channels_last_3d, contiguous_format
from rushlight.core.tensor import Tensor
from rushlight.fx.interpreter import Interpreter
from rushlight.fx.node import map_aggregate

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """What is known of a tensor without its numbers."""

    shape: Any
    dtype: Any
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: Any
    is_quantized: bool
    qparams: dict[str, Any]


def _extract_tensor_metadata(result, include_contiguity=True):
    """What is known of a tensor without its numbers."""
    found = None
    if include_contiguity:
        for memory_format in (contiguous_format, channels_last, channels_last_3d):
            dims = {channels_last: 4, channels_last_3d: 5}.get(memory_format)
            if dims not in (None, result.dim()):
                continue
            if result.is_contiguous(memory_format=memory_format):
                found = memory_format
                break
    return TensorMetadata(
        result.shape,
        result.dtype,
        result.requires_grad,
        result.stride(),
        found,
        result.is_quantized,
        {},
    )


class ShapeProp(Interpreter):
    """Runs a graph and puts ``tensor_meta`` and ``type`` into each step's notes.

    Args:
        gm: the module.
        fake_mode: a mode that makes tensors without numbers, to run with those.

    >>> import rushlight as rl
    >>> from rushlight import fx
    >>> gm = fx.symbolic_trace(lambda x: x.t())
    >>> _ = ShapeProp(gm).propagate(rl.ones(2, 3))
    >>> [tuple(n.meta["tensor_meta"].shape) for n in gm.graph.nodes]
    [(2, 3), (3, 2), (3, 2)]
    """

    def __init__(self, gm, fake_mode=None):
        super().__init__(gm)
        self.fake_mode = fake_mode
        self.real_module = self.module

    def run_node(self, n):
        """Runs a step and notes what it gives.

        Raises:
            RuntimeError: the step fails.
        """
        try:
            if self.fake_mode is not None:
                with self.fake_mode:
                    result = super().run_node(n)
            else:
                result = super().run_node(n)
        except Exception as error:
            traceback.print_exc()
            raise RuntimeError(
                f"ShapeProp error for: node={n.format_node()} with meta={n.meta}"
            ) from error
        found = False

        def note(value):
            nonlocal found
            if not isinstance(value, Tensor):
                return value
            found = True
            return _extract_tensor_metadata(value)

        meta = map_aggregate(result, note)
        if found:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args):
        """Runs the graph with the arguments and gives what it returns."""
        if self.fake_mode is not None:
            args = tuple(
                self.fake_mode.from_tensor(arg) if isinstance(arg, Tensor) else arg
                for arg in args
            )
        return super().run(*args)
