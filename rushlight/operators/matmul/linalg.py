"""Matrix products and the compositions built from them."""

import functools
import math
from math import prod

from rushlight.core import dtypes
from rushlight.core.dtype import FLOATING, all_dtypes, by_code, promote_types
from rushlight.core.dtypes import bool_, float32
from rushlight.core.geometry import canonical_dim as wrap_dim
from rushlight.core.launch_args import PAIRED as PAIRS
from rushlight.core.launch_args import TILED
from rushlight.core.roles import host
from rushlight.core.warning import warn_once
from rushlight.dispatch.outputs import TYPE_NAMES
from rushlight.dispatch.python_key import listening
from rushlight.operators import call as ops
from rushlight.operators.functions import broadcast_shapes
from rushlight.operators.linalg.distances import euclidean_dist_gradient
from rushlight.operators.loop_calls import brief
from rushlight.operators.matmul import (
    embedding_of_complex,
    matmul_bf16,
    matmul_cuda,
    matmul_int8,
)
from rushlight.operators.shape.copying import check_number
from rushlight.operators.shared import conjugated, wrap_dims

contraction = host.matmul
pair_product, vector_product = contraction.pair_product, contraction.vector_product
# What sums are held in while a product of each dtype is formed.
SUM_TYPES = {
    "float32": "float32",
    "float64": "float64",
    "float16": "float32",
    "bfloat16": "float32",
    "int64": "int64",
    "int32": "int32",
    "int16": "int32",
    "int8": "int32",
    "uint8": "int32",
    "complex64": "complex64",
    "complex128": "complex128",
}
OLD_NAMES = {
    "float32": "float",
    "float64": "double",
    "float16": "c10::Half",
    "bfloat16": "c10::BFloat16",
    "int64": "long int",
    "int32": "int",
    "int16": "short int",
    "int8": "signed char",
    "uint8": "unsigned char",
    "uint16": "short unsigned int",
    "uint32": "unsigned int",
    "uint64": "long unsigned int",
    "bool": "bool",
    "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
}


def find_kernel(kind, code):
    """The native kernel for a dtype, and its tile; without a kind, the tile alone."""
    from rushlight.codegen.schedule.contraction import matrix_tile, unit_tile
    from rushlight.codegen.target import current
    from rushlight.kernels.matmul.matmul_kernel_registry import matrix_kernel

    if code == TILED:
        return None, unit_tile()  # its kernels have something behind them
    name = "float32" if code == PAIRS else by_code(code).name
    sums = SUM_TYPES[name]
    tile = matrix_tile(sums, current())
    if not kind:
        return None, tile
    if code == PAIRS:
        return matrix_kernel("pairs", "float32", "float32", "float32"), tile
    return matrix_kernel(kind, name, name, sums), tile


def find_scaled(code, added):
    """What finds the kernels that multiply results; see `runtime.cpu.matmul.bind`."""
    from rushlight.kernels.matmul.matmul_kernel_registry import scaled

    name = by_code(code).name
    return scaled(name, SUM_TYPES[name], added)


def plain_codes():
    """Numbers of the dtypes that sum products in themselves."""
    plain = [a for a, sums in SUM_TYPES.items() if a == sums and a[0] != "c"]
    return [all_dtypes()[a].code for a in plain]


contraction.bind(find_kernel, plain_codes(), find_scaled)


@functools.cache
def has_pairs():
    """Whether the processor multiplies pairs of bfloat16."""
    from rushlight.codegen.target import current

    return current().has("dot_bf16")


def complex_product(a, b, added=None, alpha=1, beta=1):
    """``alpha * a @ b + beta * added``, by one real product of twice the depth."""
    if a.numel() and b.numel() and matmul_cuda.serves(a):
        try:
            kind = a.dtype.name
            return matmul_cuda.product(a, b, kind, a.dtype, added, alpha, beta)
        except NotImplementedError:  # no library is there
            pass
    result = embedding_of_complex.matrix_product(
        a, b, lambda x, y: contraction.product(x, y, x.dtype)
    )
    result = result if alpha == 1 else result * alpha
    if added is None:
        return result
    return embedding_of_complex.plain_sum(result, added if beta == 1 else added * beta)


