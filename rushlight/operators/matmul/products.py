"""Products of vectors and matrices that are made of simpler ones."""

import math
import string

from rushlight.core.dtype import BOOLEAN, FLOATING, finfo, promote_types
from rushlight.core.dtypes import float32
from rushlight.core.geometry import canonical_dim as wrap_dim
from rushlight.core.layout import contiguous_format
from rushlight.core.state import is_grad_enabled
from rushlight.core.warning import warn_once
from rushlight.dispatch.guard import GradMode
from rushlight.dispatch.outputs import TYPE_NAMES
from rushlight.operators import call as ops
from rushlight.operators.functions import broadcast_shapes
from rushlight.operators.indexing.gather import shares_storage
from rushlight.operators.linalg.linalg_checks import check_square
from rushlight.operators.loop_calls import brief, require
from rushlight.operators.shared import differentiated, readable
from rushlight.operators.type_groups import WIDE_UNSIGNED

MANY_ROWS = 25  # from here distances come from one product, less precise and faster


def _rmatmul(self, other):
    """``other @ self``."""
    return ops.matmul(other, self)


def linalg_vecdot(x, y, dim):
    """The sum of the products along ``dim``.

    Raises:
        RuntimeError: the dtypes differ, or are not floating.
    """
    kinds = [TYPE_NAMES.get(t.dtype.name, t.dtype.name) for t in (x, y)]
    if x.dtype.category < FLOATING:
        raise RuntimeError(
            "linalg.vecdot: Expected a floating point or complex tensor as input. Got "
            f"{kinds[0]}"
        )
    if x.dtype is not y.dtype:
        raise RuntimeError(
            "linalg.vecdot: Expected x and y to have the same dtype, but found x of type "
            f"{kinds[0]} and y of type {kinds[1]} instead"
        )
    if x.ndim == 1 and y.ndim == 1:
        return ops.vdot(x, y)  # whatever the dimension is called
    return (x.conj() * y).sum([dim])


def matrix_power(self, n):
    """By squaring.

    Raises:
        RuntimeError: the matrices aren't square, or have no inverse for a negative power.
    """
    check_square(self, "linalg.matrix_power")
    if n == -1:
        return ops.linalg_inv(self)
    if n < 0:
        self, n = ops.linalg_inv(self), -n
    if n == 1:
        return ops.clone(self, memory_format=contiguous_format)
    result = None
    while n:
        if n & 1:
            result = self if result is None else ops.matmul(result, self)
        n >>= 1
        self = ops.matmul(self, self) if n else self
    if result is None:
        plain = ops.clone(self, memory_format=contiguous_format)
        eye = ops.eye(self.shape[-1], dtype=self.dtype, device=self.device)
        return plain.copy_(eye)  # depends on the matrix, if in nothing
    return result


_LONG_ROW = 64  # elements from which on a row costs no more to start than to go along


def kron(self, other):
    """Each size the product of the two; laid out as their elementwise product is."""
    ndim = max(self.ndim, other.ndim)
    left = [1] * (ndim - self.ndim) + list(self.shape)
    right = [1] * (ndim - other.ndim) + list(other.shape)
    sizes = [a * b for a, b in zip(left, right)]
    row_major = self.is_contiguous() and other.is_contiguous()
    if row_major and ndim > 1 and left[-1] > 1 and 0 < right[-1] < _LONG_ROW:
        # the last dimension's pairs once for each operand, so that rows are long
        pairs = [left[-1], right[-1]]
        wide = self.reshape([*left, 1]).expand([*left[:-1], *pairs])
        tall = other.reshape([*right[:-1], 1, right[-1]]).expand([*right[:-1], *pairs])
        self = wide.reshape([*left[:-1], sizes[-1]])
        other = tall.reshape([*right[:-1], sizes[-1]])
        last, left, right = [sizes[-1]], left[:-1], right[:-1]
    else:
        last = []
    wide = self.reshape([n for size in left for n in (size, 1)] + last)
    tall = other.reshape([n for size in right for n in (1, size)] + last)
    product = wide * tall
    if not product.is_contiguous():  # a view of it, where there is one
        reshaped = product.reshape(sizes)
        if shares_storage(reshaped, product):
            return ops._unsafe_view(product, sizes)
        product = reshaped
    return ops._unsafe_view(product, sizes)


