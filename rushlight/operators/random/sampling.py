"""Random tensors. The numbers come from `random.distributions`: PyTorch's CPU stream."""

import math
import warnings

from rushlight.codegen.language import pointwise
from rushlight.core import factories, state
from rushlight.core.dtype import CODE_FLOAT64, FLOATING
from rushlight.core.dtypes import bool_, float32, int64
from rushlight.core.geometry import broadcast_sizes
from rushlight.core.layout import contiguous_format
from rushlight.core.overlap import refuse_partial_overlap
from rushlight.core.tensor import Tensor
from rushlight.dispatch.kernel_table import KernelTable
from rushlight.dispatch.keys import DispatchKey
from rushlight.dispatch.outputs import prepared
from rushlight.kernels.random.box_muller import MANY, box_muller
from rushlight.operators import call as ops
from rushlight.operators.functions import tensor
from rushlight.operators.loop_calls import host_address, require, run, scalar_name
from rushlight.operators.random import drawn_ahead, philox
from rushlight.operators.shared import (
    followed,
    has_elements,
    intercepted,
    readable,
    recorded_ahead,
    require_on_host,
)
from rushlight.operators.type_groups import REAL
from rushlight.random import distributions
from rushlight.random import multinomial as draws
from rushlight.random import normal as normals

# The binary digits of the floating types that there are streams for.
DIGITS = {5: 11, 6: 24, 7: 53, 15: 8}
FLOATS = frozenset(DIGITS)
COUNTED = REAL | {11}
# dtype -> what C++ calls it, the least and the largest integer that it counts to.
INTEGER_RANGES = {
    0: ("unsigned char", 0, 2**8 - 1), 1: ("signed char", -(2**7), 2**7 - 1),
    2: ("short", -(2**15), 2**15 - 1), 3: ("int", -(2**31), 2**31 - 1),
    4: ("long", -(2**63), 2**63 - 1), 11: ("bool", 0, 1),
    5: ("c10::Half", -65504, 65504), 15: ("c10::BFloat16", -(2**127), 2**127),
    6: ("float", -(2**127), 2**127), 7: ("double", -(2**1023), 2**1023),
    27: ("unsigned short", 0, 2**16 - 1), 28: ("unsigned int", 0, 2**32 - 1),
    29: ("unsigned long", 0, 2**64 - 1),
}  # fmt: skip
LARGEST = {5: 65504.0, 6: 3.4028234663852886e38, 7: 1.7976931348623157e308,
           15: 3.3895313892515355e38}  # fmt: skip


_TRANSFORMED = 1 << DispatchKey.Batched  # a transformation of functions is at work


def _in_memory(self, *others):
    """A tensor with its dimensions in the order of its memory, and others beside it."""
    strides = self.stride()
    order = sorted(range(self.ndim), key=lambda dim: -strides[dim])
    return [ops.permute(x, order) for x in (self, *others)]


def _fill(self, fill, generator, *parameters):
    """Fills a tensor in the order of its memory, as PyTorch's serial kernels do."""
    address = distributions.plain_address(self)
    if address:
        if _drawn_ahead(self, fill, generator, parameters):
            return self
        fill(generator, address, self.numel(), self.dtype.code, *parameters)
        return self
    if not has_elements(self):
        return self
    if any(size > 1 and stride == 0 for size, stride in zip(self.shape, self.stride())):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor "
            "refers to a single memory location. Please clone() the tensor before "
            "performing the operation.\n"
            f"  self: sizes {list(self.shape)}, strides {list(self.stride())}"
        )
    return _fill_elements(self.device, self, fill, generator, parameters)


def _drawn_ahead(self, fill, generator, parameters):
    """Whether launches have filled a tensor: only where they are recorded."""
    if generator is not None or not recorded_ahead():
        return False
    filled = drawn_ahead.filled(self, fill, parameters)
    if filled is not None:
        ops.copy_(self, filled)
    return filled is not None


def _fill_by_philox(device, self, fill, generator, parameters):
    return philox.fill(self, fill.__name__, generator, *parameters)