def product(a, b, sums, *added):
    """The product in the type of the sums; bfloat16 in pairs where that is to be had."""
    if a.dtype.is_complex:
        return complex_product(a, b, *added)
    if not added and matmul_bf16.takes_tiles(a, b):
        return matmul_bf16.sums_by_tiles(a, b)
    if not added and a.dtype.name == "bfloat16" and has_pairs():
        left = a if a.stride(-1) == 1 else a.contiguous()
        right = b
        if b.stride(-2) != 1:
            right = b.transpose(-2, -1).contiguous().transpose(-2, -1)
        result = pair_product(left, right, sums)
        if result is not None:
            return result
    return contraction.product(a, b, sums, *added)


def sum_type(tensor, operator):
    """The dtype that products of this tensor's dtype are summed in.

    Raises:
        NotImplementedError: the dtype has no products.
    """
    name = SUM_TYPES.get(tensor.dtype.name)
    if name is None:
        raise NotImplementedError(
            f'"{operator}" not implemented for '
            f"'{TYPE_NAMES.get(tensor.dtype.name, tensor.dtype.name)}'\n"
            f"  self: {brief(tensor)}"
        )
    return tensor.dtype if name == tensor.dtype.name else getattr(dtypes, name)


def like(result, tensor):
    """The result in the dtype of an operand."""
    return result if result.dtype is tensor.dtype else result.to(tensor.dtype)


def number_for(value, dtype):
    """A factor as products of a dtype take it: whole for integers, real for floats.

    Raises:
        RuntimeError: the dtype has no such number.
    """
    if type(value) is int and (value == 0 or value == 1):
        return value
    if dtype.is_complex:
        check_number(dtype, value)
        return value
    if isinstance(value, complex) and value.imag == 0:
        value = value.real
    if dtype.is_floating_point and not isinstance(value, complex):
        check_number(dtype, value)
    whole = dtype.category < FLOATING
    unsigned = dtype.name[0] == "u"
    limit = 1 << (8 * dtype.itemsize - (not unsigned))
    least = 0 if unsigned and isinstance(value, float) else -limit
    if isinstance(value, complex) or (whole and not least <= value < limit):
        name = OLD_NAMES.get(dtype.name, dtype.name)
        raise RuntimeError(f"value cannot be converted to type {name} without overflow")
    return int(value) if whole else value


def check_dtypes(operator, a, b, names=("m1", "m2")):
    """Refuses operands of two dtypes.

    Raises:
        RuntimeError: the dtypes differ.
    """
    if a.dtype is not b.dtype:
        kinds = [OLD_NAMES.get(t.dtype.name, t.dtype.name) for t in (a, b)]
        raise RuntimeError(
            f"expected {names[0]} and {names[1]} to have the same dtype, but got: "
            f"{kinds[0]} != {kinds[1]}\n  {operator}: {brief(a)}, {brief(b)}"
        )


def check_matrices(operator, a, b, names):
    """Refuses what two matrices cannot be multiplied for.

    Raises:
        RuntimeError: a dimension or a dtype does not fit.
    """
    for name, tensor in zip(names, (a, b), strict=True):
        if tensor.ndim != 2:
            raise RuntimeError(
                f"{name} must be a matrix, got {tensor.ndim}-D tensor\n"
                f"  {operator}: {brief(a)}, {brief(b)}"
            )
    if a.shape[1] != b.shape[0]:
        sizes = " and ".join("x".join(map(str, t.shape)) for t in (a, b))
        raise RuntimeError(
            f"{operator}: mat1 and mat2 shapes cannot be multiplied ({sizes}): "
            f"mat1 has {a.shape[1]} columns but mat2 has {b.shape[0]} rows\n"
            f"  mat1: {brief(a)}\n  mat2: {brief(b)}"
        )
    check_dtypes(operator, a, b)


_FEW_TERMS = (
    400  # of one matrix, below which PyTorch's plain kernel looks at types first
)


