"""Fake tensors' other half: ``meta`` tensors that operators compute shapes with."""

import itertools
import weakref

from rushlight.core.device import Device
from rushlight.core.layout import strided
from rushlight.core.storage import UntypedStorage
from rushlight.core.subclass import (
    fake_storage,
    take_deferred,
    take_geometry,
    take_storage,
)
from rushlight.core.tensor import Tensor
from rushlight.core.window import make_tensor
from rushlight.ir import sizes
from rushlight.ir.symbolic import NATIVE, expr_of, value_at

META = Device("meta")
_ROOM = 1 << 50  # bytes of memory at sample points: others may look at more of it
sizes_of = Tensor.shape.__get__  # numbers in any case


def place_of(fake):
    """A fake tensor's device, and whether it may go along with any other."""
    return fake.device, fake.dim() == 0 and fake.device.type == "cpu"


class Twins:
    """Which ``meta`` storage belongs to what stands for a fake tensor's memory."""

    def __init__(self):
        self._absent = weakref.WeakValueDictionary()  # id of a meta storage -> Absent
        self._real: dict = {}  # id of a real storage -> (reference, meta storage)

    def of_fake(self, fake: Tensor):
        """The ``meta`` tensor with a fake one's sizes and strides."""
        absent = fake_storage(fake)
        if absent.inner is None:
            absent.inner = UntypedStorage(absent.nbytes(), device="meta")
            self._absent[id(absent.inner)] = absent
        meta = make_tensor(
            absent.inner,
            tuple(sizes_of(fake)),
            fake.stride(),
            fake.storage_offset(),
            fake.dtype,
        )
        return take_deferred(meta, fake)

    def of_real(self, tensor: Tensor, shared=True):
        """The ``meta`` tensor of a real one; those of one storage share one.

        Args:
            tensor: the real tensor.
            shared: whether its relatives are to be found again.
        """
        storage = tensor.untyped_storage()
        found = self._real.get(id(storage))
        if found is None or found[0]() is not storage or not shared:
            meta = UntypedStorage(storage.nbytes(), device="meta")
            if shared:
                real, key = self._real, id(storage)
                real[key] = weakref.ref(storage, lambda _: real.pop(key, None)), meta
        else:
            meta = found[1]
        made = make_tensor(
            meta,
            tuple(tensor.shape),
            tensor.stride(),
            tensor.storage_offset(),
            tensor.dtype,
        )
        return take_deferred(made, tensor)

    def absent_of(self, meta: Tensor, fake: Tensor):
        """What stands for the memory of a ``meta`` tensor's fake twin."""
        storage = meta.untyped_storage()
        found = self._absent.get(id(storage))
        if found is not None and found.inner is storage and found.device == fake.device:
            return found
        absent = fake_storage(fake)
        absent.inner = storage
        self._absent[id(storage)] = absent
        return absent

    def follow(self, fake: Tensor, meta: Tensor):
        """Gives a fake tensor the sizes, and the storage, that its twin has now."""
        if sizes_of(fake) != meta.shape or fake.stride() != meta.stride():
            take_geometry(fake, meta)
        if fake_storage(fake).inner is not meta.untyped_storage():
            take_storage(fake, self.absent_of(meta, fake))


class Geometry:
    """Where a tensor's elements are in memory, in numbers or expressions.

    Args:
        lengths: the sizes.
        strides: how far elements are apart, dimension by dimension.
        offset: where the first one is.
        dtype: what they are.
    """

    __slots__ = ("dtype", "offset", "sizes", "strides")

    def __init__(self, lengths, strides, offset, dtype):
        self.sizes = tuple(map(expr_of, lengths))
        self.strides = tuple(map(expr_of, strides))
        self.offset, self.dtype = expr_of(offset), dtype

    def numel(self):
        """How many elements there are."""
        total = 1
        for size in self.sizes:
            total = sizes.multiply(total, size)
        return total

    def is_plain(self):
        """Whether it is the same at all sample points."""
        numbers = *self.sizes, *self.strides, self.offset
        return all(isinstance(one, int) for one in numbers)

    def is_like(self, other):
        """Whether it is the other one but for the type."""
        mine = self.sizes, self.strides, self.offset
        return mine == (other.sizes, other.strides, other.offset)

    def at(self, point):
        """The same in numbers: those at a sample point."""
        sizes, strides = (
            [value_at(one, point) for one in some]
            for some in (self.sizes, self.strides)
        )
        return Geometry(sizes, strides, value_at(self.offset, point), self.dtype)

    def meta(self, point, storage=None):
        """The ``meta`` tensor at a sample point.

        Args:
            point: its number.
            storage: its memory, which becomes larger where it has to be.

        Raises:
            ValueError: the tensor is not there at that point.
        """
        here = self.at(point)
        lengths, strides, offset = here.sizes, here.strides, here.offset
        numbers = *lengths, *strides, offset
        if None in numbers or min(numbers) < 0:
            raise ValueError(f"no tensor has sizes {lengths} and strides {strides}")
        last = offset + sum((n - 1) * step for n, step in zip(lengths, strides))
        room = (last + 1) * self.dtype.itemsize if all(lengths) else 0
        if storage is None:
            room = room if point == NATIVE else _ROOM
            storage = UntypedStorage(room, device="meta")
        elif storage.nbytes() < room:
            storage.resize_(room)
        return make_tensor(storage, lengths, strides, offset, self.dtype)


def exprs_of(fakes):
    """What operators make sizes of: those of fake tensors, and products of neighbours."""
    found: list = []
    for one in fakes:
        geometry = getattr(one, "__dict__", {}).get("_geometry")
        if geometry is not None:
            for at in range(len(geometry.sizes)):
                found += itertools.accumulate(geometry.sizes[at:], sizes.multiply)
    found = [one for one in dict.fromkeys(found) if isinstance(one, sizes.EXPRESSIONS)]
    return found


def geometry_of(value):
    """The geometry of a tensor; None for what has none."""
    if not isinstance(value, Tensor) or value.layout is not strided:
        return None
    where = tuple(sizes_of(value)), value.stride(), value.storage_offset()
    return Geometry(*where, value.dtype)


def dense_strides(lengths, order):
    """Strides of elements that lie close together.

    Args:
        lengths: the sizes.
        order: dimensions, the one that changes fastest first; others have stride 0.
    """
    strides, step = [0] * len(lengths), 1
    for dim in order:
        strides[dim], step = step, sizes.multiply(step, expr_of(lengths[dim]))
    return strides
