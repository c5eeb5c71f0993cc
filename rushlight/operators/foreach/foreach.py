"""Operators over lists of tensors: each runs once for every tensor.

A launch costs so little on the host that a loop over the tensors is what a kernel over all
of them would save elsewhere; a card's backend puts the launches together. Overrides,
autograd and transformations see the operator on every tensor, and need to know nothing of
lists.
"""

from rushlight.core.device import backend_for
from rushlight.core.tensor import Tensor
from rushlight.operators import call as ops
from rushlight.operators.loop_calls import scalar_name


def _operator(name):
    """An operator that may be registered after this file is read."""
    return lambda: getattr(ops, name)


def over(name):
    """The operator of a name over lists, and its form that writes into the first list.

    Every argument that is a list gives each tensor its own value, every other one is
    the same for all.
    """

    run, run_ = (_operator(name + end) for end in ("", "_"))

    def function(self, *args):
        return run_each(run(), self, args)

    def changing(self, *args):
        run_each(run_(), self, args)
        return self

    return function, changing


def run_each(run, tensors, args, *keywords):
    """The results of an operator on every tensor; the last arguments go by keywords."""
    rows = pairs(tensors, args)
    by_place = 1 + len(args) - len(keywords)
    with backend_for(tensors[0].device).launch.together():
        return [
            run(*row[:by_place], **dict(zip(keywords, row[by_place:], strict=True)))
            for row in rows
        ]


def pairs(tensors, args):
    """The arguments of each call.

    Raises:
        RuntimeError: there is no tensor, or a list is longer or shorter than the first.
    """
    if not tensors:
        raise RuntimeError("Tensor list must have at least one tensor.")
    count = len(tensors)
    columns = [tensors]
    for arg in args:
        if not isinstance(arg, (list, tuple)):
            columns.append([arg] * count)
            continue
        if len(arg) != count:
            if arg and not isinstance(arg[0], Tensor):
                raise RuntimeError(
                    "Tensor list must have same number of elements as scalar list."
                )
            raise RuntimeError(
                "Tensor lists must have the same number of tensors, got "
                f"{count} and {len(arg)}"
            )
        columns.append(arg)
    return zip(*columns, strict=True)


def with_one(pair):
    """The forms of an operator whose second operand is one tensor of no dimension."""
    function, changing = pair

    def checked(self, other, *factor):
        return function(self, single(other), *factor)

    def checked_changing(self, other, *factor):
        return changing(self, single(other), *factor)

    return checked, checked_changing


def single(other):
    """A tensor of no dimension.

    Raises:
        RuntimeError: it has some.
    """
    if other.ndim:
        raise RuntimeError(
            f"scalar tensor expected to be 0 dim but it has {other.ndim} dimensions and "
            f"{other.numel()} elements."
        )
    return other


def packed(pair):
    """The forms of an operator whose numbers come as a vector."""
    function, changing = pair

    def unpacked(self, tensor1, tensor2, scalars):
        return function(self, tensor1, tensor2, numbers(scalars, self))

    def unpacked_changing(self, tensor1, tensor2, scalars):
        return changing(self, tensor1, tensor2, numbers(scalars, self))

    return unpacked, unpacked_changing


def numbers(scalars, tensors):
    """A vector's elements.

    Raises:
        RuntimeError: it is no vector of as many elements as there are tensors, lies
            elsewhere than in the host's memory or not element by element.
    """
    if not scalars.device.on_host:
        raise RuntimeError(
            f"Expected scalars to be on CPU, got {scalars.device.type} instead."
        )
    if not scalars.is_contiguous():
        raise RuntimeError("Expected scalars to be contiguous.")
    if scalars.ndim != 1:
        raise RuntimeError(
            "Expected packed scalar Tensor to be of dimension 1. "
            f"Got {scalars.ndim} instead."
        )
    if len(scalars) != len(tensors):
        raise RuntimeError(
            f"Expected length of scalars to match input of length {len(tensors)} "
            f"but got {len(scalars)} instead."
        )
    return scalars.tolist()


abs_each, abs_each_ = over("abs")
acos_each, acos_each_ = over("acos")
asin_each, asin_each_ = over("asin")
atan_each, atan_each_ = over("atan")
ceil_each, ceil_each_ = over("ceil")
cos_each, cos_each_ = over("cos")
cosh_each, cosh_each_ = over("cosh")
erf_each, erf_each_ = over("erf")
erfc_each, erfc_each_ = over("erfc")
exp_each, exp_each_ = over("exp")
expm1_each, expm1_each_ = over("expm1")
floor_each, floor_each_ = over("floor")
frac_each, frac_each_ = over("frac")
lgamma_each, lgamma_each_ = over("lgamma")
log_each, log_each_ = over("log")
log10_each, log10_each_ = over("log10")
log1p_each, log1p_each_ = over("log1p")
log2_each, log2_each_ = over("log2")
neg_each, neg_each_ = over("neg")
reciprocal_each, reciprocal_each_ = over("reciprocal")
round_each, round_each_ = over("round")
rsqrt_each, rsqrt_each_ = over("rsqrt")
sigmoid_each, sigmoid_each_ = over("sigmoid")
sign_each, sign_each_ = over("sign")
sin_each, sin_each_ = over("sin")
sinh_each, sinh_each_ = over("sinh")
sqrt_each, sqrt_each_ = over("sqrt")
tan_each, tan_each_ = over("tan")
tanh_each, tanh_each_ = over("tanh")
trunc_each, trunc_each_ = over("trunc")

