"""The type of masked tensors: data, a mask, and the two nodes between them and autograd."""

import rushlight as rl
from rushlight._value_types import KEY, Written
from rushlight.autograd.function import Function
from rushlight.core.facts import with_requires_grad
from rushlight.core.subclass import make_wrapper
from rushlight.masked.maskedtensor import _layouts

__all__ = ["MaskedTensor", "checked", "data_of", "is_masked_tensor", "of_data"]

_TYPES = ("float16", "float32", "float64", "bool", "int8", "int16", "int32", "int64")


def is_masked_tensor(obj, /):
    """Whether an object is a masked tensor.

    Args:
        obj: anything.

    >>> is_masked_tensor(rl.ones(2))
    False
    """
    return isinstance(obj, MaskedTensor)


class _Data(Function):
    """The data of a masked tensor; their gradient is masked as they are."""

    @staticmethod
    def forward(ctx, masked):
        ctx.set_materialize_grads(False)
        ctx.mask = masked._masked_mask
        return masked._masked_data.view_as(masked._masked_data)

    @staticmethod
    def backward(ctx, grad):
        if grad is None or is_masked_tensor(grad):
            return grad
        return of_data(grad, ctx.mask)


class _OfData(Function):
    """Data and a mask as a masked tensor."""

    @staticmethod
    def forward(ctx, data, mask, masked_gradient):
        ctx.set_materialize_grads(False)
        ctx.masked_gradient = masked_gradient
        return _made(data.detach(), mask)

    @staticmethod
    def backward(ctx, grad):
        if is_masked_tensor(grad) and not ctx.masked_gradient:
            grad = data_of(grad).masked_fill(~grad._masked_mask, 0)
        return grad, None, None


def _made(data, mask):
    """A masked tensor without history."""
    made = make_wrapper(
        MaskedTensor,
        tuple(data.shape),
        tuple(_strided(data).stride()),
        0,
        data.dtype,
        rl.strided,
        data.device,
        data.untyped_storage().nbytes(),
    )
    made._masked_data, made._masked_mask = data, mask
    return made


def _strided(data):
    """A dense tensor of the same sizes."""
    return data if data.layout is rl.strided else rl.empty(data.shape, device="meta")


def of_data(data, mask, masked_gradient=False):
    """Data and a mask as a masked tensor, whose history is that of the data.

    Args:
        data: the elements.
        mask: true where an element counts.
        masked_gradient: whether the gradient of the data is masked, too.
    """
    if data.requires_grad and rl.is_grad_enabled():
        return _OfData.apply(data, mask, masked_gradient)
    return _made(data.detach() if data.requires_grad else data, mask)


def data_of(masked):
    """The data of a masked tensor, with its history where one is recorded."""
    if masked.requires_grad and rl.is_grad_enabled():
        return _Data.apply(masked)
    return masked._masked_data


def write(masked, data):
    """Replace the data of a masked tensor in place.

    Args:
        masked: the tensor.
        data: what takes their place.
    """
    if rl.is_grad_enabled() and (masked.requires_grad or data.requires_grad):
        return Written.apply(masked, data, "_masked_data", data_of)
    masked._masked_data.copy_(data)
    return masked


def checked(data, mask):
    """Refuse what makes no masked tensor.

    Raises:
        TypeError: one is no tensor, or of a type that is not taken.
        ValueError: the sizes differ.
    """
    for name, each in (("data", data), ("mask", mask)):
        if is_masked_tensor(each) or not isinstance(each, rl.Tensor):
            raise TypeError(f"{name} must be a Tensor")
    if data.layout != mask.layout:
        raise TypeError("data and mask must have the same layout.")
    if data.layout not in (rl.strided, rl.sparse_coo, rl.sparse_csr):
        raise TypeError(
            f"data layout of {data.layout} is not supported.\n  remedy: mask the dense "
            "tensor"
        )
    if mask.dtype is not rl.bool:
        raise TypeError("mask must have dtype bool.")
    if data.dtype.name not in _TYPES:
        raise TypeError(f"{data.dtype} is not supported in MaskedTensor.")
    for what, one, other in (
        ("dim", data.dim(), mask.dim()),
        ("size", data.shape, mask.shape),
    ):
        if one != other:
            raise ValueError(f"data.{what}() must equal mask.{what}()")