def check_batches(operator, a, b):
    """Refuses what two batches of matrices cannot be multiplied for.

    Raises:
        RuntimeError: a dimension, a batch size or a dtype does not fit.
    """
    operands = f"\n  batch1: {brief(a)}\n  batch2: {brief(b)}"
    if operator in ("addbmm", "baddbmm"):  # the result's sizes are asked for first
        wrap_dim(1, a.ndim)
        wrap_dim(2, b.ndim)
    for name, tensor in (("batch1", a), ("batch2", b)):
        if tensor.ndim != 3:
            raise RuntimeError(f"{name} must be a 3D tensor{operands}")
    if a.shape[0] != b.shape[0] or a.shape[2] != b.shape[1]:
        raise RuntimeError(
            "Expected size for first two dimensions of batch2 tensor to be: "
            f"[{a.shape[0]}, {a.shape[2]}] but got: [{b.shape[0]}, {b.shape[1]}]."
            f"{operands}"
        )
    if a.dtype is not b.dtype and operator != "addbmm":
        if a.shape[1] * a.shape[2] * b.shape[2] < _FEW_TERMS:
            sum_type(a, operator)
        kinds = [TYPE_NAMES.get(t.dtype.name, t.dtype.name) for t in (a, b)]
        raise RuntimeError(
            f"expected scalar type {kinds[0]} but found {kinds[1]}{operands}"
        )


# Kernels


# Each tries the plain case, compiled, first; the rest checks, converts and explains.


def mm(self, mat2):
    """The product of two matrices."""
    result = contraction.matrices(self, mat2, 2)
    if result is not None:
        return result
    check_matrices("mm", self, mat2, ("self", "mat2"))
    if not (self.numel() and mat2.numel()):  # of any type: nothing is multiplied
        return ops.new_zeros(self, (self.shape[0], mat2.shape[1]))
    if matmul_bf16.serves(self, mat2):
        return matmul_bf16.product(self, mat2, None, has_pairs())
    if matmul_int8.serves(self, mat2):
        return matmul_int8.product(self, mat2, self.dtype)
    return like(product(self, mat2, sum_type(self, "addmm_impl_cpu_")), self)


def bmm(self, mat2):
    """The products of two batches of matrices."""
    result = contraction.matrices(self, mat2, 3)
    if result is not None:
        return result
    check_batches("bmm", self, mat2)
    if not (self.numel() and mat2.numel()):
        return ops.new_zeros(self, (*self.shape[:2], mat2.shape[2]))
    if matmul_bf16.serves(self, mat2):
        return matmul_bf16.product(self, mat2, None, has_pairs())
    if matmul_int8.serves(self, mat2):
        return matmul_int8.product(self, mat2, self.dtype)
    return like(product(self, mat2, sum_type(self, "bmm")), self)


def addmm(self, mat1, mat2, beta=1, alpha=1):
    """``beta * self + alpha * mat1 @ mat2``."""
    if self.dtype.is_floating_point:
        if beta != 1 or alpha != 1:
            _check_scales(self.dtype, beta, alpha)
        try:
            result = contraction.matrices_added(self, mat1, mat2, beta, alpha)
        except TypeError:  # a complex factor
            result = None
        if result is not None:
            return result
    check_matrices("addmm", mat1, mat2, ("mat1", "mat2"))
    return _added("addmm", self, mat1, mat2, beta, alpha)


def _check_scales(dtype, *scales):
    """Refuses factors of a product that its type, single at least, does not hold."""
    for scale in scales:
        if dtype.is_floating_point and not isinstance(scale, complex):
            check_number(float32 if dtype.itemsize == 2 else dtype, scale)


def baddbmm(self, batch1, batch2, beta=1, alpha=1):
    """``beta * self + alpha * batch1 @ batch2``, for each matrix of a batch."""
    if not self.dtype is batch1.dtype is batch2.dtype:
        kinds = [OLD_NAMES.get(t.dtype.name) for t in (self, batch1, batch2)]
        raise RuntimeError(
            f"Input dtypes must be the same, got: input {kinds[0]}, batch1: {kinds[1]}, "
            f"batch2: {kinds[2]}"
        )
    check_batches("baddbmm", batch1, batch2)
    return _added("baddbmm", self, batch1, batch2, beta, alpha)