def _fill_by_mt19937(device, self, fill, generator, parameters):
    target = self
    if not self.is_contiguous():
        (target,) = _in_memory(self)
    if _drawn_ahead(target, fill, generator, parameters):
        return self
    if target.is_contiguous():
        code = self.dtype.code
        fill(generator, host_address(target), target.numel(), code, *parameters)
        return self
    fresh = ops.empty(target.shape, dtype=self.dtype)
    fill(generator, host_address(fresh), fresh.numel(), self.dtype.code, *parameters)
    ops.copy_(target, fresh)
    return self


_fill_elements = KernelTable(
    cpu=_fill_by_mt19937, cuda=_fill_by_philox, meta=_fill_by_philox
)


def _require_float(self, kernel):
    require(kernel, self.dtype, FLOATS, self)


def _require_continuous(self, distribution):
    if self.dtype.is_floating_point:
        if self.numel():
            _require_float(self, f"{distribution.lower()}_cpu")
    else:
        raise RuntimeError(
            f"{distribution} distribution is a continuous probability distribution. dtype "
            f"must be a floating point but you specified {scalar_name(self.dtype)}\n"
            f"  self: {self.dtype}{list(self.shape)} on {self.device}"
        )


def _empty(size, dtype, device):
    if device is None:
        return factories.empty(size, dtype)
    return ops.empty(size, dtype=dtype, device=device)


def _empty_like(self, dtype, layout, device, memory_format):
    how = {"layout": layout, "device": device, "memory_format": memory_format}
    return ops.empty_like(self, dtype=dtype, **how)


# In place.


def uniform_(self, low, high, generator):
    """Uniform numbers in ``[low, high)``."""
    code = self.dtype.code
    if code not in FLOATS:
        if self.dtype.is_complex:
            if not self.numel():
                return self
            uniform_(ops.view_as_real(self), low, high, generator)
            return self
        _require_float(self, "check_uniform_bounds")
    if low > high:
        raise RuntimeError(
            "uniform_ expects to return a [from, to) range, but found "
            f"from={low} > to={high}"
        )
    largest = LARGEST[code]
    if not -largest <= low <= high <= largest:
        name = "to" if -largest <= low <= largest else "from"
        kind = INTEGER_RANGES[code][0]
        raise RuntimeError(f"{name} is out of bounds for {kind}")
    if high - low > largest:
        raise RuntimeError(
            f"uniform_ expects to-from <= {largest}, but found to={high} and "
            f"from={low} which result in to-from to exceed the limit"
        )
    return _fill(self, distributions.fill_uniform, generator, low, high)


def normal_(self, mean, std, generator):
    """Normal numbers."""
    if not std >= 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    if self.dtype.code not in FLOATS:
        if self.dtype.is_complex:
            normal_(ops.view_as_real(self), mean, std / math.sqrt(2), generator)
            return self
        if not self.numel():
            return self
        _require_float(self, "normal_kernel_cpu")
    fill = normals.fill_normal
    if self.is_contiguous():
        least = 16 if recorded_ahead() else MANY
        if self.dtype is float32 and self.numel() >= least:
            return _fill_many(self.device, self, mean, std, generator)
    else:
        fill = normals.fill_normal_serial
    return _fill(self, fill, generator, mean, std)


def _normal_blocks(self, mean, std, generator):
    """Many numbers: uniform ones first, then all blocks of 16; what is left anew."""
    code, count = self.dtype.code, self.numel()
    _fill(self, distributions.fill_uniform, generator, 0.0, 1.0)
    scale = tensor([mean, std], dtype=self.dtype)
    run(box_muller, [self, scale], [], count // 16, 64, T="float32")
    if count % 16 and recorded_ahead():
        _normal_blocks(
            ops.view(self, (-1,)).narrow(0, count - 16, 16), mean, std, generator
        )
    elif count % 16:
        last = host_address(self) + 4 * (count - 16)
        normals.fill_normal(generator, last, 16, code, mean, std)
    return self


def _fill_many_by_philox(device, self, mean, std, generator):
    return _fill(self, normals.fill_normal, generator, mean, std)


_fill_many = KernelTable(
    cpu=lambda device, *given: _normal_blocks(*given),
    cuda=_fill_many_by_philox,
    meta=_fill_many_by_philox,
)


def log_normal_(self, mean, std, generator):
    """Numbers whose logarithms are normal."""
    if std <= 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std}")
    if self.numel():
        _require_float(self, "log_normal_cpu")
    return _fill(self, normals.fill_normal_serial, generator, mean, std, True)