mul_each, mul_each_ = over("mul")
div_each, div_each_ = over("div")
mul_one_each, mul_one_each_ = with_one(over("mul"))
div_one_each, div_one_each_ = with_one(over("div"))
clamp_max_each, clamp_max_each_ = over("clamp_max")
clamp_min_each, clamp_min_each_ = over("clamp_min")
maximum_each, maximum_each_ = clamp_min_each, clamp_min_each_
minimum_each, minimum_each_ = clamp_max_each, clamp_max_each_
pow_each, pow_each_ = over("pow")
lerp_each, lerp_each_ = over("lerp")
copy_each_ = over("copy")[1]
zero_each_ = over("zero")[1]


def _summed(name):
    """``add`` and ``sub``: the second operand's factor goes by its keyword."""
    run, run_ = (_operator(name + end) for end in ("", "_"))

    def function(self, other, alpha=1):
        return run_each(run(), self, (other, alpha), "alpha")

    def changing(self, other, alpha=1):
        run_each(run_(), self, (other, alpha), "alpha")
        return self

    return function, changing


def _scaled(name):
    """``addcmul`` and ``addcdiv``: the number goes by its keyword."""
    run, run_ = (_operator(name + end) for end in ("", "_"))

    def function(self, tensor1, tensor2, value):
        return run_each(run(), self, (tensor1, tensor2, value), "value")

    def changing(self, tensor1, tensor2, value):
        run_each(run_(), self, (tensor1, tensor2, value), "value")
        return self

    return function, changing


add_each, add_each_ = _summed("add")
sub_each, sub_each_ = _summed("sub")
add_one_each, add_one_each_ = with_one((add_each, add_each_))
addcmul_each, addcmul_each_ = _scaled("addcmul")
addcdiv_each, addcdiv_each_ = _scaled("addcdiv")
addcmul_packed_each, addcmul_packed_each_ = packed((addcmul_each, addcmul_each_))
addcdiv_packed_each, addcdiv_packed_each_ = packed((addcdiv_each, addcdiv_each_))


def mm_each(self, mat2):
    """The matrix products of the tensors of two lists, pair by pair.

    Raises:
        RuntimeError: there is no tensor, or the lists differ in length.
    """
    if not self or not mat2:
        raise RuntimeError("_foreach_mm requires non-empty tensor lists")
    return [ops.mm(left, right) for left, right in pairs(self, (mat2,))]


def power_of_number_each(self, exponent):
    """One number to the powers of every tensor."""
    return [ops.pow(self, power) for (power,) in pairs(exponent, ())]


def norm_each(self, ord, dtype):
    """The norm of every tensor, all its elements as one vector."""
    return [
        ops.linalg_vector_norm(x, ord, None, False, dtype=dtype)
        for (x,) in pairs(self, ())
    ]


def powsum_each(self, ord, dtype):
    """The sum of every tensor's absolute values to a power.

    Raises:
        NotImplementedError: a tensor is of a type without fractions.
    """
    sums = []
    for (x,) in pairs(self, ()):
        x = x if dtype is None else x.to(dtype)
        if not (x.is_floating_point() or x.is_complex()):
            raise NotImplementedError(
                f"\"powsum_cpu\" not implemented for '{scalar_name(x.dtype)}'"
            )
        sums.append(ops.sum(ops.pow(ops.abs(x), ord)))
    return sums


def max_each(self):
    """The largest element of every tensor.

    Raises:
        RuntimeError: a tensor has no element.
    """
    largest = []
    for (x,) in pairs(self, ()):
        if x.numel() == 0:
            raise RuntimeError(
                "_foreach_max cannot compute the maximum of an empty tensor; "
                "max over zero elements is undefined."
            )
        largest.append(ops.max(x))
    return largest


def clone_each(self, memory_format):
    """A copy of every tensor."""
    return [ops.clone(x, memory_format=memory_format) for (x,) in pairs(self, ())]


def copy_each(self, src, non_blocking):
    """The tensors of another list in the shapes and types of the first."""
    return [
        ops.copy_(ops.empty_like(x), y, non_blocking) for x, y in pairs(self, (src,))
    ]


def zero_each(self):
    """Zeros as every tensor is."""
    return [ops.zeros_like(x) for (x,) in pairs(self, ())]
