"""Of what kind a call's arguments are: where a difference from PyTorch may stand."""

from __future__ import annotations

from math import prod

import numpy as np

import rushlight
from tests.fuzz import judge
from tests.fuzz.specs import COMPLEX, EPSILON, TensorSpec


def writes_what_it_reads(case):
    """Whether `out=` lies in the memory of an argument."""
    out = case.kwargs.get("out")
    outs = out if isinstance(out, (list, tuple)) else [out]
    written = {id(spec.buffer) for spec in outs if hasattr(spec, "buffer")}
    return any(id(t.buffer) in written for t in tensors(case.args))


def resizes_what_it_reads(case):
    """Whether `out=` lies in an argument's memory, and is not of the result's sizes."""
    out = case.kwargs.get("out")
    if not hasattr(out, "buffer") or not writes_what_it_reads(case):
        return False
    found = judge.call(rushlight, case)
    return found.error is None and tuple(found.result.shape) != out.sizes


def spectrum_meets(case):
    """Whether two of the values that ours finds differ by little more than rounding."""
    answer = judge.call(rushlight, case)
    if answer.error is not None:
        return False
    values = answer.result[1 if case.path[1].endswith("svd") else 0]
    found = np.sort(values.detach().numpy(), axis=-1)
    if found.shape[-1] < 2 or not found.size:
        return False
    steps = 256 * EPSILON[str(values.dtype).rpartition(".")[2]]
    largest = np.abs(found).max(axis=-1)
    return bool((np.abs(np.diff(found)).min(axis=-1) <= steps * largest).any())


def reads_itself(case):
    """Whether the first argument's memory is another argument's, too."""
    first, *others = tensors([*case.args, *case.kwargs.values()])
    return any(spec.buffer is first.buffer for spec in others)


def writes_with_strides(case):
    """Whether `out=` is not row-major, or is an argument, too."""
    out = case.kwargs.get("out")
    return hasattr(out, "strides") and (has_strides(case) or writes_what_it_reads(case))


def writes_some_twice(case):
    """Whether `out=` shows an element several times."""
    out = case.kwargs.get("out")
    return any(repeated(spec) for spec in tensors([out]))


def infinite(case):
    """Whether an argument is infinite or NaN, or has such elements."""
    numbers = [*case.args, *case.kwargs.values()]
    return any(isinstance(a, float) and not np.isfinite(a) for a in numbers) or any(
        spec.dtype.startswith(("float", "bfloat", "complex"))
        and not np.isfinite(spec.values()).all()
        for spec in tensors([*case.args, *case.kwargs.values()])
    )


def unknown_interpolation(case):
    """Whether the way to interpolate, or to go on at the edge, is none that there is."""
    return any(way not in (0, 1, 2) for way in case.args[2:4])


def by_cubics(case):
    """Whether an image is sampled by cubics."""
    return 2 in case.args[2:3] or case.kwargs.get("mode") == "bicubic"


def whole_numbers(case):
    """Whether all arguments are of whole numbers."""
    specs = list(tensors([*case.args, *case.kwargs.values()]))
    return not any(s.dtype.startswith(("float", "bfloat")) for s in specs)


def infinite_factor(case):
    """Whether `alpha` or `beta` is infinite."""
    factors = [case.kwargs.get("alpha"), case.kwargs.get("beta")]
    return any(isinstance(f, float) and np.isinf(f) for f in factors)


def one_dimension_into_out(case):
    """Whether a transform of one dimension is to be written to `out=`."""
    first = next(tensors(case.args))
    dims = case.kwargs.get("dim", (*case.args, None, None, None)[2])
    sizes = case.kwargs.get("s", (*case.args, None, None)[1])
    named = next((v for v in (dims, sizes) if v is not None), first.sizes)
    return "out" in case.kwargs and (isinstance(named, int) or len(named) == 1)


def last_order(case):
    """Whether an order is beyond 32 bits: PyTorch adds one, and rounds it."""
    return any(isinstance(a, int) and a >= 2**31 - 1 for a in case.args)