class MaskedTensor(rl.Tensor):
    """Elements of which some do not count.

    Operators compute on all; reductions leave out what does not count, and so do
    gradients. Two masked tensors go together where their masks are equal.

    Args:
        data: the elements, copied.
        mask: of the same sizes, true where an element counts; copied.
        requires_grad: whether gradients flow to it.

    Raises:
        TypeError: one is no tensor, or of a type that is not taken.
        ValueError: the sizes differ.

    >>> mt = MaskedTensor(rl.tensor([1.0, 2.0, 3.0]), rl.tensor([True, False, True]))
    >>> mt.mean()
    MaskedTensor(  2.0000, True)
    """

    _dispatch_keys = KEY
    __torch_function__ = rl._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, data, mask, requires_grad=False):
        checked(data, mask)
        data, mask = _layouts.prepared(data.detach(), mask)
        made = _made(data.clone(), mask.clone())
        return with_requires_grad(made, requires_grad)

    def __init__(self, data, mask, requires_grad=False):
        super().__init__()

    @staticmethod
    def _run_operator(op, args):
        return rl.masked.maskedtensor._ops_refs.run(op, args)

    @staticmethod
    def _from_values(data, mask):
        """A masked tensor through which gradients flow back to its data."""
        return rl.masked.as_masked_tensor(data, mask)

    def get_data(self):
        """The elements, those that do not count included; gradients flow through it."""
        return data_of(self)

    def get_mask(self):
        """Where elements count."""
        return self._masked_mask

    def to_tensor(self, value):
        """The elements, with a number in place of those that do not count.

        Args:
            value: the number.
        """
        mask, data = self._masked_mask, data_of(self)
        filled = _layouts.values_of(data).masked_fill(~_layouts.values_of(mask), value)
        return _layouts.with_values(data, filled)

    @property
    def data(self):
        """The same elements without history."""
        return self.detach()

    @property
    def layout(self):
        """How data and mask lie: strided, `sparse_coo` or `sparse_csr`."""
        return self._masked_data.layout

    @property
    def is_sparse(self):
        """Whether data and mask are sparse."""
        return self.layout is not rl.strided

    def is_sparse_coo(self):
        """Whether data and mask are sparse, with an index for each element."""
        return self.layout is rl.sparse_coo

    def is_sparse_csr(self):
        """Whether data and mask are sparse, with rows compressed."""
        return self.layout is rl.sparse_csr

    def _converted(self, layout):
        data, mask = self._masked_data.detach(), self._masked_mask
        return _made(*_layouts.converted(data, mask, layout))

    def to_sparse(self):
        """The same as `to_sparse_coo`."""
        return self._converted(rl.sparse_coo)

    def to_sparse_coo(self):
        """The elements that count, with an index for each; without history.

        >>> mt = MaskedTensor(rl.tensor([1, 2]), rl.tensor([False, True]))
        >>> mt.to_sparse_coo().get_data().indices()
        tensor([[1]])
        """
        return self._converted(rl.sparse_coo)

    def to_sparse_csr(self):
        """The elements that count, with rows compressed; without history."""
        return self._converted(rl.sparse_csr)

    def to_dense(self):
        """The elements in strides: what is not there does not count."""
        return self if self.layout is rl.strided else self._converted(rl.strided)

    def item(self):
        """The one element.

        Raises:
            ValueError: it does not count.
        """
        if self.numel() == 1 and not self._masked_mask.item():
            raise ValueError("the element is masked out: it has no value")
        return self._masked_data.item()

    def __repr__(self, *, tensor_contents=None):
        data, mask = self._masked_data, self._masked_mask
        data, mask = _layouts.converted(data, mask, rl.strided)
        if self.dim() == 0:
            shown = _shown(data.item()) if mask.item() else "--"
            return f"MaskedTensor({shown}, {mask.item()})"
        lines = _lines(data, mask).replace("\n", "\n  ")
        return f"MaskedTensor(\n  {lines}\n)"

    def __deepcopy__(self, memo):
        found = memo.get(id(self))
        if found is None:
            found = MaskedTensor(self._masked_data, self._masked_mask)
            memo[id(self)] = found.requires_grad_(self.requires_grad)
        return found

    def __reduce_ex__(self, protocol):
        return MaskedTensor, (
            self._masked_data,
            self._masked_mask,
            self.requires_grad,
        )


def _shown(number):
    return f"{number:8.4f}" if isinstance(number, float) else str(number)


def _lines(data, mask):
    """The elements as text, row by row."""
    if data.dim() == 1:
        shown = [_shown(each) for each in data.tolist()]
        kept = mask.tolist()
        width = max(
            (len(text) if keep else 8 for text, keep in zip(shown, kept)), default=0
        )
        parts = (text if keep else "--".rjust(width) for text, keep in zip(shown, kept))
        return f"[{', '.join(parts)}]"
    rows = [_lines(d, m).replace("\n", "\n  ") for d, m in zip(data, mask)]
    return "[\n  " + ",\n  ".join(rows) + "\n]"