def linalg_cross(self, other, dim):
    """From the two other components, in cyclic order.

    Raises:
        RuntimeError: the dimension's size isn't three.
    """
    if self.ndim != other.ndim:
        raise RuntimeError(
            "linalg.cross: inputs must have the same number of dimensions."
        )
    if self.ndim == 0:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    wrap_dim(dim, self.ndim)
    if self.shape[dim] != 3 or other.shape[dim] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got "
            f"{self.shape[dim]} and {other.shape[dim]}"
        )
    self, other = ops.broadcast_tensors([self, other])
    if self.dtype.category == BOOLEAN or self.dtype.code in WIDE_UNSIGNED:
        raise NotImplementedError(
            f"\"cross\" not implemented for '{TYPE_NAMES[self.dtype.name]}'"
        )
    if self.dtype is not other.dtype:
        raise RuntimeError(
            f"expected scalar type {TYPE_NAMES[self.dtype.name]} but found "
            f"{TYPE_NAMES[other.dtype.name]}\n"
            f"  cross: {brief(self)}, {brief(other)}"
        )
    # rounded or wrapped twice, or infinite in one part, which meets the other's zero
    if self.dtype.itemsize < 4 or not self.dtype.is_floating_point:
        first = self.roll([-1], [dim]) * other.roll([-2], [dim])
        second = self.roll([-2], [dim]) * other.roll([-1], [dim])
        if not self.dtype.is_complex:
            return first - second
        # part by part: the difference of complex numbers multiplies with one
        return ops.view_as_complex(ops.view_as_real(first) - ops.view_as_real(second))
    x, y = self.unbind(dim), other.unbind(dim)
    parts = [
        ops.addcmul(x[k - 2] * y[k - 1], x[k - 1], y[k - 2], value=-1) for k in range(3)
    ]
    return ops.stack(parts, dim)


def cross(self, other, dim):
    """Along the first dimension of size three unless one is given."""
    if dim is None:
        warn_once(
            "Using torch.cross without specifying the dim arg is deprecated.\nPlease either "
            "pass the dim explicitly or simply use torch.linalg.cross.\nThe default value "
            "of dim will change to agree with that of linalg.cross in a future release."
        )
        if 3 not in self.shape:
            raise RuntimeError(f"no dimension of size 3 in input: {list(self.shape)}")
        dim = list(self.shape).index(3)
    return linalg_cross(self, other, dim)


def cosine_similarity(x1, x2, dim, eps):
    """The dot product over the lengths, each at least ``eps``.

    Raises:
        RuntimeError: the inputs are not floating, or ``eps`` is negative.
    """
    kind = promote_types(x1.dtype, x2.dtype)
    if not kind.is_floating_point:
        raise RuntimeError(
            "expected common dtype to be floating point, yet common dtype is "
            f"{TYPE_NAMES.get(kind.name, kind.name)}"
        )
    if not eps >= 0:
        raise RuntimeError(f"eps must be non-negative, got: {eps}")
    x1, x2 = ops.broadcast_tensors([x1.to(kind), x2.to(kind)])
    dim = wrap_dim(dim, x1.ndim)
    return (_unit(x1, dim, eps) * _unit(x2, dim, eps)).sum([dim])


def _unit(x, dim, eps):
    """Vectors over their lengths; where those are small the slope is still theirs."""
    length = ops.linalg_vector_norm(x, 2, [dim], True).clone()
    with GradMode(False):
        # of half precision, the number is not rounded
        wide = float32 if x.dtype.itemsize == 2 else x.dtype
        length.clamp_min_(ops.scalar_tensor(eps, dtype=wide, device=x.device))
    return x / length


def pairwise_distance(x1, x2, p, eps, keepdim):
    """The norm of ``x1 - x2 + eps`` along the last dimension."""
    return ops.norm(x1 - x2 + float(eps), p, [-1], keepdim)


def bilinear(input1, input2, weight, bias):
    """``input1 @ weight[o] @ input2`` for each output feature ``o``.

    Raises:
        RuntimeError: sizes or dtypes don't fit.
    """
    _check_bilinear(input1, input2, weight, bias)
    wanted = input1.requires_grad or input2.requires_grad or weight.requires_grad
    if wanted and weight.is_complex() and is_grad_enabled():
        raise RuntimeError(
            "_trilinear does not support automatic differentiation for outputs with "
            "complex dtype."
        )
    if input1.dtype.is_floating_point and input1.dtype.itemsize == 2:
        wide = [
            None if t is None else t.to(float32) for t in (input1, input2, weight, bias)
        ]
        return bilinear(*wide).to(input1.dtype)
    count = math.prod(input1.shape[:-1])
    left = input1.reshape(count, input1.shape[-1])
    right = input2.reshape(count, input2.shape[-1], 1)
    # (in1, out * in2): one matrix product for all output features
    features, _, width = weight.shape
    folded = weight.permute(1, 0, 2).reshape(weight.shape[1], features * width)
    halfway = ops.mm(left, folded).reshape(count, features, width)
    result = ops.bmm(halfway, right).reshape(*input1.shape[:-1], features)
    return result if bias is None else result + bias


def trilinear(i1, i2, i3, expand1, expand2, expand3, sumdim, unroll_dim):
    """Products of three tensors whose missing dimensions are named, summed over some."""
    total = i1.ndim + len(expand1)
    letters = string.ascii_letters[:total]
    given = [
        "".join(letter for dim, letter in enumerate(letters) if dim not in missing)
        for missing in (expand1, expand2, expand3)
    ]
    if [len(names) for names in given] != [i1.ndim, i2.ndim, i3.ndim]:
        raise RuntimeError("_trilinear: the tensors differ in their dimensions")
    kept = "".join(letter for dim, letter in enumerate(letters) if dim not in sumdim)
    return ops.einsum(f"{','.join(given)}->{kept}", [i1, i2, i3]).contiguous()