def _added(operator, self, a, b, beta, alpha):
    """The product plus an addend that expands to its shape."""
    sums = a.dtype
    if a.numel() and b.numel():  # without elements, of any type
        sums = sum_type(a, "addmm_impl_cpu_")
    if self.dtype is not a.dtype:
        kinds = [TYPE_NAMES.get(t.dtype.name, t.dtype.name) for t in (self, b)]
        raise RuntimeError(
            "self and mat2 must have the same dtype, but got "
            f"{kinds[0]} and {kinds[1]}\n  {operator}: {brief(self)}, "
            f"{brief(a)}, {brief(b)}"
        )
    if a.shape[-1] == 0 and a.dtype.category < FLOATING and beta != 0:
        _check_whole(self, beta)
    half = a.dtype.itemsize == 2 and a.dtype.is_floating_point
    scales = float32 if half else a.dtype
    beta, alpha = number_for(beta, scales), number_for(alpha, scales)
    shape = (*a.shape[:-1], b.shape[-1])
    if a.numel() and b.numel() and matmul_cuda.rounds(a):
        added = expanded(operator, self, shape) if beta != 0 else None
        return matmul_cuda.product(a, b, "float32", a.dtype, added, alpha, beta)
    if half and a.numel() and matmul_bf16.serves(a, b):
        added = expanded(operator, self, shape)
        added = added if beta != 0 else None  # NaN in it is not to be seen
        return matmul_bf16.product(a, b, added, has_pairs(), alpha, beta)
    if beta == 0:  # NaN and infinity in self are not to be seen
        if tuple(self.shape) != shape:
            expanded(operator, self, shape)
        return like(product(a, b, sums, None, alpha), self)
    addend = like(expanded(operator, self, shape), a).to(sums)
    if a.shape[-1] == 0:
        return (addend * beta).to(self.dtype)
    if a.dtype.category < FLOATING and max(abs(alpha), abs(beta)) > 1 << 53:
        # more than the kernel's factors, doubles, hold
        scaled = like(product(a, b, sums, None, 1), self) * alpha
        return scaled + like(expanded(operator, self, shape), a) * beta
    return like(product(a, b, sums, addend, alpha, beta), self)


def _check_whole(self, beta):
    """Refuses a broken factor of integers where it is all that there is to a product."""
    if self.numel() and isinstance(beta, (float, complex)):
        kind = "Float" if isinstance(beta, float) else "ComplexFloat"
        raise RuntimeError(
            f"result type {kind} can't be cast to the desired output type "
            f"{TYPE_NAMES.get(self.dtype.name, self.dtype.name)}"
        )


def expanded(operator, self, shape):
    """``self`` seen in the result's shape, repeated or with adjacent columns."""
    try:
        addend = self if tuple(self.shape) == shape else self.expand(shape)
    except RuntimeError:
        raise RuntimeError(
            f"The expanded size of the tensor must match: {operator} gives "
            f"{list(shape)}, which self cannot expand to\n  self: {brief(self)}"
        ) from None
    adjacent = addend.stride(-1) in (0, 1) or shape[-1] == 1
    return addend if adjacent else addend.contiguous()


def mv(self, vec):
    """The product of a matrix and a vector."""
    result = contraction.vectors(self, vec, 2)
    if result is not None:
        return result
    if not self.ndim:
        raise IndexError(
            "Dimension specified as 0 but tensor has no dimensions\n"
            f"  self: {brief(self)}"
        )
    if self.ndim != 2 or vec.ndim != 1:
        raise RuntimeError(
            f"vector + matrix @ vector expected, got 1, {self.ndim}, {vec.ndim}\n"
            f"  self: {brief(self)}\n  vec: {brief(vec)}"
        )
    if self.shape[1] != vec.shape[0]:
        raise RuntimeError(
            f"size mismatch, got input ({self.shape[0]}), mat ({self.shape[0]}x"
            f"{self.shape[1]}), vec ({vec.shape[0]})\n"
            f"  self: {brief(self)}\n  vec: {brief(vec)}"
        )
    check_dtypes("mv", self, vec, ("mat", "vec"))
    if self.is_complex():
        return complex_product(self, vec.unsqueeze(1)).squeeze(1)
    return like(vector_product(self, vec, sum_type(self, "addmv_impl_cpu")), self)


def dot(self, tensor):
    """The sum of the products of two vectors' elements."""
    result = contraction.vectors(self, tensor, 1)
    if result is not None:
        return result
    if self.ndim != 1 or tensor.ndim != 1:
        raise RuntimeError(
            f"1D tensors expected, but got {self.ndim}D and {tensor.ndim}D tensors\n"
            f"  self: {brief(self)}\n  tensor: {brief(tensor)}"
        )
    if self.dtype is not tensor.dtype:
        raise RuntimeError(
            "dot : expected both vectors to have same dtype, but found "
            f"{TYPE_NAMES.get(self.dtype.name)} and {TYPE_NAMES.get(tensor.dtype.name)}"
        )
    if self.shape[0] != tensor.shape[0]:
        raise RuntimeError(
            f"inconsistent tensor size, expected tensor [{self.shape[0]}] and src "
            f"[{tensor.shape[0]}] to have the same number of elements, but got "
            f"{self.shape[0]} and {tensor.shape[0]} elements respectively"
        )
    if self.is_complex():
        return embedding_of_complex.dot_product(self, tensor, real_dot)
    return like(vector_product(self, tensor, sum_type(self, "dot")), self)


