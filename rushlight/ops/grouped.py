"""Products of matrices in groups, and of eight-bit matrices with scales."""

import rushlight
from rushlight.core.device import backend_for
from rushlight.core.window import address_of
from rushlight.dispatch.outputs import TYPE_NAMES
from rushlight.ops import byte_products
from rushlight.ops import call as ops
from rushlight.ops import products_elsewhere as elsewhere
from rushlight.ops.linalg import check_matrices, expanded

_GROUPED = ("bfloat16", "float16", "float32")
_EIGHT_BITS = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")


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
    if offs is not None and offs.dtype is not rushlight.int32:
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


def int_mm(self, mat2):
    """Sums of 32 bits.

    Raises:
        RuntimeError: the operands' types or shapes aren't right.
    """
    name = "int_mm_out_cpu" if self.device.on_host else "_int_mm_out_cuda"
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
    kind = rushlight.int32
    if not (self.numel() and mat2.numel()):
        return ops.new_zeros(self, (self.shape[0], mat2.shape[1]), dtype=kind)
    if self.dtype is mat2.dtype and elsewhere.serves(self):
        return elsewhere.product(self, mat2, "int32", kind)
    if byte_products.serves(self, mat2):
        return byte_products.product(self, mat2, kind)
    return ops.mm(self.to(kind), mat2.to(kind))


def addmm_activation(self, mat1, mat2, beta=1, alpha=1, use_gelu=False):
    """One pass where the device's library has the function behind its products."""
    behind = "gelu" if use_gelu else "relu"
    same = self.dtype is mat1.dtype is mat2.dtype and mat1.ndim == mat2.ndim == 2
    plain = same and self.ndim in (1, 2) and mat1.dtype.category == 2
    if plain and mat1.numel() and mat2.numel() and elsewhere.serves(mat1):
        check_matrices("addmm", mat1, mat2, ("mat1", "mat2"))
        sums = "float32" if mat1.dtype.itemsize == 2 else mat1.dtype.name
        added = None
        if beta != 0:
            added = expanded("addmm", self, (mat1.shape[0], mat2.shape[1]))
        how = added, alpha, beta, behind
        return elsewhere.product(mat1, mat2, sums, mat1.dtype, *how)
    result = ops.addmm(self, mat1, mat2, beta=beta, alpha=alpha)
    return ops.gelu(result) if use_gelu else ops.relu(result)


def scaled_mm(
    self, mat2, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum
):
    """Scales of one number, of a number a row of the first and a column of the second.

    Raises:
        RuntimeError: the operands' types or shapes aren't right.
    """
    for name, matrix in (("mat1", self), ("mat2", mat2)):
        if matrix.ndim != 2:
            raise RuntimeError(f"{name} must be a matrix")
        if matrix.dtype.name not in _EIGHT_BITS:
            raise RuntimeError(
                f"Expected {name} to be Float8 matrix got {matrix.dtype.name}"
            )
    if self.shape[1] != mat2.shape[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({self.shape[0]}x"
            f"{self.shape[1]} and {mat2.shape[0]}x{mat2.shape[1]})"
        )
    if scale_a.numel() not in (1, self.shape[0]):
        raise RuntimeError(
            f"scale_a must have 1 or {self.shape[0]} elements, got {scale_a.numel()}"
        )
    if scale_b.numel() not in (1, mat2.shape[1]):
        raise RuntimeError(
            f"scale_b must have 1 or {mat2.shape[1]} elements, got {scale_b.numel()}"
        )
    kind = self.dtype if out_dtype is None else out_dtype
    product = by_library(self, mat2, scale_a, scale_b, bias, kind, use_fast_accum)
    if product is not None:
        return product
    product = ops.mm(self.float(), mat2.float())
    product = (
        product * scale_a.reshape([-1, 1]).float() * scale_b.reshape([1, -1]).float()
    )
    if bias is not None:
        product = product + bias.float()
    if scale_result is not None and out_dtype is not None and out_dtype.itemsize == 1:
        product = product * scale_result.float()
    return product.to(self.dtype if out_dtype is None else out_dtype)


def by_library(self, mat2, scale_a, scale_b, bias, dtype, fast):
    """`scaled_mm` by a library of the device's; None where that does not do it.

    A vector that is not of the result's type is added to the result.
    """
    device, sizes = self.device, (self.shape[0], mat2.shape[1], self.shape[1])
    if device.on_host or self.is_meta or dtype.itemsize == 1 or 0 in sizes:
        return None
    each = scale_a.numel() > 1 or scale_b.numel() > 1
    scales = []
    for scale, count in ((scale_a, sizes[0]), (scale_b, sizes[1])):
        scale = scale.reshape(-1).float()
        scales.append((scale.expand(count) if each else scale).contiguous())
    inside = bias is not None and bias.dtype is dtype and dtype.itemsize == 2
    vector = bias.contiguous() if inside else None
    out = elsewhere.fresh(self, sizes[:2], dtype)
    done = backend_for(device).run_scaled_product(
        device,
        (self.dtype.name, mat2.dtype.name),
        dtype.name,
        sizes,
        (
            *map(elsewhere.steps, (out, self, mat2)),
            None if vector is None else address_of(vector),
        ),
        [(address_of(scale), each) for scale in scales],
        fast,
    )
    if not done:
        return None
    return out if bias is None or inside else out.add_(bias)


def scaled_mm_by_recipe(
    self, mat2, scale_a, recipe_a, swizzle_a, scale_b, recipe_b, swizzle_b, bias,
    out_dtype, contraction_dim, use_fast_accum,
):  # fmt: skip
    """Recipes 0 and 1: one scale for all, or one for each row and column.

    Raises:
        RuntimeError: there is another recipe, or an order of scales.
    """
    if list(recipe_a) != list(recipe_b) or list(recipe_a) not in ([0], [1]):
        raise RuntimeError(
            "Invalid scaling configuration. Only TensorWise and RowWise scales of both "
            f"matrices are supported, got recipes {list(recipe_a)} and {list(recipe_b)}"
        )
    if any(swizzle_a) or any(swizzle_b):
        raise RuntimeError("Scales have to be in their own order, not swizzled")
    return scaled_mm(
        self, mat2, scale_a[0], scale_b[0], bias, None, out_dtype, use_fast_accum
    )