def exponential_(self, rate, generator):
    """Exponential numbers."""
    if rate <= 0:
        raise RuntimeError(
            f"exponential_ expects lambda > 0.0, but found lambda={rate}"
        )
    if not self.numel():
        return self
    _require_continuous(self, "Exponential")
    return _fill(self, distributions.fill_exponential, generator, rate)


def geometric_(self, p, generator):
    """Trials up to the first success."""
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")
    if self.numel():
        require("geometric_cpu", self.dtype, REAL, self)
    return _fill(self, distributions.fill_geometric, generator, p)


def cauchy_(self, median, sigma, generator):
    """Cauchy numbers."""
    if sigma <= 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
    _require_continuous(self, "Cauchy")
    return _fill(self, distributions.fill_cauchy, generator, median, sigma)


def bernoulli_tensor_meta(self, p, generator):
    """The tensor, once the types are known to be right."""
    if self.numel():
        require("bernoulli_tensor_cpu_self_", self.dtype, COUNTED, self)
        _require_float(p, "bernoulli_tensor_cpu_p_")
    return self


def bernoulli_tensor_cuda(self, p, generator):
    """Ones with each element's own probability, by Philox."""
    if not bernoulli_tensor_meta(self, p, generator).numel():
        return self
    chances = ops.contiguous(ops.expand(p, self.shape))
    return philox.bernoulli_of(self, chances, generator)


def bernoulli_float(self, p, generator):
    """Ones with probability ``p``, else zeros."""
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")
    if self.numel():
        require("bernoulli_scalar_cpu_", self.dtype, COUNTED, self)
    return _fill(self, distributions.fill_bernoulli, generator, p)


def bernoulli_tensor(self, p, generator):
    """Ones with each element's own probability, else zeros."""
    if not bernoulli_tensor_meta(self, p, generator).numel():
        return self
    target, chances = _in_memory(self, ops.expand(p, self.shape))
    chances = ops.contiguous(chances)
    fresh = ops.empty(target.shape, dtype=self.dtype)
    distributions.fill_bernoulli_from(
        generator,
        host_address(fresh),
        fresh.numel(),
        fresh.dtype.code,
        host_address(chances),
        chances.dtype.code,
    )
    ops.copy_(target, fresh)
    return self


def random_(self, generator):
    """Integers from 0 up to the largest that the dtype counts to without gaps."""
    if self.numel():
        require("random_kernel_cpu", self.dtype, distributions.FULL_RANGES, self)
    return _fill(self, distributions.fill_full_range, generator)


def random_to(self, to, generator):
    """Integers in ``[0, to)``."""
    return random_from(self, 0, to, generator)


def _integer_range(dtype):
    """What C++ calls a type, and the least and the largest integer it counts to."""
    if dtype.is_floating_point:
        require("random_update_from_to", dtype, FLOATS)
    if dtype.code not in INTEGER_RANGES:
        raise RuntimeError(
            "check_random_bounds handles only integral, floating-point and boolean "
            f"types, not {dtype}"
        )
    return INTEGER_RANGES[dtype.code]