def leaves_columns_out(case):
    """Whether `gelsy` is told to take small columns for none."""
    cut = case.args[2] if len(case.args) > 2 else case.kwargs.get("rcond")
    driver = case.kwargs.get("driver") or "gelsy"
    return driver == "gelsy" and (infinite(case) or (cut is not None and cut > 1e-6))


def nearly_singular(case):
    """Whether the first matrices hold one without its inverse, but for rounding."""
    first = next(tensors(case.args), None)
    if case.path[1] == "linalg.tensorinv":
        first = flattened(first, case.kwargs.get("ind", (*case.args, 2)[1]))
    elif case.path[1] == "linalg.tensorsolve":
        first = of_equations(*[*tensors(case.args)][:2], case.kwargs.get("dims"))
    if first is None or len(first.sizes) < 2 or not first.numel:
        return False
    matrices = first.values().reshape(first.sizes)
    if not np.isfinite(matrices).all():
        return True
    sizes = np.linalg.svd(matrices.astype(complex), compute_uv=False)
    least, largest = sizes[..., -1], sizes[..., 0]
    steps = 4 * max(first.sizes[-2:]) * EPSILON.get(first.dtype, 0)
    return bool((least <= steps * largest).any())


def pivots_of_others(case):
    """Whether the pivots are not those of so many matrices of such sizes."""
    factors, pivots = [*tensors([*case.args, *case.kwargs.values()])][:2]
    *batch, rows, columns = factors.sizes
    return list(pivots.sizes) != [*batch, min(rows, columns)]


def least_alpha(case):
    """Whether the factor is the least integer, which has no opposite."""
    return case.kwargs.get("alpha") == -(2**63)


def computes_nothing(case):
    """Whether there are no elements in an argument, or in the result."""
    specs = tensors([*case.args, *case.kwargs.values()])
    return 0 in [case.kwargs.get("size"), *(spec.numel for spec in specs)]


def least_correction(case):
    """Whether the correction is the least integer, which has no opposite."""
    return case.kwargs.get("correction") == -(2**63)


def lacks_rank(case):
    """Whether finite matrices are `nearly_singular`, and no least squares by rank."""
    driver = case.kwargs.get("driver", "gels" if "lstsq" not in case.path[1] else None)
    return driver == "gels" and not infinite(case) and nearly_singular(case)


def of_equations(spec, other, dims):
    """The tensor of `tensorsolve` as a matrix, the dimensions named being the last."""
    values = spec.values().reshape(spec.sizes)
    dims = () if dims is None else dims
    values = np.moveaxis(values, dims, range(-len(dims), 0)) if dims else values
    sizes = [prod(values.shape[: len(other.sizes)]), -1]
    matrix = values.reshape(sizes)
    return TensorSpec.dense(matrix.reshape(-1), spec.dtype, matrix.shape)


def flattened(spec, split):
    """A tensor as the matrix of its dimensions before a place, and of those behind."""
    sizes = [prod(spec.sizes[:split]), prod(spec.sizes[split:])]
    return TensorSpec.dense(spec.values(), spec.dtype, sizes)


def lowest_order(case):
    """Whether an order is beyond what single precision counts to."""
    orders = [*case.args, case.kwargs.get("ord"), case.kwargs.get("p")]
    orders = [a for a in orders if isinstance(a, (int, float))]
    return any(a < -(2**53) or 2**53 < a < float("inf") for a in orders)


def repeats(case):
    """Whether an argument shows an element several times."""
    return any(map(repeated, tensors([*case.args, *case.kwargs.values()])))


def repeated(spec):
    """Whether a tensor shows an element several times, by a step of zero."""
    return any(step == 0 and size > 1 for size, step in zip(spec.sizes, spec.strides))


def has_strides(case):
    """Whether an argument is not row-major."""
    for t in tensors([*case.args, *case.kwargs.values()]):
        step = 1
        for size, stride in zip(t.sizes[::-1], t.strides[::-1]):
            if size != 1 and stride != step:
                return True
            step *= size
    return False


