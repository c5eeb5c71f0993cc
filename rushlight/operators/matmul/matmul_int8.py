"""Products of matrices of bytes by an instruction that sums several products at once.

A unit of tiles takes them as they are. Where there is none, an instruction may sum four:
it multiplies unsigned bytes by signed ones. Signed left operands are moved up
by 128, which adds 128 times the sum of a column of the right operand to each of its
results; that is taken off again behind the sums. All of it wraps as 32 bits do.

Where there is none of these, bytes are widened to 16 bits, of which every processor of x86
sums two products. (Its sums of bytes in 16 bits are cut off, and so not exact.)
"""

import functools

from rushlight.core.dtypes import int16, int32
from rushlight.core.launch_args import TILED
from rushlight.core.roles import host
from rushlight.dispatch.kernel_table import KernelTable
from rushlight.operators import call as ops
from rushlight.operators.matmul import matmul_amx
from rushlight.operators.shared import has_elements

contraction = host.matmul
FOUR = 4


@functools.cache
def has_fours():
    """Whether the processor sums the products of four bytes."""
    from rushlight.codegen.target import current

    return current().has("dot_int8")


@functools.cache
def has_sevens():
    """Whether the processor sums the products of two bytes in 16 bits."""
    from rushlight.codegen.target import current

    return has_twos() and current().has("rounds")  # SSE4.1, which is after SSSE3


@functools.cache
def has_twos():
    """Whether the processor sums the products of two integers of 16 bits."""
    from rushlight.codegen.target import current

    return current().triple.startswith("x86_64")


_sums_several = KernelTable(
    cpu=lambda device: has_fours() or has_twos(),
    cuda=lambda _: False,
    meta=lambda _: False,
)


def serves(a, b):
    """Whether the product of these matrices, of more than a row and column, is here."""
    return (
        a.dtype.name in ("int8", "uint8")
        and b.dtype.name == "int8"
        and a.shape[-2] > 1
        and b.shape[-1] > 1
        and a.shape[-1] > 0
        and _sums_several(a.device)
    )


def product(a, b, dtype):
    """``a @ b`` of two matrices or two batches of them, summed in 32 bits.

    Args:
        dtype: of the results: int32, or one that cuts sums off.
    """
    shape = (*a.shape[:-1], b.shape[-1])
    out = contraction.fresh(a, shape, dtype)
    if not has_elements(out):
        return out
    signed = a.dtype.name == "int8"
    if matmul_amx.serves(a, b, "int8"):
        left, right = matmul_amx.lying(a, b)
        kept = matmul_amx.waiting(a, shape, int32, "int8")
        find = _kernels(dtype.name, False, a.dtype.name)
        return contraction.product_after(out, left, right, int32, find, (), kept, TILED)
    fours = has_fours()
    left = _fours(a) if fours else _twos(a)
    right = _fours(b.mT).mT if fours else _twos_of_columns(b)
    signed = signed and fours
    if signed:  # the highest bit turned over is 128 more
        left = left ^ ops.full([], -0x7F7F7F80, dtype=left.dtype)
    others = ()
    if signed:
        moved = ops.sum(b, [-2], True, dtype=int32)
        others = ((moved * -128).expand(shape),)
    kept = None
    if left.shape[-1] > _depth() and dtype is not int32:
        kept = contraction.fresh(a, shape, int32)
    find = _kernels(dtype.name, signed)
    return contraction.product_after(out, left, right, int32, find, others, kept)


def _fours(x):
    """Rows of bytes as int32, four together; zeros fill the last up."""
    depth = x.shape[-1]
    missing = -depth % FOUR
    if missing:
        wide = ops.new_zeros(x, (*x.shape[:-1], depth + missing))
        wide[..., :depth] = x
        x = wide
    return x.contiguous().view(int32)


def _twos(x):
    """The same as integers of 16 bits, two together."""
    depth = x.shape[-1]
    wide = ops.new_zeros(x, (*x.shape[:-1], depth + depth % 2), dtype=int16)
    wide[..., :depth] = x
    return wide.view(int32)


def _twos_of_columns(x):
    """Columns of bytes as integers of 16 bits, two together, one row for each two."""
    if x.stride(-1) != 1:
        return _twos(x.mT).mT
    depth = x.shape[-2]
    rows = (*x.shape[:-2], (depth + 1) // 2, x.shape[-1])
    wide = ops.new_zeros(x, (*rows, 2), dtype=int16)
    wide[..., 0] = x[..., ::2, :]
    wide[..., : depth // 2, :, 1] = x[..., 1::2, :]
    return wide.view(int32)[..., 0]


@functools.cache
def _kernels(stored, signed, tiled=None):
    """What finds the one kernel that there is: neither operand is a lone row.

    Args:
        stored: the dtype of the results.
        signed: whether bytes of the left operand were moved.
        tiled: their dtype, where they are multiplied by tiles; else None.
    """
    from rushlight.codegen.fingerprint import fingerprint
    from rushlight.kernels.epilogue import Epilogue
    from rushlight.kernels.matmul.matmul_kernel_registry import epilogue_kernel

    function = _with if signed else _alone
    epilogue = Epilogue(function, (("int32", True),) if signed else (), stored)
    words = f"_{function.__name__.strip('_')}_{stored}"
    digest = fingerprint(function)

    @functools.cache
    def find(kind):
        if tiled:
            step = "fours" if tiled == "int8" else "unsigned_fours"
            types = f"tiles_{step}", tiled, "int8", "int32"
            return epilogue_kernel(*types, words, epilogue, digest)
        word = "fours" if has_fours() else "twos"
        return epilogue_kernel(word, "int32", "int32", "int32", words, epilogue, digest)

    return find


def _with(total, moved):
    return total + moved


def _alone(total):
    return total


@functools.cache
def _depth():
    from rushlight.kernels.matmul.matmul_kernel_registry import depth_of

    return depth_of("int32")
