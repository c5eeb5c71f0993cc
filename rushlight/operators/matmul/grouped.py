"""Products of matrices in groups, and of eight-bit matrices with scales."""

from math import prod

from rushlight.core.device import backend_for
from rushlight.core.dtype import finfo
from rushlight.core.dtypes import bfloat16, float16, float32, int32
from rushlight.core.window import address_of
from rushlight.dispatch.outputs import TYPE_NAMES
from rushlight.operators import call as ops
from rushlight.operators.matmul import matmul_cuda, matmul_int8
from rushlight.operators.matmul.linalg import check_matrices, expanded

_GROUPED = ("bfloat16", "float16", "float32")
_EIGHT_BITS = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
# By a result's type: of vectors that a library adds as it multiplies.
_SHORT = float16, bfloat16
_VECTORS = {kind.name: (kind,) for kind in _SHORT} | dict.fromkeys(_EIGHT_BITS, _SHORT)


def grouped_mm(self, mat2, offs, bias, out_dtype):
    """Two batches are multiplied pair by pair; offsets cut what has no batch into groups.

    Raises:
        RuntimeError: the operands' types, shapes or steps aren't right.
    """
    check_groups(self, mat2, offs, bias, out_dtype)
    if offs is None:
        return ops.bmm(self, mat2)
    ends = offs.tolist()
    starts = [0, *ends[:-1]]
    parts = list(zip(starts, ends))
    if self.ndim == 2 and mat2.ndim == 2:  # groups along the summed dimension
        return ops.stack([self[:, a:b] @ mat2[a:b] for a, b in parts])
    if self.ndim == 2:
        rows = [self[a:b] @ mat2[g] for g, (a, b) in enumerate(parts)]
        rest = self.shape[0] - ends[-1]
        if rest:
            rows.append(self.new_zeros([rest, mat2.shape[2]]))
        return ops.cat(rows)
    columns = [self[g] @ mat2[:, a:b] for g, (a, b) in enumerate(parts)]
    rest = mat2.shape[1] - ends[-1]
    if rest:
        columns.append(self.new_zeros([self.shape[1], rest]))
    return ops.cat(columns, 1)


def check_groups(self, mat2, offs, bias, out_dtype):
    """Refuses operands of `grouped_mm` that don't go together.

    Raises:
        RuntimeError: they don't.
    """
    for name, matrix in (("mat_a", self), ("mat_b", mat2)):
        if matrix.dtype.name not in _GROUPED:
            raise RuntimeError(
                f"Expected {name} to be Float32, BFloat16 or Float16 matrix, got "
                f"{matrix.dtype.name}"
            )
        if matrix.ndim not in (2, 3):
            raise RuntimeError(f"{name} has to be 2 or 3d, got {matrix.ndim}d")
    if self.shape[-1] != mat2.shape[-2]:
        raise RuntimeError("contraction dimension of mat_a and mat_b must match")
    for matrix in (self, mat2):
        steps = matrix.stride()
        if 1 not in steps[-2:]:
            raise RuntimeError("Invalid strides/sizes, got a matrix with no unit step")
        wide = max(steps[-2:], default=1) * matrix.dtype.itemsize
        if wide % 16 and matrix.numel():
            raise RuntimeError(
                f"strides should be multiple of 16 bytes\n  strides: {list(steps)}, "
                f"{matrix.dtype.itemsize} bytes an element"
            )
    if (offs is not None) != (self.ndim == 2 or mat2.ndim == 2):
        raise RuntimeError(
            "Have to provide offsets if there is a 2d matrix, or no offset if both "
            "matrices are 3d"
        )
    if offs is not None and offs.dtype is not int32:
        raise RuntimeError("Offsets have to be int32")
    if bias is not None:
        raise RuntimeError("Bias not supported yet")
    if out_dtype is not None and out_dtype is not self.dtype:
        raise RuntimeError("Grouped gemm output dtype must match `mat_a` dtype")
    if offs is not None:
        limit = self.shape[-1] if mat2.ndim == self.ndim else None
        limit = limit or (self.shape[0] if self.ndim == 2 else mat2.shape[1])
        ends = offs.tolist()
        if any(b < a for a, b in zip([0, *ends], ends)) or (ends and ends[-1] > limit):
            raise RuntimeError(
                f"Offsets have to rise from 0 to {limit} at most, but are {ends}"
            )