def real_dot(x, y):
    """``dot`` of real vectors of one dtype."""
    return vector_product(x, y, sum_type(x, "dot"))


def linear(input, weight, bias=None):
    """``input @ weight.T + bias`` over the last dimension."""
    rowwise = input.ndim < 3 or input.is_contiguous()
    if not rowwise:
        input = input.contiguous()  # its rows must lie one after another
    result = contraction.linear(input, weight, bias)
    if result is not None:
        return result
    if input.ndim == 0 or weight.ndim == 0:
        raise RuntimeError(
            "both arguments to linear need to be at least 1D, but they are "
            f"{input.ndim}D and {weight.ndim}D"
        )
    if weight.ndim > 2:
        raise RuntimeError(
            f"t() expects a tensor with <= 2 dimensions, but self is {weight.ndim}D\n"
            f"  weight: {brief(weight)}"
        )
    usual = bias is None or (bias.ndim == 1 and bias.shape[0] == weight.shape[0])
    if not usual or weight.ndim == 1 or (bias is not None and input.ndim == 1):
        return _linear_of_any_bias(input, weight, bias, rowwise)
    if input.ndim == 1:
        return ops.mv(weight, input)
    check_linear(input, weight, bias)
    rows = input.reshape(prod(input.shape[:-1]), input.shape[-1])
    if matmul_bf16.serves(rows, weight.t()) and weight.numel():
        result = matmul_bf16.product(rows, weight.t(), bias, has_pairs())
        return result.reshape(*input.shape[:-1], weight.shape[0])
    result = product(rows, weight.t(), sum_type(input, "addmm_impl_cpu_"))
    result = result.reshape(*input.shape[:-1], weight.shape[0])
    return like(result if bias is None else result + bias, input)


def _linear_of_any_bias(input, weight, bias, rowwise):
    """A bias that repeats over rows, or has one for each, or a weight of one row.

    A bias that is a vector but for sizes of one is added to the rows of a matrix,
    another to the result in its own shape.
    """
    rows = input if input.ndim == 2 else input.reshape(-1, input.shape[-1])
    shape = (*input.shape[:-1], *weight.shape[:-1])
    if bias is not None:
        vector = bias.ndim == 1 or sum(size != 1 for size in bias.shape) == 1
        if input.ndim == 2 or (rowwise and vector):
            return ops.addmm(bias, rows, weight.t()).reshape(shape)
    if weight.ndim == 1:
        result = ops.matmul(input, weight)
    else:
        check_linear(input, weight, None)
        result = ops.mm(rows, weight.t()).reshape(shape)
    return result if bias is None else result.add_(bias)


def check_linear(input, weight, bias):
    """Refuses sizes and dtypes that a linear layer cannot have.

    Raises:
        RuntimeError: a size or a dtype does not fit.
    """
    operands = f"\n  input: {brief(input)}\n  weight: {brief(weight)}"
    operands += "" if bias is None else f"\n  bias: {brief(bias)}"
    if input.shape[-1] != weight.shape[1]:
        rows = input.numel() // max(1, input.shape[-1])
        raise RuntimeError(
            f"linear: mat1 and mat2 shapes cannot be multiplied ({rows}x"
            f"{input.shape[-1]} and {weight.shape[1]}x{weight.shape[0]}): input has "
            f"{input.shape[-1]} features but weight takes {weight.shape[1]}{operands}"
        )
    for name, other in (("mat1", input), ("self", bias)):
        if other is not None and other.dtype is not weight.dtype:
            kinds = [TYPE_NAMES.get(t.dtype.name) for t in (other, weight)]
            raise RuntimeError(
                f"{name} and mat2 must have the same dtype, but got "
                f"{kinds[0]} and {kinds[1]}{operands}"
            )


# Derivatives