def random_from(self, low, to, generator):
    """Integers in ``[low, to)``; up to the dtype's largest where ``to`` is None."""
    if to is not None and low >= to:
        raise RuntimeError(
            "random_ expects 'from' to be less than 'to', but got "
            f"from={low} >= to={to}"
        )
    kind, least, most = _integer_range(self.dtype)
    if to is None:
        if self.dtype.code in FLOATS:
            most = distributions.FULL_RANGES[self.dtype.code][1] - 1
        high = most + 1
    else:
        high = to
    if low >= high:
        raise RuntimeError(
            "random_ expects 'from' to be less than 'to', but got "
            f"from={low} >= to={high}"
        )
    if not least <= low <= most:
        raise RuntimeError(f"from is out of bounds for {kind}")
    if not least <= high - 1 <= most:
        raise RuntimeError(f"to - 1 is out of bounds for {kind}")
    if self.dtype.code in FLOATS:
        low, high = _distinct_bounds(self.dtype, kind, low, high)
    span = (high - low) % 2**64
    return _fill(self, distributions.fill_integers, generator, low, span)


def _distinct_bounds(dtype, kind, low, high):
    """Bounds that a floating type tells from their neighbours, with a warning.

    Raises:
        RuntimeError: no number lies between them.
    """
    digits = DIGITS[dtype.code]
    for name, bound in (("from", low), ("to - 1", high - 1)):
        if abs(bound) > 1 << digits:
            warnings.warn(
                f"{name} is out of bounds [-(2^{digits}), 2^{digits}]. Due to precision "
                f"limitations {kind} can support discrete uniform distribution only "
                "within this range.",
                stacklevel=2,
            )
    rounded = (_rounded(low + 1, digits), _rounded(high - 1, digits))
    if rounded[0] < low:
        low = rounded[0] + (1 << (abs(low + 1).bit_length() - digits))
    if rounded[1] >= high:
        high = rounded[1] - (1 << (abs(high - 1).bit_length() - digits))
    if low >= high:
        raise RuntimeError(
            "random_ expects 'from' casted to dtype to be less than 'to' casted to "
            f"dtype, but got from={low} >= to={high}"
        )
    return low, high


def _rounded(number, digits):
    """The integer rounded to so many binary digits, ties to even."""
    spare = abs(number).bit_length() - digits
    if spare <= 0:
        return number
    kept, lost = divmod(abs(number), 1 << spare)
    kept += 2 * lost + (kept & 1) > 1 << spare
    return (kept << spare) * (1 if number > 0 else -1)


# New tensors.


def rand(size, generator, dtype, layout, device, pin_memory):
    """Uniform numbers in [0, 1)."""
    return uniform_(_empty(size, dtype, device), 0.0, 1.0, generator)


def rand_like(self, generator, dtype, layout, device, pin_memory, memory_format):
    """Uniform numbers in [0, 1), like another tensor."""
    fresh = _empty_like(self, dtype, layout, device, memory_format)
    return uniform_(fresh, 0.0, 1.0, generator)


def randn(size, generator, dtype, layout, device, pin_memory):
    """Standard normal numbers."""
    return normal_(_empty(size, dtype, device), 0.0, 1.0, generator)


def randn_like(self, generator, dtype, layout, device, pin_memory, memory_format):
    """Standard normal numbers, like another tensor."""
    return normal_(
        _empty_like(self, dtype, layout, device, memory_format), 0.0, 1.0, generator
    )


def randint(high, size, generator, dtype, layout, device, pin_memory):
    """Integers in ``[0, high)``."""
    return randint_low(0, high, size, generator, dtype, layout, device, pin_memory)


def randint_low(low, high, size, generator, dtype, layout, device, pin_memory):
    """Integers in ``[low, high)``."""
    dtype = int64 if dtype is None else dtype
    return random_from(_empty(size, dtype, device), low, high, generator)


# With `out=`, numbers are drawn in the output's own type and in the order of its memory.


def rand_into(size, generator, dtype, layout, device, pin_memory, out):
    """Uniform numbers in [0, 1), drawn into a tensor."""
    return uniform_(prepared("aten::rand", out, size), 0.0, 1.0, generator)


def randn_into(size, generator, dtype, layout, device, pin_memory, out):
    """Standard normal numbers, drawn into a tensor."""
    return normal_(prepared("aten::randn", out, size), 0.0, 1.0, generator)


def randint_into(high, size, generator, dtype, layout, device, pin_memory, out):
    """Integers in ``[0, high)``, drawn into a tensor."""
    return random_from(prepared("aten::randint", out, size), 0, high, generator)