def int_mm(self, mat2, name="int_mm_out_cpu"):
    """Sums of 32 bits.

    Raises:
        RuntimeError: the operands' types or shapes aren't right.
    """
    if self.dtype.name not in ("int8", "uint8"):
        raise RuntimeError(
            f"{name}: Expected self dtype to be int8 or uint8 but got "
            f"{TYPE_NAMES.get(self.dtype.name, self.dtype.name).lower()}"
        )
    if mat2.dtype.name != "int8":
        raise RuntimeError(
            f"{name}: Expected mat2 dtype to be of type int8 but got "
            f"{TYPE_NAMES.get(mat2.dtype.name, mat2.dtype.name).lower()}"
        )
    for word, matrix in (("self", self), ("mat2", mat2)):
        if matrix.ndim != 2:
            raise RuntimeError(
                f"{name}: Expected {word} to be of dimension 2 but got {matrix.ndim}"
            )
    if self.shape[1] != mat2.shape[0]:
        raise RuntimeError(
            f"{name}: self.size(1) needs to match mat2.size(0) but got "
            f"{self.shape[1]} and {mat2.shape[0]}"
        )
    kind = int32
    if not (self.numel() and mat2.numel()):
        return ops.new_zeros(self, (self.shape[0], mat2.shape[1]), dtype=kind)
    if self.dtype is mat2.dtype and matmul_cuda.serves(self):
        return matmul_cuda.product(self, mat2, "int32", kind)
    if matmul_int8.serves(self, mat2):
        return matmul_int8.product(self, mat2, kind)
    return ops.mm(self.to(kind), mat2.to(kind))


def int_mm_cuda(self, mat2):
    """The same, refused in the name of PyTorch's kernel there."""
    return int_mm(self, mat2, "_int_mm_out_cuda")


def addmm_activation(self, mat1, mat2, beta=1, alpha=1, use_gelu=False):
    """One pass where the device's library has the function behind its products."""
    activation = "gelu" if use_gelu else "relu"
    same = self.dtype is mat1.dtype is mat2.dtype and mat1.ndim == mat2.ndim == 2
    plain = same and self.ndim in (1, 2) and mat1.dtype.is_floating_point
    if plain and mat1.numel() and mat2.numel() and matmul_cuda.serves(mat1):
        check_matrices("addmm", mat1, mat2, ("mat1", "mat2"))
        sums = "float32" if mat1.dtype.itemsize == 2 else mat1.dtype.name
        added = None
        if beta != 0:
            added = expanded("addmm", self, (mat1.shape[0], mat2.shape[1]))
        how = added, alpha, beta, activation
        return matmul_cuda.product(mat1, mat2, sums, mat1.dtype, *how)
    result = ops.addmm(self, mat1, mat2, beta=beta, alpha=alpha)
    return ops.gelu(result) if use_gelu else ops.relu(result)


def scaled_mm(
    self, mat2, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum
):
    """Scales of one number, or of a number a row of the first and a column of the second.

    Raises:
        RuntimeError: the operands' types or shapes aren't right.
        ValueError: the scales' are not.
    """
    check_scaled(self, mat2, scale_a, scale_b, bias, scale_result)
    kind = self.dtype if out_dtype is None else out_dtype
    if scale_result is not None and kind.itemsize == 1 and out_dtype is not None:
        return (scaled(self, mat2, scale_a, scale_b, bias) / scale_result.float()).to(
            kind
        )
    return scaled(self, mat2, scale_a, scale_b, bias).to(kind)


