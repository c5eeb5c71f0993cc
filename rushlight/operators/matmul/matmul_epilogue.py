"""Products and convolutions with something traced behind them: one kernel, one pass.

A result goes through a Python function of symbols before it is stored: a bias, an
activation, a residual, a scale, a conversion, or several operators' expressions put into
one another. The function gets the sum as the product itself would have stored it, and one
value of each further operand, and returns what is stored instead.

>>> import rushlight as torch
>>> from rushlight.codegen.language import maximum
>>> relu = EpilogueSpec(lambda x, bias: maximum(x + bias, 0.0))
>>> x, w, b = torch.ones(2, 3), torch.ones(4, 3), torch.arange(4.0) - 5
>>> linear_with_epilogue(x, w, relu, [b])
tensor([[0., 0., 0., 1.],
        [0., 0., 0., 1.]])
"""

import functools
from math import prod

from rushlight.codegen.fingerprint import fingerprint
from rushlight.codegen.frontend.storage import COMPUTED_IN, rounded_to
from rushlight.core.dtype import all_dtypes
from rushlight.core.launch_args import TILED
from rushlight.core.roles import host
from rushlight.dispatch.kernel_table import KernelTable
from rushlight.kernels.epilogue import Epilogue
from rushlight.kernels.matmul.matmul_kernel_registry import (
    depth_of,
    epilogue_kernel,
    paired,
)
from rushlight.operators import call as ops
from rushlight.operators.matmul import matmul_amx, matmul_cuda
from rushlight.operators.matmul.linalg import PAIRS, SUM_TYPES
from rushlight.operators.matmul.matmul_bf16 import takes_tiles
from rushlight.operators.shared import has_elements

contraction = host.matmul
fresh = contraction.fresh

TAKEN = frozenset(a for a in SUM_TYPES if not a.startswith("complex"))
OTHERS = TAKEN | {"bool"}  # what further operands may be
MOST_OTHERS = 24


class EpilogueSpec:
    """A function that results of products go through.

    Args:
        function: from symbols of a result and of each further operand to a value; in
            types as `codegen.frontend.storage.computed` says, so that half precision is float32.
        digest: of all that decides what it computes, by default of the function.
        name: what kernels that it is in are called after.
    """

    def __init__(self, function, digest=None, name=None):
        self.function = function
        self.digest = fingerprint(function) if digest is None else digest
        self.name = f"behind_{self.digest[:16]}" if name is None else name
        self.found = {}

    def named(self, dtype, others, stored):
        """The epilogue of a kernel, and what its name ends in."""
        words = [name + "cr"[not along] for name, along in others]
        words = "_".join(["", self.name, dtype, *words, stored])
        return Epilogue(self.rounding(dtype), others, stored), words

    def kernels(self, dtype, others, stored):
        """What finds the kernels of products of a dtype, from their kind.

        Args:
            dtype: what the product would have stored.
            others: for each operand its dtype, and whether it has a value for each
                column or one for each row.
            stored: the dtype of the results.
        """
        key = dtype, others, stored
        if key not in self.found:
            epilogue, words = self.named(dtype, others, stored)

            @functools.cache
            def find(kind):
                operand = {"pairs": "float32", "tiles": "int16"}.get(kind, dtype)
                types = operand, operand, SUM_TYPES[dtype]
                kind = "tiles_pairs" if kind == "tiles" else kind
                return epilogue_kernel(kind, *types, words, epilogue, self.digest)

            self.found[key] = find
        return self.found[key]

    def convolutions(self, dtype, others, stored):
        """What finds the kernels of convolutions of a dtype, from their kind."""
        key = "convolution", dtype, others, stored
        if key not in self.found:
            from rushlight.kernels.conv import conv_kernel_registry

            epilogue, words = self.named(dtype, others, stored)

            @functools.cache
            def find(kind):
                types = kind, SUM_TYPES[dtype]
                make = conv_kernel_registry.epilogue_kernel
                return make(*types, words, epilogue, self.digest)

            self.found[key] = find
        return self.found[key]

    def rounding(self, dtype):
        """The function over sums that first lose what a dtype does not hold."""
        sums = SUM_TYPES[dtype]
        if dtype == sums:
            return self.function

        def rounded(total, *others):
            value = rounded_to(dtype, total)
            if dtype not in COMPUTED_IN:
                value = narrow(dtype, total)
            return self.function(value, *others)

        return rounded


