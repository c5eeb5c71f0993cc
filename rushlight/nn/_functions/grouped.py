"""Products of matrices in groups, and of matrices with scales."""

import enum

import rushlight as rl
from rushlight.operators import call


class ScalingType(enum.IntEnum):
    """What part of a matrix one scale is for."""

    TensorWise = 0
    RowWise = 1
    BlockWise1x16 = 2
    BlockWise1x32 = 3
    BlockWise1x128 = 4
    BlockWise128x128 = 5


class SwizzleType(enum.IntEnum):
    """In what order the scales of blocks lie."""

    NO_SWIZZLE = 0
    SWIZZLE_32_4_4 = 1


def grouped_mm(mat_a, mat_b, *, offs=None, bias=None, out_dtype=None):
    """Products of matrices, a pair for each group.

    Args:
        mat_a, mat_b: batches of matrices; or one matrix, which ``offs`` cuts into groups.
        offs: where each group ends, as int32.
        bias: added to every row, or None.
        out_dtype: the type of the products; the operands' by default.

    Raises:
        RuntimeError: the operands don't go together.

    >>> rows = rl.ones(4, 8, dtype=rl.bfloat16)
    >>> weights = rl.ones(2, 8, 8, dtype=rl.bfloat16)
    >>> grouped_mm(rows, weights, offs=rl.tensor([1, 4], dtype=rl.int32)).shape
    rushlight.Size([4, 8])
    """
    return call._grouped_mm(mat_a, mat_b, offs=offs, bias=bias, out_dtype=out_dtype)


def _listed(value):
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _numbers(values):
    return [int(value) for value in _listed(values)]


def scaled_mm(
    mat_a, mat_b, scale_a, scale_recipe_a, scale_b, scale_recipe_b, swizzle_a=None,
    swizzle_b=None, bias=None, output_dtype=rl.bfloat16, contraction_dim=(),
    use_fast_accum=False,
):  # fmt: skip
    """The product of two matrices of eight-bit numbers, each times its scales.

    Args:
        scale_a, scale_b: what the numbers are times.
        scale_recipe_a, scale_recipe_b: which numbers each scale is for.
        output_dtype: the type of the product.
        mat_a, mat_b: the matrices.
        swizzle_a, swizzle_b: how scales lie in memory.
        bias: added to every row, or None.
        contraction_dim: the dimensions that are summed over.
        use_fast_accum: accepted; sums are of float32.

    Raises:
        RuntimeError: the operands or recipes don't go together.

    >>> from rushlight.nn.functional import ScalingType
    >>> eight = rl.ones(16, 16).to(rl.float8_e4m3fn)
    >>> one = rl.ones(())
    >>> whole = ScalingType.TensorWise
    >>> scaled_mm(eight, eight.t(), one, whole, one, whole)[0, 0]
    tensor(16., dtype=rushlight.bfloat16)
    """
    return call._scaled_mm_v2(
        mat_a, mat_b, _listed(scale_a), _numbers(scale_recipe_a), _numbers(swizzle_a),
        _listed(scale_b), _numbers(scale_recipe_b), _numbers(swizzle_b), bias,
        output_dtype, list(contraction_dim), use_fast_accum,
    )  # fmt: skip


def scaled_grouped_mm(
    mat_a, mat_b, scale_a, scale_recipe_a, scale_b, scale_recipe_b, swizzle_a=None,
    swizzle_b=None, bias=None, offs=None, output_dtype=rl.bfloat16, contraction_dim=(),
    use_fast_accum=False,
):  # fmt: skip
    """`scaled_mm` in groups, which no kernel of the CPU is for.

    Args:
        mat_a, mat_b, scale_a, scale_recipe_a, scale_b, scale_recipe_b, swizzle_a, swizzle_b,
            bias, output_dtype, contraction_dim, use_fast_accum: as in `scaled_mm`.
        offs: where each group ends, as int32.

    Raises:
        NotImplementedError: always, on a CPU.

    >>> import pytest
    >>> with pytest.raises(NotImplementedError):
    ...     scaled_grouped_mm(rl.ones(1), rl.ones(1), [], 0, [], 0)
    """
    raise NotImplementedError(
        "Could not run 'aten::_scaled_grouped_mm_v2' with arguments from the 'CPU' "
        "backend.\n  remedy: scaled_mm for each group"
    )