def linear_backward(grad, input, weight, bias_shape, needs):
    """Gradients of ``linear`` for its input, weight and bias.

    Args:
        needs: bit ``i`` asks for gradient ``i``.
    """
    d_input = d_weight = d_bias = None
    single = weight.ndim == 1
    arriving = grad.unsqueeze(-1) if single else grad
    if needs & 1:
        matrix = weight.unsqueeze(0) if single else weight
        d_input = ops.matmul(arriving, conjugated(matrix))
    if needs & 6:
        count = math.prod(arriving.shape[:-1])
        rows = arriving
        if arriving.ndim != 2:
            rows = arriving.reshape(count, arriving.shape[-1])
        if needs & 2:
            flat = input.reshape(count, input.shape[-1])
            d_weight = ops.mm(rows.t(), conjugated(flat))
            d_weight = d_weight.squeeze(0) if single else d_weight
        if needs & 4:
            d_bias = _bias_gradient(grad, rows, bias_shape)
    return d_input, d_weight, d_bias


def _bias_gradient(grad, rows, shape):
    """What arrives, summed over all for which a bias of this shape stands."""
    if len(shape) == 1:
        return ops.sum(rows, (0,))
    try:
        fits = tuple(broadcast_shapes(shape, grad.shape)) == tuple(grad.shape)
    except RuntimeError:
        fits = False
    return (grad if fits else rows).sum_to_size(shape)


# Compositions


def matmul(self, other):
    """The matrix product, with vectors and batches as NumPy treats them."""
    n, m = self.ndim, other.ndim
    if n == 2 and m == 2:
        return ops.mm(self, other)
    if n == 0 or m == 0:
        raise RuntimeError(
            "both arguments to matmul need to be at least 1D, but they are "
            f"{n}D and {m}D"
        )
    if n == 1 and m == 1:
        return ops.dot(self, other)
    if n == 2 and m == 1:
        return ops.mv(self, other)
    if n == 1:
        found = matmul(self.unsqueeze(0), other)
        return ops._unsafe_view(found, [*found.shape[:-2], found.shape[-1]])
    if m == 1:
        found = matmul(self, other.unsqueeze(1))
        return ops._unsafe_view(found, found.shape[:-1])
    if m == 2 and n > 2:
        return ops.linear(self, other.t())
    if n == 2 and self.requires_grad:
        # one product sums the gradient over all batches, where as many as batches
        # would be rounded each before they are added
        return ops.linear(other.mT, self).mT.contiguous()
    return _batched(self, other)


def _batched(self, other):
    """Products over broadcast batches."""
    if self.shape[-1] != other.shape[-2]:
        raise RuntimeError(
            "Expected size for first two dimensions of batch2 tensor to be: "
            f"[{list(self.shape[:-2])}, {self.shape[-1]}] but got: "
            f"[{list(other.shape[:-2])}, {other.shape[-2]}].\n"
            f"  matmul: {brief(self)}, {brief(other)}"
        )
    if self.ndim == 3 and other.ndim == 3 and self.shape[0] == other.shape[0]:
        return ops.bmm(self, other)
    mine, theirs = self.shape, other.shape
    if mine[:-2] == theirs[:-2]:
        count = math.prod(mine[:-2])
        a, b = self.reshape(count, *mine[-2:]), other.reshape(count, *theirs[-2:])
        return ops._unsafe_view(ops.bmm(a, b), [*mine[:-1], theirs[-1]])
    batch = tuple(broadcast_shapes(mine[:-2], theirs[:-2]))
    count = 1
    for size in batch:
        count *= size
    a = self.expand(*batch, *self.shape[-2:]).reshape(count, *self.shape[-2:])
    b = other.expand(*batch, *other.shape[-2:]).reshape(count, *other.shape[-2:])
    return ops._unsafe_view(ops.bmm(a, b), [*batch, mine[-2], theirs[-1]])


def addbmm(self, batch1, batch2, beta=1, alpha=1):
    """``beta * self`` plus ``alpha`` times the sum of a batch's products."""
    check_batches("addbmm", batch1, batch2)
    depth = batch1.shape[0] * batch1.shape[2]
    rows = batch1.transpose(0, 1).reshape(batch1.shape[1], depth)
    columns = batch2.reshape(depth, batch2.shape[2])
    return ops.addmm(self, rows, columns, beta=beta, alpha=alpha)