def _check_bilinear(input1, input2, weight, bias):
    if input1.ndim != input2.ndim:
        raise RuntimeError(
            "bilinear(): input dimensions do not match: got "
            f"{input1.ndim} and {input2.ndim}"
        )
    for dim in range(input1.ndim - 1):
        if input1.shape[dim] != input2.shape[dim]:
            raise RuntimeError(
                f"bilinear(): input batch dimensions do not match at dim {dim}: got "
                f"{input1.shape[dim]} and {input2.shape[dim]}"
            )
    named = {"input1": input1, "input2": input2, "weight": weight, "bias": bias}
    kinds = {name: t.dtype.name for name, t in named.items() if t is not None}
    if len(set(kinds.values())) > 1:
        listed = ", ".join(f"{name}: {kind}" for name, kind in kinds.items())
        raise RuntimeError(f"All tensors must have the same dtype, got {listed}")
    if input1.ndim == 0 or weight.ndim == 0 or (bias is not None and bias.ndim == 0):
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    for place, x in ((1, input1), (2, input2)):
        if place >= weight.ndim:
            break
        if x.shape[-1] != weight.shape[place]:
            raise RuntimeError(
                f"bilinear(): input{place} size does not match weight size: got "
                f"{x.shape[-1]} but expected {weight.shape[place]}"
            )
    if weight.ndim != 3:
        raise (RuntimeError if weight.ndim > 3 else IndexError)(
            f"bilinear(): weight must have three dimensions, but has {weight.ndim}"
        )
    if bias is not None and bias.shape[0] != weight.shape[0]:
        raise RuntimeError(
            "bilinear(): bias size does not match weight size: got "
            f"{bias.shape[0]} but expected {weight.shape[0]}"
        )


def order_in(dtype, p):
    """The order of a norm as numbers of the type hold it: zero or infinity at the ends.

    >>> from rushlight.core.dtypes import float64
    >>> order_in(float32, 1e40), order_in(float64, 1e40)
    (inf, 1e+40)
    """
    limits = finfo(dtype)
    if p > limits.max:
        return math.inf
    return 0.0 if 0 < p < limits.smallest_normal * limits.eps / 2 else p


def _needs_no_gaps(x):
    """Whether the differences of elements need not be tensors that somebody sees."""
    return x.dtype.itemsize >= 4 and readable(x) and not differentiated(x)


def cdist(x1, x2, p, compute_mode):
    """The norms of the differences of all pairs of rows.

    Raises:
        RuntimeError: the rows differ in length, an input isn't floating, or ``p`` is
            negative.
    """
    for name, x in (("X1", x1), ("X2", x2)):
        if x.ndim < 2:
            raise RuntimeError(
                f"cdist only supports at least 2D tensors, {name} got: {x.ndim}D"
            )
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(
            "X1 and X2 must have the same number of columns. X1: "
            f"{x1.shape[-1]} X2: {x2.shape[-1]}"
        )
    for name, x in (("X1", x1), ("X2", x2)):
        if not x.is_floating_point():
            raise RuntimeError(
                f"cdist only supports floating-point dtypes, {name} got: "
                f"{TYPE_NAMES.get(x.dtype.name, x.dtype.name)}"
            )
    if not p >= 0:
        raise RuntimeError("cdist only supports non-negative p values")
    if x1.dtype is not x2.dtype and x1.numel() and x2.numel():
        require("cdist", x1.dtype, (6, 7), x1, x2)
        raise RuntimeError(
            f"expected scalar type {TYPE_NAMES[x1.dtype.name]} but found "
            f"{TYPE_NAMES[x2.dtype.name]}\n  cdist: {brief(x1)}, {brief(x2)}"
        )
    p = order_in(x1.dtype, p)
    rows = max(x1.shape[-2], x2.shape[-2])
    if compute_mode not in (None, 0, 1, 2):
        raise RuntimeError(f"possible modes: 0, 1, 2, but was: {compute_mode}")
    if p == 2 and (compute_mode == 1 or compute_mode != 2 and rows > MANY_ROWS):
        if x1.numel() and x2.numel():
            return ops._euclidean_dist(x1, x2)
    if _needs_no_gaps(x1) and _needs_no_gaps(x2) and x1.shape[-1]:
        batch = broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
        wide = [x.expand([*batch, *x.shape[-2:]]) for x in (x1, x2)]
        return ops._cdist_forward(*wide, p, None)
    gaps = x1.unsqueeze(-2) - x2.to(x1.dtype).unsqueeze(-3)
    if not gaps.numel():
        return ops.sum(gaps, [-1])
    if p == 0:  # how many differ: with a gradient, of zero, where a norm has none
        return ops.sum(ops.where(gaps.abs() > 0, ops.ones_like(gaps), gaps * 0), [-1])
    return ops.linalg_vector_norm(gaps, p, [-1])
