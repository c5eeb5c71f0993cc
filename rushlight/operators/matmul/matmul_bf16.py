"""Products of half-precision matrices: summed in float32 and rounded once, in one pass."""

import functools

from rushlight.core.dtypes import float32
from rushlight.core.launch_args import PAIRED, TILED
from rushlight.core.roles import host
from rushlight.dispatch.kernel_table import KernelTable
from rushlight.operators import call
from rushlight.operators.matmul import matmul_amx, matmul_cuda
from rushlight.operators.shared import has_elements

contraction = host.matmul


def serves(a, b):
    """Whether the product of these operands, of more than a row, is formed here."""
    return (
        a.dtype.itemsize == 2
        and a.dtype.is_floating_point
        and a.shape[-2] > 1
        and b.shape[-1] > 1
        and _multiplies(a.device, a)
    )


def product(a, b, added=None, pairs=False, alpha=1, beta=1):
    """``alpha * a @ b + beta * added`` of two matrices or two batches of them.

    Args:
        a, b: of elements and depth.
        added: what expands to the result's shape.
        pairs: whether the processor multiplies pairs of bfloat16.
        alpha, beta: numbers that float32 holds.
    """
    shape = (*a.shape[:-1], b.shape[-1])
    if added is not None:
        added = added.expand(shape)
        if added.stride(-1) > 1:
            added = added.contiguous()
    return _product(a, b, shape, added, pairs, alpha, beta)


def _device_product(a, b, shape, added, pairs, alpha, beta):
    if 0 in shape:
        return contraction.fresh(a, shape)
    return matmul_cuda.product(a, b, "float32", a.dtype, added, alpha, beta)


def _host_product(a, b, shape, added, pairs, alpha, beta):
    """The kernel for these operands, on them."""
    name, code = a.dtype.name, -1
    if takes_tiles(a, b):
        code, (a, b) = TILED, matmul_amx.lying(a, b)
    elif name == "bfloat16" and pairs:
        a, b = _beside(a), _beside(b.mT).mT
        code = PAIRED if _paired(a, b) else -1
    out = contraction.fresh(a, shape)
    if not has_elements(out):
        return out
    kept = None
    if code == TILED:
        kept = matmul_amx.waiting(a, shape, float32)
    elif a.shape[-1] > _depth():
        kept = contraction.fresh(a, shape, float32)
    others = () if added is None else (added,)
    along = None if added is None else added.stride(-1) == 1
    factors = alpha != 1 or added is not None and beta != 1
    if factors:
        numbers = (alpha,) if added is None else (alpha, beta)
        numbers = [_number(a, value).expand(shape) for value in numbers]
        others = (*others, *numbers)
    find = _kernels(name, along, factors)
    return contraction.product_after(out, a, b, float32, find, others, kept, code)


_product = KernelTable(cpu=_host_product, cuda=_device_product, meta=_host_product)
_multiplies = KernelTable(
    cpu=lambda *_: True,
    cuda=lambda device, a: matmul_cuda.serves(a),
    meta=lambda *_: False,
)
_has_tiles = KernelTable(
    cpu=lambda device, a, b: matmul_amx.serves(a, b),
    cuda=lambda *_: False,
    meta=lambda *_: False,
)


def takes_tiles(a, b):
    """Whether a unit of tiles multiplies these operands."""
    return a.dtype.name == "bfloat16" and _has_tiles(a.device, a, b)


def sums_by_tiles(a, b):
    """The sums of a product in float32, as those that are rounded are added up."""
    shape, kind = (*a.shape[:-1], b.shape[-1]), float32
    out = contraction.fresh(a, shape, kind)
    if not has_elements(out):
        return out
    a, b = matmul_amx.lying(a, b)
    kept = matmul_amx.waiting(a, shape, kind)
    find = _kernels("bfloat16", None, False, "float32")
    return contraction.product_after(out, a, b, kind, find, (), kept, TILED)


@functools.cache
def _kernels(name, along, factors, stored=None):
    """What finds kernels by their kind.

    Args:
        name: the dtype of the operands, and of the results unless they are ``stored``
            in another one.
        along: whether what is added has a value for each column, or one for each row;
            None where nothing is.
        factors: whether there are such.
    """
    from rushlight.codegen.fingerprint import fingerprint
    from rushlight.kernels.epilogue import Epilogue
    from rushlight.kernels.matmul.matmul_kernel_registry import epilogue_kernel

    number = "float32", False
    others = () if along is None else ((name, along),)
    if factors:
        function = _times if along is None else _times_and_more
        others = (*others, *[number] * (1 + len(others)))
    else:
        function = _rounded if along is None else _biased
    stored = stored or name
    epilogue = Epilogue(function, others, stored)
    digits = [] if along is None else [str(int(along))]
    words = "_".join(["", function.__name__.strip("_"), *digits, stored])
    rest = "float32", words, epilogue, fingerprint(function)

    @functools.cache
    def find(kind):
        if kind == "tiles":
            return epilogue_kernel("tiles_pairs", "int16", "int16", *rest)
        operand = "float32" if kind == "pairs" else name
        return epilogue_kernel(kind, operand, operand, *rest)

    return find


def _rounded(total):
    return total


def _biased(total, bias):
    return total + bias


def _times(total, alpha):
    return total * alpha


def _times_and_more(total, added, alpha, beta):
    from rushlight.kernels.loop_helpers import multiply_add

    return multiply_add(added, beta, total * alpha)


def _number(like, value):
    """A factor, beside an operand."""
    return call.full([], value, dtype=float32, device=like.device)


def _beside(x):
    """The operand with the elements of its rows beside each other."""
    return x if x.stride(-1) == 1 else x.contiguous()


@functools.cache
def _depth():
    from rushlight.kernels.matmul.matmul_kernel_registry import depth_of

    return depth_of("float32")


def _paired(a, b):
    from rushlight.kernels.matmul.matmul_kernel_registry import paired

    return paired(a, b)