def narrow(dtype, value):
    """A sum as the integer type that it would be stored in."""
    from rushlight.ir.expr import Type, cast

    return cast(Type(dtype), value)


def as_tensor(like, value):
    """An operand; a number is one of the type of sums."""
    if not isinstance(value, (int, float)):
        return value
    kind = all_dtypes()[SUM_TYPES.get(like.dtype.name, like.dtype.name)]
    return ops.full([], value, dtype=kind, device=like.device)


def addend_view(shape, tensor):
    """An operand in the result's shape, and whether it has a value for each column."""
    seen = tensor.expand(shape) if tuple(tensor.shape) != tuple(shape) else tensor
    if shape[-1] == 1:
        return seen, False
    step = seen.stride(-1)
    if step not in (0, 1):
        return seen.contiguous(), True
    return seen, step == 1


def matrices(shape, rows, tensor):
    """The same for a result whose dimensions before the last are one of matrices."""
    if tensor.ndim <= 1 or len(shape) == 2:
        return addend_view((rows, shape[-1]), tensor)
    wide = tensor.expand(shape)
    try:
        flat = wide.view(rows, shape[-1])
    except RuntimeError:
        flat = wide.contiguous().view(rows, shape[-1])
    return addend_view((rows, shape[-1]), flat)


def takes(a, others):
    """Whether operands of these dtypes can be multiplied, with others behind."""
    kinds = {other.dtype.name for other in others}
    return a.dtype.name in TAKEN and kinds <= OTHERS and len(others) <= MOST_OTHERS


def product_with_epilogue(a, b, epilogue_steps, others=(), dtype=None, out=None):
    """``epilogue_steps(a @ b, *others)`` of two matrices, or of two batches of them.

    Args:
        a, b: two or three dimensions, of one dtype, with sizes that agree.
        epilogue_steps: a `EpilogueSpec`.
        others: tensors that expand to the result's shape, or numbers.
        dtype: of the result, by default that of the operands.
        out: a row-major tensor of the result's shape to write to; it may be one of
            ``others``, or else shares no memory with an operand.

    Raises:
        NotImplementedError: an operand is of a type that has no products, such as a
            complex one, or there are too many.
    """
    shape = (*a.shape[:-1], b.shape[-1])
    seen = [addend_view(shape, as_tensor(a, other)) for other in others]
    return multiplied(a, b, epilogue_steps, seen, dtype, out, shape)


def multiplied(a, b, epilogue_steps, seen, dtype, out, shape, added=None):
    """`product_with_epilogue`, of operands that are seen in the result's shape.

    Args:
        added: what is added to the sums first; of their type, with adjacent columns.
    """
    if not takes(a, [other for other, _ in seen]):
        kinds = ", ".join(t.dtype.name for t in (a, *(other for other, _ in seen)))
        raise NotImplementedError(f"no product with operands of {kinds} behind it")
    kind = a.dtype if dtype is None else dtype
    given = out is not None
    if not given:
        out = fresh(a, shape, kind)
    if not has_elements(out):
        return out
    if a.shape[-1] == 0:  # sums of nothing are sums of one zero
        a = ops.new_zeros(a, (*a.shape[:-1], 1))
        b = ops.new_zeros(b, (*b.shape[:-2], 1, b.shape[-1]))
    sums = all_dtypes()[SUM_TYPES[a.dtype.name]]
    code, tiled = -1, takes_tiles(a, b)
    if tiled:
        code, (a, b) = TILED, matmul_amx.lying(a, b)
    elif a.dtype.name == "bfloat16" and paired(a, b):
        code = PAIRS
    deep = a.shape[-1] > depth_of(sums.name)
    others = tuple(other for other, _ in seen)
    kept = None
    if kind is not sums:
        wait = deep
    else:  # in the results' place, unless that is an operand
        wait = given and any(other.data_ptr() == out.data_ptr() for other in others)
    if wait:
        kept = fresh(a, shape, sums)
    if tiled:
        kept = matmul_amx.waiting(a, shape, sums)
    kinds = tuple((other.dtype.name, along) for other, along in seen)
    find = epilogue_steps.kernels(a.dtype.name, kinds, kind.name)
    return contraction.product_after(out, a, b, sums, find, others, kept, code, added)