def randint_low_into(
    low, high, size, generator, dtype, layout, device, pin_memory, out
):
    """Integers in ``[low, high)``, drawn into a tensor."""
    return random_from(prepared("aten::randint", out, size), low, high, generator)


def normal_float_into(
    mean, std, size, generator, dtype, layout, device, pin_memory, out
):
    """Normal numbers with one mean and one standard deviation, drawn into a tensor."""
    return normal_(prepared("aten::normal", out, size), mean, std, generator)


def bernoulli_into(self, generator, out):
    """Ones with each element's own probability, drawn into a tensor."""
    prepared("bernoulli", out, self.shape, True, (self,))
    refuse_partial_overlap(out, self)
    return ops.bernoulli_(out, self, generator=generator)


def randint_like(
    self, high, generator, dtype, layout, device, pin_memory, memory_format
):
    """Integers in ``[0, high)``, like another tensor."""
    fresh = _empty_like(self, dtype, layout, device, memory_format)
    return random_from(fresh, 0, high, generator)


_HIGH_ON_HOST = "high must be a scalar tensor and on CPU"


def randint_like_tensor(
    self, high, generator, dtype, layout, device, pin_memory, memory_format
):
    """Integers in ``[0, high)``, the bound in a tensor.

    Raises:
        RuntimeError: the bound has dimensions, or is elsewhere.
    """
    if high.ndim:
        raise RuntimeError(_HIGH_ON_HOST)
    require_on_host(high.device, _HIGH_ON_HOST)
    fresh = _empty_like(self, dtype, layout, device, memory_format)
    return random_from(fresh, 0, int(high.item()), generator)


def randint_like_low(
    self, low, high, generator, dtype, layout, device, pin_memory, memory_format
):
    """Integers in ``[low, high)``, like another tensor."""
    return random_from(
        _empty_like(self, dtype, layout, device, memory_format), low, high, generator
    )


def randperm(n, generator, dtype, layout, device, pin_memory):
    """The integers below ``n`` in random order."""
    if n < 0:
        raise RuntimeError(f"n must be non-negative, got{n}")
    dtype = int64 if dtype is None else dtype
    require("randperm", dtype, REAL)
    exact = {5: 2**11 + 1, 6: 2**24 + 1, 7: 2**53 + 1}
    if n > exact.get(dtype.code, n):
        raise RuntimeError(
            f"n is too large for result tensor type: '{scalar_name(dtype)}Tensor': "
            f"{n} is more than {exact[dtype.code]}"
        )
    if n - 1 > INTEGER_RANGES[dtype.code][2]:
        raise RuntimeError(
            f"value cannot be converted to type {dtype.name}_t without overflow: {n}"
        )
    return _fill(_empty((n,), dtype, device), distributions.fill_permutation, generator)


def normal_float(mean, std, size, generator, dtype, layout, device, pin_memory):
    """Normal numbers with one mean and one standard deviation."""
    return normal_(_empty(size, dtype, device), mean, std, generator)


def normal(mean, std, generator):
    """Normal numbers, where the mean or the standard deviation is a tensor."""
    _check_deviations(std)
    like = mean if isinstance(mean, Tensor) else std
    noise = _empty(_common_shape(mean, std), like.dtype, like.device)
    return _scaled_normal(noise, mean, std, generator)


def normal_into(mean, std, generator, out):
    """Normal numbers, drawn in the output's type and in the order of its memory."""
    _check_deviations(std)
    if isinstance(std, Tensor):
        sizes, quiet = _common_shape(mean, std), not isinstance(mean, Tensor)
    else:  # PyTorch makes deviations of the output's sizes
        sizes, quiet = _common_shape(mean, out), False
    prepared("normal", out, sizes, quiet, (mean, std))
    return _scaled_normal(out, mean, std, generator)


def _common_shape(mean, std):
    tensors = [x for x in (mean, std) if isinstance(x, Tensor)]
    return broadcast_sizes([x.shape for x in tensors])