def check_scaled(self, mat2, scale_a, scale_b, bias, scale_result):
    """Refuses operands of `scaled_mm` that don't go together.

    Raises:
        RuntimeError: types or shapes don't.
        ValueError: scales don't.
    """
    check_factors(self, mat2)
    rows, columns = self.shape[0], mat2.shape[1]
    whole = scale_a.numel() == scale_b.numel() == 1
    if not whole or self.dtype is not mat2.dtype:
        each = all(
            list(scale.shape) == shape and scale.is_contiguous()
            for scale, shape in ((scale_a, [rows, 1]), (scale_b, [1, columns]))
        )
        if not (whole or each) or not have_floats(self, mat2, scale_a, scale_b):
            refuse_scales(self, mat2, scale_a, scale_b)
    one = scale_result
    if one is not None and (one.numel() != 1 or one.dtype is not float32):
        raise RuntimeError("scale_result must be a float scalar")
    if bias is not None and bias.numel() != columns:
        raise RuntimeError(f"Bias must be size {columns} but got {bias.numel()}")
    if self.dtype.name not in _EIGHT_BITS:
        kind = TYPE_NAMES.get(self.dtype.name, self.dtype.name)
        raise RuntimeError(f"Expected mat1 to be Float8 matrix got {kind}")
    matmul_cuda.check_together(self, mat2, scale_a, scale_b, bias, scale_result)


def scaled_mm_cuda(
    self, mat2, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum
):
    """The same by a library; a result of eight bits is multiplied by its scale.

    Raises:
        RuntimeError: the operands' types or shapes aren't right.
        ValueError: the scales' are not.
    """
    check_scaled(self, mat2, scale_a, scale_b, bias, scale_result)
    given = scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum
    return scaled_by_library(self, mat2, *given)