def linear_with_epilogue(
    input, weight, epilogue_steps, others=(), dtype=None, out=None
):
    """``epilogue_steps(input @ weight.T, *others)`` over the last dimension.

    A bias is one of the others. The rest as for `product_with_epilogue`.
    """
    shape = (*input.shape[:-1], weight.shape[0])
    count = prod(shape[:-1])
    rows = input.reshape(count, input.shape[-1])
    seen = [matrices(shape, count, as_tensor(input, other)) for other in others]
    kind = input.dtype if dtype is None else dtype
    if out is None:
        out = fresh(input, shape, kind)
    flat = out.view(count, shape[-1])
    multiplied(rows, weight.t(), epilogue_steps, seen, kind, flat, (count, shape[-1]))
    return out


def conv_with_epilogue(
    input, weight, epilogue_steps, others=(), stride=1, padding=0, dilation=1, groups=1,
    bias=None, dtype=None, out=None,
):  # fmt: skip
    """``epilogue_steps(convolution(input, weight, bias, ...), *others)`` of a batch of images.

    Args:
        others: tensors of the result's shape, or with one value for each channel
            (``[1, C, 1, 1]``).
        stride, padding, dilation: a number, or one for each spatial dimension.

    The rest as for `product_with_epilogue`.
    """
    from rushlight.operators.convolution.convolution import forward_with_epilogue

    others = [as_tensor(input, other) for other in others]
    if not takes(input, others):
        kinds = ", ".join(t.dtype.name for t in (input, *others))
        raise NotImplementedError(f"no convolution with operands of {kinds} behind it")
    settings = stride, padding, dilation, groups
    return forward_with_epilogue(
        input, weight, bias, *settings, epilogue_steps, others, dtype, out
    )


_named: dict = {}


def name(epilogue_steps):
    """The name by which operators find a `EpilogueSpec`."""
    _named[epilogue_steps.digest] = epilogue_steps
    return epilogue_steps.digest


def named():
    """Each `EpilogueSpec` that has a name, by it."""
    return _named


def convolution_by_name(
    input,
    weight,
    bias,
    others,
    epilogue_steps,
    stride,
    padding,
    dilation,
    groups,
    dtype,
):
    """`conv_with_epilogue`, of a `EpilogueSpec` that has a name."""
    settings = stride, padding, dilation, groups
    return conv_with_epilogue(
        input, weight, _named[epilogue_steps], others, *settings, bias, dtype
    )


def product_by_name(added, a, b, transposed, others, epilogue_steps, sizes, dtype):
    """``epilogue_steps(a @ b + added, *others)`` with the bits of the operators one by one.

    Of types that are summed in themselves, more than one row and more than one column. On
    a device ``epilogue_steps`` is a function's name in its library, and sums are rounded after it.

    Args:
        added: a bias, or what else expands to the product's shape; None for nothing.
        transposed: whether ``b`` is a weight, whose rows are columns of the result.
        epilogue_steps: the name of a `EpilogueSpec`.
        sizes: of the result, which is the product's shape but for dimensions before
            the last that are one.
    """
    b = b.mT if transposed else b
    if transposed:
        rows = a if a.ndim == 2 or a.is_contiguous() else a.contiguous()
        a = rows.reshape(prod(a.shape[:-1]), a.shape[-1])
    shape = (*a.shape[:-1], b.shape[-1])
    if added is not None:
        added = added.expand(shape)
    return _product_by_name(a, b, added, shape, others, epilogue_steps, dtype, sizes)


def _device_product(a, b, added, shape, others, epilogue_steps, dtype, sizes):
    kinds = "float32", dtype, added, 1, 1, epilogue_steps
    return matmul_cuda.product(a, b, *kinds).view(sizes)


def _host_product(a, b, added, shape, others, epilogue_steps, dtype, sizes):
    epilogue_steps = _named[epilogue_steps]
    seen = [addend_view(shape, other.expand(sizes).reshape(shape)) for other in others]
    return multiplied(a, b, epilogue_steps, seen, dtype, None, shape, added).view(sizes)


_product_by_name = KernelTable(cpu=_host_product, cuda=_device_product)