def addmv(self, mat, vec, beta=1, alpha=1):
    """``beta * self + alpha * mat @ vec``."""
    check_addmv(self, mat, vec)
    beta, alpha = number_for(beta, mat.dtype), number_for(alpha, mat.dtype)
    scaled = ops.mv(mat, vec) * alpha
    if beta == 0:
        return scaled
    return embedding_of_complex.plain_sum(self * beta, scaled)


def check_addmv(self, mat, vec):
    """Refuses what cannot be added to the product of a matrix and a vector.

    Raises:
        RuntimeError: a number of dimensions, a size or a dtype does not fit.
    """
    operands = f"\n  self: {brief(self)}\n  mat: {brief(mat)}\n  vec: {brief(vec)}"
    if mat.ndim != 2 or vec.ndim != 1 or self.ndim > 1:
        raise RuntimeError(
            f"vector + matrix @ vector expected, got {self.ndim}, {mat.ndim}, "
            f"{vec.ndim}{operands}"
        )
    rows = self.numel()
    if mat.shape[1] != vec.shape[0] or (rows != mat.shape[0] and rows != 1):
        if self.ndim == 0:
            raise IndexError("Dimension specified as 0 but tensor has no dimensions")
        raise RuntimeError(
            f"size mismatch, got input ({rows}), mat ({mat.shape[0]}x{mat.shape[1]}), "
            f"vec ({vec.shape[0]}){operands}"
        )
    if not self.dtype is mat.dtype is vec.dtype:
        kinds = [TYPE_NAMES.get(t.dtype.name) for t in (self, mat, vec)]
        raise RuntimeError(
            "addmv input tensors must have the same dtype, but got "
            f"{kinds[0]}, {kinds[1]}, and {kinds[2]}{operands}"
        )


def addr(self, vec1, vec2, beta=1, alpha=1):
    """``beta * self + alpha * outer(vec1, vec2)``."""
    check_vectors("addr", vec1=vec1, vec2=vec2)
    shape = (vec1.shape[0], vec2.shape[0])
    addend = self if tuple(self.shape) == shape else self.expand(shape)
    kind = promote_types(self.dtype, vec1.dtype)
    kind = promote_types(kind, vec2.dtype)
    if kind.name in ("uint16", "uint32", "uint64"):
        name = TYPE_NAMES.get(kind.name)
        raise NotImplementedError(f"\"addr_cpu\" not implemented for '{name}'")
    check_factors(kind, beta=beta, alpha=alpha)
    # multiplied in the result's type: a narrow one of the vectors' would round first
    product = vec1.to(kind).unsqueeze(1) * vec2.to(kind)
    if kind is bool_:
        scaled = product & bool(alpha)
        return scaled | (addend & bool(beta))
    scaled = product * number_for(alpha, kind)
    return scaled if beta == 0 else addend.to(kind) * number_for(beta, kind) + scaled


def check_factors(kind, **factors):
    """Refuses factors of another category than the result's.

    Raises:
        RuntimeError: truth values for numbers, or fractions for whole ones.
    """
    for name, value in factors.items():
        if isinstance(value, bool) and kind is not bool_:
            raise RuntimeError(f"Boolean {name} only supported for Boolean results.")
        if kind.category < FLOATING and isinstance(value, (float, complex)):
            raise RuntimeError(
                f"For integral input tensors, argument {name} must not be a floating "
                "point number."
            )


def check_vectors(operator, **vectors):
    """Refuses what is no vector.

    Raises:
        RuntimeError: an operand has not one dimension.
    """
    for name, vector in vectors.items():
        if vector.ndim != 1:
            raise RuntimeError(
                f"{operator}: Expected 1-D argument {name}, but got {vector.ndim}-D"
            )


def outer(self, vec2):
    """All products of an element of one vector and one of another."""
    check_vectors("outer", self=self, vec2=vec2)
    return self.unsqueeze(1) * vec2


def vdot(self, other):
    """``dot`` with the first vector conjugated."""
    return ops.dot(self.conj() if self.is_complex() else self, other)


def inner(self, other):
    """Products summed over the last dimensions of both."""
    if self.ndim == 0 or other.ndim == 0:
        return self * other
    _refuse_other_lengths(self, other)
    return tensordot(self, other, [-1], [-1])