def check_factors(self, mat2):
    """Refuses factors of a scaled product whose shapes aren't right.

    Raises:
        RuntimeError: they aren't.
    """
    for name, matrix in (("mat1", self), ("mat2", mat2)):
        if matrix.ndim != 2:
            raise RuntimeError(f"{name} must be a matrix")
    if self.shape[1] != mat2.shape[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({self.shape[0]}x"
            f"{self.shape[1]} and {mat2.shape[0]}x{mat2.shape[1]})"
        )


def have_floats(self, mat2, *scales):
    """Whether matrices are of eight-bit floats, and their scales float32."""
    eight = all(matrix.dtype.name in _EIGHT_BITS for matrix in (self, mat2))
    return eight and all(scale.dtype is float32 for scale in scales)


def refuse_scales(self, mat2, scale_a, scale_b):
    """Says which scales a product of eight-bit floats takes.

    Raises:
        ValueError: always.
    """
    described = ", ".join(
        f"{name} {item.dtype} {list(item.shape)} with steps {list(item.stride())}"
        for name, item in zip(
            ("mat_a", "scale_a", "mat_b", "scale_b"),
            (self, scale_a, mat2, scale_b),
            strict=True,
        )
    )
    raise ValueError(
        "Invalid scaling configuration.\n"
        "  matrices: of eight-bit floats\n"
        "  scales: one number for each matrix, or contiguous float32 of "
        f"({self.shape[0]}, 1) for the first and (1, {mat2.shape[1]}) for the second\n"
        f"  given: {described}"
    )


def scaled(self, mat2, scale_a, scale_b, bias=None):
    """The product times its scales, with a vector added to each row, in float32."""
    product = ops.mm(self.float(), mat2.float())
    product = product * scale_a.reshape([-1, 1]).float()
    product = product * scale_b.reshape([1, -1]).float()
    return product if bias is None else product + bias.reshape(-1).float()


def scaled_by_library(
    self, mat2, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum
):
    """What a library writes, or rounded from its sums, or from ours.

    A result of eight bits is divided by its scale on the host, and multiplied by it
    here: PyTorch's kernels for both devices read that scale so.
    """
    kind = self.dtype if out_dtype is None else out_dtype
    scales = scale_a, scale_b, scale_result if kind.itemsize == 1 else None
    inside = bias is not None and bias.dtype in _VECTORS.get(kind.name, ())
    if bias is None or inside:  # what the library writes is the result
        product = by_library(self, mat2, scales, bias, kind, use_fast_accum)
        if product is not None:
            return product
    product = None
    if kind is not float32 or bias is not None:
        without = (scale_a, scale_b, None), None, float32
        product = by_library(self, mat2, *without, use_fast_accum)
    if product is None:
        product = scaled(self, mat2, scale_a, scale_b, bias)
    elif bias is not None:
        product = product + bias.reshape(-1).float()
    if scales[2] is not None:
        product = product * scale_result.float()
    if kind.itemsize == 1:  # infinities are not kept there
        limit = finfo(kind).max
        product = product.clamp(-limit, limit)
    return product.to(kind)


def by_library(self, mat2, scales, bias, dtype, fast):
    """A scaled product by a library of the device's; None where that does not do it.

    Args:
        scales: of both factors and of the result, which may be None.
        bias: added to each row; of a type that goes with the result's.
    """
    device, sizes = self.device, (self.shape[0], mat2.shape[1], self.shape[1])
    if 0 in sizes:
        return None
    *factors, scale_result = scales
    each = any(scale.numel() > 1 for scale in factors)
    known = []
    for scale, count in zip(factors, sizes, strict=False):
        scale = scale.reshape(-1).float()
        known.append((scale.expand(count) if each else scale).contiguous())
    vector = None if bias is None else bias.contiguous()
    described = [(address_of(scale), each) for scale in known]
    described.append(None if scale_result is None else address_of(scale_result))
    out = matmul_cuda.fresh(self, sizes[:2], dtype)
    done = backend_for(device).libraries.run_scaled_product(
        device,
        (self.dtype.name, mat2.dtype.name),
        (dtype.name, None if bias is None else bias.dtype.name),
        sizes,
        (
            *map(matmul_cuda.steps, (out, self, mat2)),
            None if vector is None else address_of(vector),
        ),
        described,
        fast,
    )
    return out if done else None


def scaled_mm_by_recipe(
    self, mat2, scale_a, recipe_a, swizzle_a, scale_b, recipe_b, swizzle_b, bias,
    out_dtype, contraction_dim, use_fast_accum,
):  # fmt: skip
    """Recipes 0 and 1: one scale for all, or one for each row and column."""
    recipes, swizzles = (recipe_a, recipe_b), (swizzle_a, swizzle_b)
    first, second = check_recipe(self, mat2, scale_a, scale_b, recipes, swizzles, bias)
    kind = self.dtype if out_dtype is None else out_dtype
    return scaled(self, mat2, first, second, bias).to(kind)


def scaled_mm_by_recipe_cuda(self, mat2, *given):
    """The same by a library."""
    first, second, (bias, out_dtype, _, fast) = given[:3], given[3:6], given[6:]
    paired = list(zip(first, second, strict=True))
    factors = check_recipe(self, mat2, *paired[0], *paired[1:], bias)
    rest = bias, None, out_dtype, fast
    return scaled_by_library(self, mat2, *factors, *rest)


def check_recipe(self, mat2, scale_a, scale_b, recipes, swizzles, bias):
    """The two scales of a product by recipe.

    Raises:
        RuntimeError: the operands' shapes aren't right, or there is an order of scales.
        ValueError: there is another recipe, or the scales or vector don't go with theirs.
    """
    check_factors(self, mat2)
    recipe_b, recipes = list(recipes[1]), list(recipes[0])
    known = recipes == recipe_b and recipes in ([0], [1])
    known = known and len(scale_a) == len(scale_b) == 1
    if not known or not have_floats(self, mat2, *scale_a, *scale_b):
        refuse_scales(self, mat2, scale_a[0], scale_b[0])
    if any(map(any, swizzles)):
        raise RuntimeError("Scales have to be in their own order, not swizzled")
    (first,), (second,), columns = scale_a, scale_b, mat2.shape[1]
    wanted = ([self.shape[0], 1], [1, columns]) if recipes == [1] else ([1], [1])
    for name, scale, shape in zip("ab", (first, second), wanted, strict=True):
        if scale.numel() == prod(shape):
            continue
        if recipes == [0]:
            raise ValueError(f"scale_{name} must have 1 Float element")
        raise ValueError(
            f"scale_{name} must have shape {shape}, got [{list(scale.shape)}]"
        )
    if bias is not None and bias.numel() != columns:
        raise ValueError(f"Bias must be size {columns} but got {bias.numel()}")
    matmul_cuda.check_together(self, mat2, first, second, bias)
    return first, second