def _check_deviations(std):
    """Refuses standard deviations below zero, and complex ones."""
    if isinstance(std, Tensor):
        if std.is_complex():
            raise RuntimeError("normal expects standard deviation to be non-complex")
        known = std.numel() and readable(std)
        if known and not ops.min(std).item() >= 0:
            raise RuntimeError("normal expects all elements of std >= 0.0")
    elif not std >= 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")


def _scaled_normal(noise, mean, std, generator):
    """Fills a tensor with normal numbers of other means and deviations."""
    if not isinstance(std, Tensor):
        return ops.add_(normal_(noise, 0.0, std, generator), mean)
    normal_(noise, 0.0, 1.0, generator)
    if not isinstance(mean, Tensor):
        mean = ops.full((), mean, dtype=noise.dtype, device=noise.device)
    rounded = noise.dtype.itemsize < 4 or not (mean.dtype is std.dtype is noise.dtype)
    if rounded:  # the product is, too
        return ops.add_(ops.mul_(noise, std), mean)
    return ops.copy_(noise, ops.addcmul(mean, noise, std))


def bernoulli(self, generator):
    """Ones with each element's own probability, else zeros."""
    result, code = _row_major(self), self.dtype.code
    if code not in FLOATS:
        return bernoulli_tensor(result, self, generator)
    chances = distributions.plain_address(self)
    if not chances or not readable(self):
        return bernoulli_tensor(result, self, generator)
    target = distributions.plain_address(result)
    distributions.fill_bernoulli_from(
        generator, target, result.numel(), code, chances, code
    )
    return result


def bernoulli_cuda(self, generator):
    """Ones with each element's own probability, by Philox."""
    return bernoulli_tensor_cuda(_row_major(self), self, generator)


def bernoulli_meta(self, generator):
    """The result, without elements."""
    return bernoulli_tensor_meta(_row_major(self), self, generator)


def bernoulli_p(self, p, generator):
    """Ones with probability ``p``, else zeros, like another tensor."""
    return bernoulli_float(_row_major(self), p, generator)


def _row_major(x):
    return ops.empty_like(x, memory_format=contiguous_format)


def multinomial(self, num_samples, replacement, generator):
    """Indices drawn from each row of weights."""
    result = multinomial_meta(self, num_samples, replacement, generator)
    if self.numel() == 0:
        return result
    weights = ops.contiguous(self)
    rows, categories = self.numel() // self.shape[-1], self.shape[-1]
    code = self.dtype.code
    if replacement and num_samples > 1:
        draws.draw_with_replacement(
            generator,
            host_address(result),
            num_samples,
            host_address(weights),
            code,
            rows,
            categories,
        )
        return result
    # drawn in the order in which the weights lie in memory
    noise = exponential_(ops.empty_like(self), 1.0, generator).contiguous()
    draws.draw_without_replacement(
        host_address(result),
        num_samples,
        host_address(weights),
        host_address(noise),
        code,
        rows,
        categories,
    )
    return result


def multinomial_meta(self, num_samples, replacement, generator):
    """The result, not yet drawn.

    Raises:
        RuntimeError: weights are none, or there are not so many.
    """
    _check_multinomial(self, num_samples, replacement)
    shape = (*self.shape[:-1], num_samples)
    result = ops.empty(shape, dtype=int64, device=self.device)
    if self.numel() == 0 and result.numel():
        raise RuntimeError(
            "invalid multinomial distribution (sum of probabilities <= 0)"
        )
    return result


def multinomial_cuda(self, num_samples, replacement, generator):
    """As PyTorch does it there: the largest of weights over exponential numbers.

    Raises:
        RuntimeError: a weight is negative or not finite, or a row has none.
    """
    result = multinomial_meta(self, num_samples, replacement, generator)
    if self.numel() == 0:
        return result
    return result.copy_(_races(self, num_samples, replacement, generator))