def inner_into(self, other, out):
    """`inner`, written by the product or the sum of products that it is."""
    if self.ndim == 0 or other.ndim == 0:
        return ops.mul(self, other, out=out)
    _refuse_other_lengths(self, other)
    return ops.tensordot(self, other, [-1], [-1], out=out)


def _refuse_other_lengths(self, other):
    if self.shape[-1] != other.shape[-1]:
        raise RuntimeError(
            "inner() the last dimension must match on both input tensors but got "
            f"shapes {list(self.shape)} and {list(other.shape)}"
        )


def tensordot(self, other, dims_self, dims_other):
    """Products summed over pairs of dimensions; what one size repeats is summed first."""
    if len(dims_self) != len(dims_other):
        raise RuntimeError(
            "both dimension lists should have same length\n"
            f"  got {list(dims_self)} and {list(dims_other)}"
        )
    if self.dtype is not other.dtype:
        raise RuntimeError(
            f"both inputs should have same dtype\n  {brief(self)}, {brief(other)}"
        )
    mine, theirs = wrap_dims(dims_self, self.ndim), wrap_dims(dims_other, other.ndim)
    if len(dims_self) == 0:
        mine = theirs = []
    for i, j in zip(mine, theirs, strict=True):
        if self.shape[i] == other.shape[j]:
            continue
        if other.shape[j] == 1:
            self = self.sum([i], keepdim=True, dtype=self.dtype)
        elif self.shape[i] == 1:
            other = other.sum([j], keepdim=True, dtype=other.dtype)
        else:
            raise RuntimeError(
                "contracted dimensions need to match, but first has size "
                f"{self.shape[i]} in dim {i} and second has size {other.shape[j]} in "
                f"dim {j}"
            )
    kept = [d for d in range(self.ndim) if d not in mine]
    others = [d for d in range(other.ndim) if d not in theirs]
    rows, columns = [self.shape[d] for d in kept], [other.shape[d] for d in others]
    if prod(rows) == prod(columns) == 1 and self.dtype.category >= FLOATING:
        # one sum is no product of matrices, which autocast would narrow
        left, right = self.permute([*kept, *mine]), other.permute([*others, *theirs])
        return ops.dot(left.flatten(), right.flatten()).reshape([*rows, *columns])
    depth = prod(self.shape[i] for i in mine)
    left = self.permute([*kept, *mine]).reshape(prod(rows), depth)
    right = other.permute([*theirs, *others]).reshape(depth, prod(columns))
    return ops.mm(left, right).reshape([*rows, *columns])


def chain_matmul(matrices):
    """The product of several matrices in the order that multiplies least."""
    warn_once(
        "torch.chain_matmul is deprecated and will be removed in a future release. Use "
        "torch.linalg.multi_dot instead, which accepts a list of two or more tensors "
        "rather than multiple parameters."
    )
    for matrix in matrices:
        if matrix.ndim != 2:
            raise RuntimeError(
                f"Tensor dimension is {matrix.ndim}, expected 2 instead."
            )
    return product_in_cheapest_order(matrices)


def product_in_cheapest_order(matrices):
    """The product of several matrices, in the order that multiplies least."""
    count = len(matrices)
    sizes = [matrices[0].shape[0], *(m.shape[1] for m in matrices)]
    cost = [[0] * count for _ in range(count)]
    split = [[0] * count for _ in range(count)]
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            options = [
                (
                    cost[i][k]
                    + cost[k + 1][j]
                    + sizes[i] * sizes[k + 1] * sizes[j + 1],
                    k,
                )
                for k in range(i, j)
            ]
            cost[i][j], split[i][j] = min(options)

    def multiply(i, j):
        if i == j:
            return matrices[i]
        k = split[i][j]
        return ops.mm(multiply(i, k), multiply(k + 1, j))

    made = multiply(0, count - 1)
    return ops.view(made, made.shape) if listening(made) else made


def trilinear_backward(grad, i1, i2, i3, expand1, expand2, expand3, sumdim, needs):
    """The gradients: products of the other two with what arrives."""
    return (
        ops._trilinear(grad, i2, i3, sumdim, expand2, expand3, expand1)
        if needs & 1
        else None,
        ops._trilinear(i1, grad, i3, expand1, sumdim, expand3, expand2)
        if needs & 2
        else None,
        ops._trilinear(i1, i2, grad, expand1, expand2, sumdim, expand3)
        if needs & 4
        else None,
    )
