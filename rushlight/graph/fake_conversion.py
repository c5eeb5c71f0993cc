"""Fake tensors' other half: ``meta`` tensors that operators compute shapes with."""

from __future__ import annotations

import weakref

from rushlight.core.device import Device
from rushlight.core.storage import UntypedStorage
from rushlight.core.subclass import storage_behind, take_geometry, take_storage
from rushlight.core.tensor import Tensor
from rushlight.core.window import make_tensor

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
        absent = storage_behind(fake)
        if absent.inner is None:
            absent.inner = UntypedStorage(absent.nbytes(), device="meta")
            self._absent[id(absent.inner)] = absent
        return make_tensor(
            absent.inner,
            tuple(sizes_of(fake)),
            fake.stride(),
            fake.storage_offset(),
            fake.dtype,
        )

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
        return make_tensor(
            meta,
            tuple(tensor.shape),
            tensor.stride(),
            tensor.storage_offset(),
            tensor.dtype,
        )

    def absent_of(self, meta: Tensor, fake: Tensor):
        """What stands for the memory of a ``meta`` tensor's fake twin."""
        storage = meta.untyped_storage()
        found = self._absent.get(id(storage))
        if found is not None and found.inner is storage and found.device == fake.device:
            return found
        absent = storage_behind(fake)
        absent.inner = storage
        self._absent[id(storage)] = absent
        return absent

    def follow(self, fake: Tensor, meta: Tensor):
        """Gives a fake tensor the sizes, and the storage, that its twin has now."""
        if sizes_of(fake) != meta.shape or fake.stride() != meta.stride():
            take_geometry(fake, meta)
        if storage_behind(fake).inner is not meta.untyped_storage():
            take_storage(fake, self.absent_of(meta, fake))


META = Device("meta")