def _races(self, num_samples, replacement, generator):
    if not (ops.isfinite(self) & (self >= 0)).all().item():
        raise RuntimeError(
            "probability tensor contains either `inf`, `nan` or element < 0"
        )
    if (ops.amax(self, -1) == 0).any().item():
        raise RuntimeError(
            "invalid multinomial distribution (sum of probabilities <= 0)"
        )
    if not replacement or num_samples == 1:
        noise = exponential_(ops.empty_like(self), 1.0, generator)
        sizes = self / noise
        if num_samples == 1:
            return ops.argmax(sizes, -1, True)
        return ops.topk(sizes, num_samples)[1]
    # the first category whose sum of weights is beyond a uniform number
    sums = ops.cumsum(self.float() if self.element_size() == 2 else self, -1)
    sums = sums / sums[..., -1:]
    positions = ops.empty(
        (*self.shape[:-1], num_samples), dtype=sums.dtype, device=self.device
    )
    return ops.searchsorted(sums, positions.uniform_(generator=generator), right=True)


def _check_multinomial(self, num_samples, replacement):
    if not 1 <= self.ndim <= 2:
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if self.dtype.is_floating_point:
        _require_float(self, "aminmax_cpu")
    else:
        raise RuntimeError(
            "multinomial only supports floating-point dtypes for input, got: "
            f"{scalar_name(self.dtype)}"
        )
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if self.shape[-1] > 1 << 24:
        raise RuntimeError("number of categories cannot exceed 2^24")
    if not replacement and num_samples > self.shape[-1]:
        raise RuntimeError(
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement: "
            f"{num_samples} of {self.shape[-1]}"
        )


# Dropout.


def _check_dropout(p):
    if not 0 <= p <= 1:
        raise RuntimeError(
            f"dropout probability has to be between 0 and 1, but got {p}"
        )


def _inverse(keep, dtype):
    """``1 / keep`` in the precision that a division of the mask would have."""
    if dtype.code == CODE_FLOAT64:
        return 1.0 / keep
    return distributions.single_quotient(1.0, keep)


def dropout_mask(self, p, shape=None):
    """Zeros with probability ``p``, else ``1 / (1 - p)``, in the dtype of ``self``."""
    if state.included_keys() & _TRANSFORMED:  # a batch may want masks of its own
        return ops.bernoulli(_zeros_for(self, shape), 1 - p).div(1 - p)
    noise = (
        ops.empty_like(self)
        if shape is None
        else _empty(shape, self.dtype, self.device)
    )
    # in parts that others can take, and as PyTorch draws on devices
    if intercepted(self) or followed():
        return _mask_in_steps(self.device, self, noise, p)
    return _fill_mask(self.device, self, noise, p)


def _mask_in_steps(device, self, noise, p):
    return ops.bernoulli_(noise, 1 - p).div_(1 - p)


def _mask_at_once(device, self, noise, p):
    if not self.dtype.is_floating_point:  # refused for what would divide the mask
        return bernoulli_float(noise, 1 - p, None).div_(1 - p)
    _require_float(noise, "bernoulli_scalar_cpu_")
    return _fill(
        noise, distributions.fill_bernoulli, None, 1 - p, _inverse(1 - p, self.dtype)
    )


_fill_mask = KernelTable(cpu=_mask_at_once, cuda=_mask_in_steps, meta=_mask_in_steps)


def _zeros_for(self, shape):
    if shape is None:
        return ops.zeros_like(self)
    return ops.zeros(shape, dtype=self.dtype, device=self.device)


def _passes(input, p, train):
    _check_dropout(p)
    return p == 0 or not train or input.numel() == 0


def dropout(input, p, train):
    """Elements zeroed with probability ``p``, the others scaled by ``1 / (1 - p)``."""
    if _passes(input, p, train):
        return input
    if p == 1:
        return ops.mul(input, ops.zeros_like(input))
    if _has_dropout_kernel(input):
        return ops.native_dropout(input, p, True)[0]
    return ops.mul(input, dropout_mask(input, p))


def _has_dropout_kernel(input):
    """Whether a dropout is one operator: where numbers are drawn by their places."""
    transformed = state.included_keys() & _TRANSFORMED
    known = _draws_by_place(input.device) and input.dtype.is_floating_point
    return known and not transformed


_draws_by_place = KernelTable(
    cpu=lambda _: False, cuda=lambda _: True, meta=lambda _: False
)


