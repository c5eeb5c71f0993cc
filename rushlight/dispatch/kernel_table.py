"""Functions in several forms, of which the operands' kind of device chooses one.

What a declaration's ``cpu:``, ``cuda:`` and ``meta:`` are to an operator, a table is to a
part of one that others call.
"""

from __future__ import annotations

import cython
from cython.cimports.rushlight.core.device import (
    KIND_CUDA,
    KIND_META,
    KIND_PRIVATEUSE1,
    N_KINDS,
    Device,
)
from cython.cimports.rushlight.core.tensor import Tensor


@cython.final
@cython.cclass
class KernelTable:
    """One function with a form for each kind of device; the first argument chooses.

    Compiled modules keep objects of a class in it, and call methods of a tensor's form.

    Args:
        cpu: the host's form, and that of every kind that has none.
        cuda: that of devices whose backend is asked.
        meta: that of tensors without elements.

    >>> import rushlight as rl
    >>> from rushlight.dispatch.kernel_table import KernelTable
    >>> place = KernelTable(cpu=lambda x: "here", meta=lambda x: "nowhere")
    >>> place(rl.ones(2)), place(rl.ones(2, device="meta"))
    ('here', 'nowhere')
    """

    def __init__(self, *, cpu, cuda=None, meta=None):
        self.forms = [
            cpu
        ] * N_KINDS  # by `Device.kind`; compiled callers cast unchecked
        if cuda is not None:
            self.forms[KIND_CUDA] = self.forms[KIND_PRIVATEUSE1] = cuda
        if meta is not None:
            self.forms[KIND_META] = meta

    def variants(self):
        """Key -> form: the host's, and those that differ from it."""
        host, cuda, meta, _ = self.forms
        others = {"cuda": cuda, "meta": meta}
        return {"cpu": host, **{k: f for k, f in others.items() if f is not host}}

    @cython.cfunc
    def form(self, operand: Tensor) -> object:
        return self.forms[operand.storage.device.kind]

    def __call__(self, *args):
        operand = args[0]
        device: Device = (
            cython.cast(Tensor, operand).storage.device
            if isinstance(operand, Tensor)
            else operand
        )
        return self.forms[device.kind](*args)
