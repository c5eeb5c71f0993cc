"""How a view is taken again from a base that has changed, or from a gradient of it."""

from __future__ import annotations

import functools

import cython
from cython.cimports.libc.stdint import int64_t
from cython.cimports.rushlight.core._python import p_object, pp_object
from cython.cimports.rushlight.core.tensor import Tensor, view_replay_of
from cython.cimports.rushlight.dispatch.dispatcher import Operator


@cython.final
@cython.cclass
class Replay:
    """Takes a view again from another base: what sizes and strides do not tell."""

    op = cython.declare(Operator)
    args = cython.declare(list)
    source = cython.declare(cython.int)  # which argument is looked at
    number = cython.declare(cython.int)  # which of several results is meant
    before = cython.declare(object)  # how to get the source from the base
    geometry = cython.declare(tuple)  # sizes, strides, offset in the base; else None

    def __call__(self, base):
        slots: p_object[24]
        i: cython.int
        source: object = base if self.before is None else self.before(base)
        if self.before is None and self.geometry is not None:
            sizes, strides, offset = self.geometry
            source = base.as_strided(sizes, strides, base.storage_offset() + offset)
        for i in range(len(self.args)):
            slots[i] = cython.cast(p_object, self.args[i])
        slots[self.source] = cython.cast(p_object, source)
        result = self.op.call(slots)
        return result if isinstance(result, Tensor) else result[self.number]


@cython.cfunc
def replay_of(
    op: Operator, source: Tensor, slots: pp_object, number: cython.int
) -> object:
    replay: Replay = Replay.__new__(Replay)
    replay.op = op
    replay.source = op.tensor_args[0]
    replay.number = number
    replay.args = [
        None if i == replay.source else cython.cast(object, slots[i])
        for i in range(op.n_args)
    ]
    replay.before = view_replay_of(source)
    if source.base is not None and replay.before is None:
        offset = source.offset - source.base.offset
        replay.geometry = tuple(source.shape), source.stride(), offset
    return replay


@cython.cfunc
@cython.exceptval(-1, check=False)
def replay_reshaped(tensor: Tensor, offset: int64_t) -> cython.int:
    replay = view_replay_of(tensor)
    if replay is None:
        return 0
    tensor.extra.view_replay = functools.partial(
        reshaped_window,
        replay,
        tuple(tensor.shape),
        tensor.stride(),
        tensor.offset - offset,
    )
    return 0


def reshaped_window(replay, sizes, strides, moved, base):
    """A replayed view in the geometry that an in-place operator gave it."""
    view = replay(base)
    return view.as_strided(sizes, strides, view.storage_offset() + moved)