def dropout_(self, p, train):
    """The same in place."""
    if _passes(self, p, train):
        return self
    return self.mul_(ops.new_zeros(self, []) if p == 1 else dropout_mask(self, p))


def feature_dropout(input, p, train):
    """Whole channels zeroed with probability ``p``."""
    if _passes(input, p, train):
        return input
    if p == 1:
        return ops.mul(input, ops.zeros_like(input))
    return ops.mul(input, dropout_mask(input, p, _channels(input)))


def feature_dropout_(self, p, train):
    """The same in place."""
    if _passes(self, p, train):
        return self
    if p == 1:
        return self.mul_(ops.new_zeros(self, []))
    return self.mul_(dropout_mask(self, p, _channels(self)))


def _channels(input):
    if input.ndim < 2:
        raise RuntimeError(
            "Feature dropout requires at least 2 dimensions in the input, got "
            f"{list(input.shape)}"
        )
    return (*input.shape[:2], *[1] * (input.ndim - 2))


def alpha_dropout(input, p, train):
    """Dropout that keeps the mean and variance of SELU's outputs."""
    return _alpha_dropout(input, p, train, False)


def alpha_dropout_(self, p, train):
    """The same in place."""
    return _alpha_dropout_(self, p, train, False)


def feature_alpha_dropout(input, p, train):
    """Whole channels dropped, keeping the mean and variance of SELU's outputs."""
    return _alpha_dropout(input, p, train, True)


def feature_alpha_dropout_(self, p, train):
    """The same in place."""
    return _alpha_dropout_(self, p, train, True)


def _alpha_dropout(input, p, train, channels):
    if _passes(input, p, train):
        return input
    if p == 1:
        return ops.mul(input, ops.zeros_like(input))
    scale, shift = _alpha_noise(input, p, channels)
    return ops.mul(input, scale).add_(shift)


def _alpha_dropout_(self, p, train, channels):
    if _passes(self, p, train):
        return self
    if p == 1:
        return self.mul_(ops.new_zeros(self, []))
    scale, shift = _alpha_noise(self, p, channels)
    return self.mul_(scale).add_(shift)


def _alpha_noise(input, p, channels):
    """What an input is multiplied by, and what is added to it then."""
    alpha = 1.7580993408473766
    scale = 1 / math.sqrt((alpha * alpha * p + 1) * (1 - p))
    sizes = _channels(input) if channels else None
    if state.included_keys() & _TRANSFORMED:
        noise = ops.bernoulli(_zeros_for(input, sizes), 1 - p)
    else:
        noise = ops.empty_like(input)
        if channels:
            noise = _empty(sizes, input.dtype, input.device)
        noise = ops.bernoulli_(
            noise, 1 - p
        )  # an operator: the noise may wait for memory
    shift = ops.add(noise, -1).mul_(alpha * scale).add_(alpha * scale * p)
    return noise.mul_(scale), shift


def native_dropout(input, p, train, keep_by=None):
    """The dropped-out input, and which elements were kept."""
    if input.numel() == 0 or train is False:
        return input.clone(), ops.ones_like(input, dtype=bool_)
    if input.dtype.category < FLOATING:
        raise RuntimeError(
            "result type Float can't be cast to the desired output type "
            f"{scalar_name(input.dtype)}"
        )
    keep = ops.empty_like(input, dtype=bool_)
    if keep_by is None or not 0 <= p <= 1:
        keep = bernoulli_float(keep, 1 - p, None)
    else:
        keep = keep_by(keep, 1 - p, input.dtype.itemsize)
    scale = 0.0 if p == 1 else 1 / (1 - p)
    return ops.native_dropout_backward(input, keep, scale), keep


def native_dropout_cuda(input, p, train):
    """The same, with numbers by Philox."""

    def keep_by(keep, chance, size):
        return philox.fill(keep, "fill_kept", None, chance, size)

    return native_dropout(input, p, train, keep_by)


@pointwise
def kept_scaled(x, mask, scale):
    """What a mask keeps, times a scale."""
    return x * mask * scale