def tensors(values):
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from tensors(value)
        elif hasattr(value, "buffer"):
            yield value


def is_half(case):
    """Whether an argument is of a type of 16 bits."""
    arguments = tensors([*case.args, *case.kwargs.values()])
    return any(t.dtype in ("float16", "bfloat16") for t in arguments)


def lies_in_gaps(case):
    """Whether `out=`, or what is written to, or an argument that it meets has gaps."""
    return any(
        spec.numel > 1 and not dense(spec)
        for spec in tensors([*case.args, *case.kwargs.values()])
    )


def is_written_whole(case):
    """Whether `out=` is an argument itself, or all that one shows."""
    out = case.kwargs.get("out")
    return hasattr(out, "buffer") and any(
        out is t or (shown(out) == shown(t)) for t in tensors(case.args)
    )


def shown(spec):
    """What a tensor shows of which memory."""
    return id(spec.buffer), spec.sizes, spec.strides, spec.offset


def fails(case):
    """Whether both sides' codes say that the same matrices cannot be factored.

    What they give for the others agrees.
    """
    answers = [judge.call(m, case) for m in (rushlight, judge.torch)]
    if any(answer.error is not None for answer in answers):
        return False
    ours, theirs = (answer.result[-1].numpy() for answer in answers)
    if (ours != theirs).any() or not ours.any():
        return False
    whole = [answer.result[0].detach().numpy()[ours == 0] for answer in answers]
    return case.twice or np.allclose(*whole, rtol=1e-3, atol=1e-5, equal_nan=True)


def far_out(case):
    """Whether there are arguments beyond what single precision counts to."""
    sizes = (np.abs(t.values().astype(complex)) for t in tensors(case.args))
    return any((size > 2**24).any() for size in sizes)


def squares_overflow(case):
    """Whether a finite number's square is beyond single precision, which it is of."""
    for spec in tensors(case.args):
        if spec.dtype in ("float32", "bfloat16"):
            sizes = np.abs(spec.values())
            if ((sizes > 1.8e19) & np.isfinite(sizes)).any():
                return True
    return False


def large_order(case):
    """Whether an order times an angle has no digits behind the point."""
    specs = list(tensors(case.args))
    most = 2**30 if any(s.dtype == "float64" for s in specs) else 2**20
    numbers = [a for a in case.args if isinstance(a, (int, float))]
    with np.errstate(invalid="ignore"):
        return any(abs(n) >= most for n in numbers) or any(
            (np.abs(spec.values()) >= most).any() for spec in specs[-1:]
        )


def two_to_a_channel(case):
    """Whether a batch has two elements of each channel."""
    first = next(tensors(case.args))
    return len(first.sizes) > 1 and first.numel == 2 * first.sizes[1]


def far_left(case):
    """Whether numbers are so small that single precision has no digits beside them."""
    first = next(tensors(case.args))
    return first.dtype != "float64" and bool((first.values() < -20).any())


def all_alike(case):
    """Whether all elements are one number."""
    values = next(tensors(case.args)).values()
    return values.size > 1 and bool((values == values[0]).all())


def statistics_lie_in_batch(case):
    """Whether running statistics lie in the memory of the batch."""
    first = 1 if case.path[1].startswith("nn") else 3
    batch, *others = [*case.args, *[None] * 5]
    stats = [case.kwargs.get(name) for name in ("running_mean", "running_var")]
    stats += others[first - 1 : first + 1]
    return any(spec.buffer is batch.buffer for spec in tensors(stats))


def of_complex_infinities(case):
    """Whether there are infinite or NaN complex numbers."""
    return infinite(case) and any(t.dtype in COMPLEX for t in tensors(case.args))


def dense(spec):
    """Whether a tensor fills its span with elements, each seen once."""
    step = 1
    for stride, size in sorted(zip(spec.strides, spec.sizes, strict=True)):
        if size != 1 and stride != step:
            return False
        step *= size
    return True
