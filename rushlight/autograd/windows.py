"""Views as numbered elements of their bases: how transformations differentiate writes.

Under a transformation a tensor's strides are not those of its gradients: a batch has one
dimension more, and each level lays its values out anew. A view is therefore replayed once
on a base that holds the numbers of its own elements. What comes out says for each element
of the view where it is found in the base, and values are moved by these numbers with
operators that every transformation knows. A complex element counts as two, and the sign of
a number tells conjugates and negatives.
"""

from rushlight.core import state
from rushlight.core.dtype import all_dtypes
from rushlight.core.overlap import refuse_internal_overlap
from rushlight.dispatch.keys import DispatchKey
from rushlight.operators import call as ops

_EXACT = 1 << 24  # single precision counts no further
_DTYPES = all_dtypes()
_SINGLE = (_DTYPES["float32"], _DTYPES["complex64"])


class Window:
    """Where a view's elements are among those of its base.

    Args:
        view: takes the view of a base.
        geometry: sizes, strides and offset of the base.
        like: a tensor of the base's type and device.
    """

    __slots__ = (
        "count",
        "is_complex",
        "positions",
        "shape",
        "shown",
        "signs",
        "within",
    )

    def __init__(self, view, geometry, like):
        with Untransformed():
            base = _numbered(geometry, like)
            self.shown = shown = view(base)
            numbers = _parts(shown)
            self.is_complex = shown.is_complex()
            self.count = _parts(base).numel()
            self.shape = numbers.shape
            numbers = numbers.reshape(-1)
            self.positions = numbers.abs().to(_DTYPES["int64"]) - 1
            self.within = bool((numbers != 0).all())
            self.signs = numbers.sign() if bool((numbers < 0).any()) else None

    def read(self, base):
        """The view of a base of whatever level; zeros for what lies beside it."""
        flat = _parts(base).reshape(-1)
        positions = self.positions
        if not self.within:
            flat = ops.cat([flat, ops.new_zeros(flat, [1])])
            with Untransformed():
                positions = positions.where(
                    positions >= 0, positions.new_full((), self.count)
                )
        found = self._signed(ops.index_select(flat, 0, positions)).reshape(self.shape)
        return ops.view_as_complex(found) if self.is_complex else found

    def write(self, base, values):
        """The base with other values in the place of the view; zeros for None.

        Raises:
            RuntimeError: the view shows one element at several places, and it is given
                several values.
        """
        if values is not None:
            refuse_internal_overlap(self.shown)
        with Untransformed():
            chosen = ops.arange(self.count, device=self.positions.device)
            new = self.count + ops.arange(
                self.positions.numel(), device=self.positions.device
            )
            inside = self.positions >= 0
            chosen[self.positions[inside]] = new[inside]
        whole = _parts(base)
        if values is None:
            values = ops.new_zeros(whole, [self.positions.numel()])
        else:
            values = self._signed(_parts(values).reshape(-1))
        flat = ops.cat([whole.reshape(-1), values])
        flat = ops.index_select(flat, 0, chosen).reshape(whole.shape)
        return ops.view_as_complex(flat) if base.is_complex() else flat

    def _signed(self, flat):
        return flat if self.signs is None else flat * self.signs.to(flat.dtype)


class Untransformed(state.Scope):
    """Calls inside the block are of plain tensors, which nobody differentiates."""

    __slots__ = ("inference", "keys", "recording")

    def _save(self):
        self.keys = state.included_keys(), state.excluded_keys()
        self.recording = state.is_grad_enabled()
        self.inference = state.is_inference_mode_enabled()

    def _change(self):
        included, excluded = self.keys
        state.set_keys(included & ~(1 << DispatchKey.Batched), excluded)
        state.set_grad_enabled(False)
        state.set_inference_mode(False)

    def _restore(self):
        state.set_inference_mode(self.inference)
        state.set_grad_enabled(self.recording)
        state.set_keys(*self.keys)


def _parts(tensor):
    """A tensor's real numbers: complex ones get a dimension of two."""
    if not tensor.is_complex():
        return tensor.resolve_neg()
    return ops.view_as_real(tensor.resolve_conj().resolve_neg())


def _numbered(geometry, like):
    """A base whose elements, or their parts, are numbered from 1 on; 0 lies between."""
    sizes, strides, _ = geometry
    is_complex = like.is_complex()
    count, span = 1 + is_complex, 1
    for size, stride in zip(sizes, strides):
        count *= size
        span += (size - 1) * stride
    dtype = _DTYPES["complex128" if is_complex else "float64"]
    if like.dtype in _SINGLE and count < _EXACT:
        dtype = like.dtype  # a view may change the type
    memory = ops.zeros([max(span, 0)], dtype=dtype, device=like.device)
    base = ops.as_strided(memory, sizes, strides, 0)
    numbers = ops.arange(
        1, count + 1, dtype=_parts(memory).dtype, device=like.device
    ).reshape(_parts(base).shape)
    base.copy_(ops.view_as_complex(numbers) if is_complex else numbers)
    return base
