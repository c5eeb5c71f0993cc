"""Makes one call on both sides and says how the answers differ."""

from __future__ import annotations

import functools
import re
import warnings

import numpy as np
import torch

import rushlight
from tests.fuzz.bias import biased
from tests.fuzz.draw import tensors_in
from tests.fuzz.specs import DOUBLE, EPSILON, INEXACT, Named, Side, TensorSpec

TOLERANCE = {  # relative, absolute: those of assert_close
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}
# Functions whose every number depends on all of the input, at poor condition wildly.
SENSITIVE = re.compile(
    r"linalg\..*|lu.*|qr|svd.*|cholesky.*|pinverse|inverse|(log|slog)?det|logdet"
    r"|lstsq|triangular_solve|matrix_exp|geqrf|ormqr|orgqr|pca_lowrank"
    r"|nn\.functional\.ctc_loss"
)
SHAKES = (1, 2, 3)
# Functions whose every number is a sum over others, or is divided by one: what it is
# rounded by is of the size of the sum's largest terms, not of its own.
MIXING = re.compile(
    r"(b|add|addb|baddb)?mm|(add)?mv|add(bmm|r)|matmul|v?dot|inner|outer|ger|einsum"
    r"|tensordot|chain_matmul|cdist|cov|corrcoef|pca_lowrank|nn\.functional\.(conv.*"
    r"|linear|bilinear|normalize|.*_norm|.*attention|cosine_similarity|unfold|fold)"
    r"|nn\.functional\.(interpolate|upsample.*|grid_sample)|grid_sampler(_[23]d)?|native_(batch|layer|group)_norm|masked\.(normalize|softmax|std|var|norm)"
    r"|(nn\.functional\.)?(log_)?softmax|_(log_)?softmax_backward_data|logcumsumexp"
)
HALF = ("float16", "bfloat16")
ROUGH = (*HALF, "complex64")  # whose elements' errors differ by chance
BOUNDS = {"float16": 65519.0, "bfloat16": 3.39e38, "float32": 3.40283e38}
# Their parameters may be wider than their input, and have no digits more for it.
NORMS = re.compile(r"native_(batch|layer|group)_norm|nn\.functional\..*_norm")
# Made of other functions, whose steps are of their own operands' types.
LOSSES = re.compile(r"nn\.functional\.(.*_loss|kl_div|.*cross_entropy.*)")
DIGITS = {"bfloat16": 8, "float16": 11, "float32": 24, "float64": 53}
AS_PYTORCH = 3  # times PyTorch's error, by which ours may be off
# PyTorch's error counts where it leaves digits: in the result, or in the largest one.
NEAR = 1 / 16
LEAST = {"float16": 1.2e-7, "float32": 1.2e-38, "complex64": 1.2e-38}  # steps, normals
OF_SINGLE = 2**-29  # of an error in single precision, which is one in double
CANCELLED = 2**-36  # of the largest operand, at most, that a double's rounding moves
VANISHED = 2**-20  # of a rounding in single precision, which doubles leave of it
VANISHED_HALF = 2**-8  # beside constants such as eps, which are not of half precision
STEADY = 1 / 64  # of the largest, by which a rounding of the operands may move a result
WIDE = ("float64", "complex128")
FEW = 4096  # roundings of the largest operand: what sums may be off by that cancel
# What no message of ours may say: the insides of Python or of the implementation.
INTERNAL = re.compile(
    r"has no attribute|object is not|too large to convert|unhashable|^\d+$"
    r"|values to unpack|cannot unpack"
    r"|NoneType|list index|tuple index|must be real number|cannot be interpreted"
    r"|not supported between|unsupported operand|assert|bad operand|<lambda>|C long"
    r"|positional arguments? but|NULL|math domain|cannot convert float"
)
# Python's own argument errors, which users know: allowed where PyTorch gives TypeError.
PYTHONS = re.compile(
    r"takes \d+ positional|takes from|unexpected keyword|missing \d+ required"
    r"|must be [\w ]+, not NoneType|got \([^)]*NoneType|element of type NoneType"
    r"|multiple values"
)
REFUSALS = (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError)
TOO_MUCH = re.compile(r"Storage size calculation overflowed")
NO_MEMORY = re.compile(r"allocate memory|[Ii]nvalid buffer size|out of memory|alloc")


class Answer:
    """What a call gave: a result, or an exception; and its arguments afterwards."""

    def __init__(self, result=None, error=None, side=None, drew=False):
        self.result, self.error, self.side, self.drew = result, error, side, drew


def present(case):
    """Whether both sides have what the case calls."""
    return None not in (lookup(torch, case.path), lookup(rushlight, case.path))


@functools.cache
def lookup(module, path):
    kind, name = path
    target = module.Tensor if kind == "method" else module
    for part in name.split("."):
        target = getattr(target, part, None)
    return target


def call(module, case, wide=False, shaken=None, rounded=False):
    """The case's answer in a library; of moved arguments if they are to be shaken.

    Rounded doubles are of single precision, unless all are to be doubles.
    """
    side = Side(module, wide, shaken, rounded)
    args = side.build(case.args)
    kwargs = side.build(case.kwargs)
    module.manual_seed(7)
    state = module.get_rng_state().numpy().tobytes() if module is torch else b""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = lookup(module, case.path)(*args, **kwargs)
    except Exception as error:  # every kind is an answer
        return Answer(error=error, side=side)
    drew = module is torch and module.get_rng_state().numpy().tobytes() != state
    return Answer(result, None, side, drew)


def leaves(module, result):
    """The tensors and numbers of a result, with their places in it."""
    if isinstance(result, (list, tuple)):
        if isinstance(result, module.Size):
            return [("", tuple(result))]
        return [
            (f"[{i}]{place}", leaf)
            for i, item in enumerate(result)
            for place, leaf in leaves(module, item)
        ]
    if isinstance(result, module.Tensor) and result.layout is not module.strided:
        return sparse_parts(result)
    return [("", result)]


def sparse_parts(tensor):
    """The kind, sizes and members of a sparse tensor, as they are stored."""
    layout = str(tensor.layout).rpartition(".")[2]
    names = {
        "sparse_coo": ("_indices", "_values"),
        "sparse_csr": ("crow_indices", "col_indices", "values"),
        "sparse_bsr": ("crow_indices", "col_indices", "values"),
        "sparse_csc": ("ccol_indices", "row_indices", "values"),
        "sparse_bsc": ("ccol_indices", "row_indices", "values"),
    }[layout]
    bare = tensor.detach()
    return [
        (".layout", layout),
        (".shape", tuple(tensor.shape)),
        *((f".{name}()", getattr(bare, name)()) for name in names),
    ]


def compare(case):
    """(kind, text) of a difference between the two sides, or None.

    Kinds: ``refused``, ``accepted``, ``class``, ``words``, ``structure``,
    ``dtype``, ``shape``, ``strides``, ``values``, ``argument``, ``alias``, ``gradient``.
    """
    expected = call(torch, case)
    return None if unfit(expected) else judge(case, expected, call(rushlight, case))


def unfit(expected):
    """Whether PyTorch's answer says nothing: no memory, or a failure of its own."""
    error = expected.error
    if error is None:
        return False
    if isinstance(error, REFUSALS) and "INTERNAL ASSERT" not in str(error):
        return no_memory(error)
    return True


def no_memory(error):
    return bool(NO_MEMORY.search(str(error)))


def judge(case, expected, found):
    if expected.error is not None:
        return judge_refusal(expected.error, found.error)
    if found.error is not None:
        if isinstance(found.error, RuntimeError) and (
            no_memory(found.error) or TOO_MUCH.search(str(found.error))
        ):
            return None  # there is PyTorch's answer in it already
        return "refused", f"{type(found.error).__name__}: {found.error}"
    theirs, ours = leaves(torch, expected.result), leaves(rushlight, found.result)
    if [p for p, _ in theirs] != [p for p, _ in ours]:
        return "structure", f"{len(ours)} leaves, not {len(theirs)}"
    wide = precise(case)
    for at, ((place, t), (_, r)) in enumerate(zip(theirs, ours, strict=True)):
        trouble = judge_leaf(t, r, expected, found, at, wide, case)
        if trouble:
            return trouble[0], f"result{place}: {trouble[1]}"
    return (
        judge_arguments(case, expected, found, wide)
        or judge_gradients(case, expected, found, wide)
        or (judge_twice(case) if case.twice else None)
    )


def precise(case):
    """PyTorch's answers in double precision, the argument being a shake."""

    @functools.cache
    def answer(shaken=None):
        return call(torch, case, wide=True, shaken=shaken)

    answer.shakes = SHAKES if SENSITIVE.fullmatch(case.path[1]) else ()
    answer.mixing = bool(MIXING.fullmatch(case.path[1]))
    specs = list(tensors_in([case.args, case.kwargs]))
    answer.doubles = any(spec.dtype in WIDE for spec in specs)
    sizes = [np.abs(spec.values()) for spec in specs]
    sizes = [np.max(v, initial=0, where=np.isfinite(v)) for v in sizes]
    answer.scale = float(max(sizes, default=0))
    answer.narrow = functools.cache(lambda shaken: call(torch, case, shaken=shaken))
    answer.single = functools.cache(lambda wide: call(torch, case, wide, None, True))
    return answer


def reference_of(wide, read):
    """What `read` finds in an answer of `precise`, or None."""

    def found(answer):
        return None if answer.error is not None else read(answer)

    def reference(shaken=None):
        return found(wide(shaken))

    reference.shakes, reference.mixing = wide.shakes, wide.mixing
    reference.scale, reference.doubles = wide.scale, wide.doubles
    reference.narrow = lambda shaken: found(wide.narrow(shaken))
    reference.single = lambda doubles: found(wide.single(doubles))
    return reference


def judge_refusal(error, ours):
    if ours is None:
        return "accepted", f"PyTorch: {type(error).__name__}: {str(error)[:160]}"
    text = str(ours)
    if not isinstance(ours, (*REFUSALS, OverflowError, ZeroDivisionError, MemoryError)):
        return (
            "class",
            f"{type(ours).__name__}: {text[:160]} for {type(error).__name__}",
        )
    if INTERNAL.search(text) and not (PYTHONS.search(text) or same_words(text, error)):
        return "words", f"{type(ours).__name__}: {text[:160]} for {str(error)[:100]}"
    if INTERNAL.search(str(error)) and isinstance(error, (TypeError, ValueError)):
        return None  # PyTorch stumbles over what it has not looked at
    kinds = {kind_of(ours), kind_of(error)}
    if len(kinds) > 1 and kinds != {"TypeError", "ValueError"}:
        note = f"{type(ours).__name__}: {text[:100]}"
        return "class", f"{note} for {type(error).__name__}: {str(error)[:100]}"
    return None


def kind_of(error):
    """The exception's name: `_LinAlgError` of one side is the other's `LinAlgError`."""
    return type(error).__name__.lstrip("_")


def same_words(text, error):
    if "Overflow when unpacking long long" in text:
        return True  # what PyTorch says of such integers, too
    return text.split("\n")[0][:30] in str(error)


def judge_leaf(theirs, ours, expected, found, at, wide, case):
    if not isinstance(theirs, torch.Tensor):
        if isinstance(theirs, (bool, int, float, complex, str, tuple)):
            same = theirs == ours or (theirs != theirs and ours != ours)
            if not same and isinstance(theirs, (float, complex)):
                same = bool(np.isclose(ours, theirs, rtol=1e-5, equal_nan=True))
            return None if same else ("values", f"{ours!r}, not {theirs!r}")
        return None
    if not isinstance(ours, rushlight.Tensor):
        return "structure", f"{type(ours).__name__} for a tensor"
    a, b = expected.side.read(theirs), found.side.read(ours)
    if a[0] != b[0]:
        return "dtype", f"{b[0]}, not {a[0]}"
    if a[1] != b[1]:
        return "shape", f"{b[1]}, not {a[1]}"
    random = expected.drew or "empty" in case.path[1] or "resize" in case.path[1]
    if not random:

        def read(answer):
            return answer.side.read(leaves(torch, answer.result)[at][1])[3]

        dtype = computed_in(case, a[0])
        trouble = differ(dtype, a[3], b[3], reference_of(wide, read))
        if trouble:
            return "values", trouble
    if theirs.numel() > 1 and a[2] != b[2]:
        return "strides", f"{b[2]}, not {a[2]} of {a[1]}"
    differentiable = theirs.is_floating_point() or theirs.is_complex()
    if differentiable and theirs.requires_grad != ours.requires_grad:
        return "gradient", f"requires_grad is {ours.requires_grad}"
    return judge_alias(theirs, ours, expected, found)


def judge_alias(theirs, ours, expected, found):
    """A result shares memory with the same arguments on both sides."""
    for key, (tensor, spec) in expected.side.tensors.items():
        twin = found.side.tensors[key][0]
        if not (tensor.numel() and theirs.numel()):
            continue
        shared = tensor.untyped_storage().data_ptr() == (
            theirs.untyped_storage().data_ptr()
        )
        ours_too = twin.untyped_storage().data_ptr() == (
            ours.untyped_storage().data_ptr()
        )
        if shared != ours_too or (tensor is theirs) != (twin is ours):
            return "alias", f"shares memory with {spec!r}: {ours_too}, not {shared}"
    return None


def computed_in(case, dtype):
    """The type whose digits are right in a result of doubles.

    A narrower one where `out=` shows more digits than the operands have, and in the
    gradient of a number that is of doubles beside tensors that are not.
    """
    if dtype == "float32" and NORMS.fullmatch(case.path[1]):
        first = next(iter(tensors_in(case.args)), None)
        return first.dtype if first is not None and first.dtype in HALF else dtype
    if LOSSES.fullmatch(case.path[1]):
        return narrowest(case, dtype)
    if dtype in ("float32", *WIDE) and {*named(case)} & {*HALF}:
        return min({*named(case)} & {*HALF})
    if dtype not in WIDE or any(name in WIDE for name in named(case)):
        return dtype
    out = case.kwargs.get("out")
    specs = [spec for spec in tensors_in([case.args, case.kwargs]) if spec is not out]
    inexact = [spec for spec in specs if spec.dtype in INEXACT]
    shown = [spec.dtype for spec in inexact if spec.sizes] or [s.dtype for s in inexact]
    if set(shown) & {*WIDE} or (not shown and out is None):
        return dtype
    if not shown or set(shown) & {"float32", "complex64"}:
        return "complex64" if dtype == "complex128" else "float32"
    return min(shown)  # bfloat16 has fewer digits than float16


def narrowest(case, dtype):
    """The type of an argument that has the fewest digits, if fewer than another."""
    found = {s.dtype for s in tensors_in([case.args, case.kwargs])} & {*DIGITS}
    return min([*found, dtype], key=lambda name: DIGITS.get(name, 99))


def named(case):
    """The types that a call names."""
    values = [*case.args, *case.kwargs.values()]
    return [value.name for value in values if isinstance(value, Named)]


def differ(dtype, theirs, ours, reference):
    """How elements differ beyond rounding, or None."""
    if not theirs.size:
        return None
    if theirs.dtype.kind not in "fc":
        wrong = np.flatnonzero(theirs != ours)
    else:
        rtol, atol = TOLERANCE[dtype]
        with np.errstate(all="ignore"):
            # of small numbers the digits count, too, if all of a result are small
            largest = np.max(np.abs(theirs), initial=0, where=np.isfinite(theirs))
            atol = min(atol, 4 * rtol * largest + LEAST.get(dtype, 0))
            close = np.isclose(ours, theirs, rtol=rtol, atol=atol, equal_nan=True)
            if theirs.dtype.kind == "c":  # a NaN in either part, in either part
                close |= np.isnan(ours) & np.isnan(theirs)
                close |= np.isclose(
                    ours.real, theirs.real, rtol=rtol, atol=atol, equal_nan=True
                ) & np.isclose(
                    ours.imag, theirs.imag, rtol=rtol, atol=atol, equal_nan=True
                )
        wrong = np.flatnonzero(~close)
    if wrong.size and dtype in INEXACT:
        wrong = wrong[~as_exact(dtype, theirs, ours, reference, wrong)]
    if wrong.size and (dtype in WIDE or reference.doubles):
        wrong = wrong[~as_in_single(theirs, ours, reference, wrong)]
    if not wrong.size:
        return biased(dtype, EPSILON.get(dtype, 0), theirs, ours, reference)
    at = wrong[0]
    return f"{wrong.size} of {theirs.size}: [{at}] is {ours[at]}, not {theirs[at]}"


def as_exact(dtype, theirs, ours, reference, wrong):
    """Where ours is about as close to the result in double precision as PyTorch's.

    What PyTorch says there counts, not whether it is as near itself. Where it is far off,
    its error is no measure: then what rounding the operands does to the result is, if
    PyTorch's errors show that it does.
    """
    if dtype in WIDE and not reference.shakes:
        right = as_shaken(theirs, ours, reference, wrong)
        return right | as_among_doubles(theirs, ours, reference, wrong)
    exact = reference() if dtype in DOUBLE or reference.shakes else None
    if exact is None or exact.size <= wrong[-1]:
        return np.zeros(wrong.size, bool)
    with np.errstate(all="ignore"):
        # sums may cancel: what they are rounded by is of the size of the largest
        largest = np.max(np.abs(exact), initial=0, where=np.isfinite(exact))
        gaps = np.abs(theirs.astype(exact.dtype) - exact)
        theirs, ours = theirs[wrong], ours[wrong]
        whole, exact = exact, exact[wrong]
        error = np.abs(ours.astype(exact.dtype) - exact)
        allowed = allowed_by(dtype, whole, gaps, wrong, reference)
        allowed += EPSILON[dtype] * (4 * np.abs(exact) + largest)
        for shaken in reference.shakes:
            moved = reference(shaken)
            if moved is None or moved.size != whole.size:  # refused there
                return np.ones(wrong.size, bool)
            step = np.abs(moved[wrong] - exact)
            allowed += 8 * np.where(np.isnan(step), np.inf, step)
        lost = ~np.isfinite(ours) & (allowed > np.abs(exact))  # no digit is sure
        lost &= bool(reference.shakes)
        right = (error <= allowed) | (np.isnan(exact) & np.isnan(ours))
        if not (right.all() or reference.shakes):
            moved = moved_by_rounding(reference, whole, wrong, largest)
            worst = np.max(gaps, initial=0, where=np.isfinite(gaps))
            right |= error <= allowed + 8 * np.minimum(moved, worst)
        if not right.all():
            others = errors_nearby(reference, gaps)
            right |= error <= allowed_by(dtype, whole, others, wrong, reference)
            right |= left_of_nothing(dtype, whole, others, exact, error)
            most = min(FEW * EPSILON[dtype], STEADY) * max(1, reference.scale)
            near = others[wrong]
            if reference.mixing:  # all elements are alike
                near = 2 * np.max(others, initial=0, where=np.isfinite(others))
            right |= error <= np.fmin(near, most)
            right |= nearer(error, gaps[wrong], np.abs(exact), most)
            # beside what PyTorch has lost, the difference is nothing
            right |= np.abs(ours - theirs) <= STEADY * gaps[wrong]
            # what PyTorch has lost altogether may have a few digits less
            steps = min(FEW * EPSILON[dtype], STEADY) * largest
            right |= np.isinf(gaps[wrong]) & (error <= steps)
        if dtype in BOUNDS:  # what is beyond the type is infinite
            right |= (np.abs(exact) > BOUNDS[dtype]) & (ours == np.sign(exact) * np.inf)
        return right | lost


def as_shaken(theirs, ours, reference, wrong):
    """Where doubles, which nothing is more exact than, differ by the operands' roundings.

    Sums may cancel to nothing but those: what moves them is of the operands' size.
    """
    moved = np.zeros(wrong.size)
    with np.errstate(all="ignore"):
        for seed in SHAKES:
            other = reference(seed)
            if other is None or other.size != theirs.size:
                return np.zeros(wrong.size, bool)
            step = np.abs(other[wrong] - theirs[wrong])
            moved = np.fmax(
                moved, np.where(step <= CANCELLED * reference.scale, step, 0)
            )
        return np.abs(ours[wrong] - theirs[wrong]) <= 8 * moved


def as_in_single(theirs, ours, reference, wrong):
    """Where doubles differ by what PyTorch's error in single precision is in doubles.

    Its own answer may be exact, where all that either side can leave is rounding.
    """
    narrow, exact = reference.single(False), reference.single(True)
    if narrow is None or exact is None or not narrow.size == exact.size == ours.size:
        return np.zeros(wrong.size, bool)
    with np.errstate(all="ignore"):
        gaps = np.abs(narrow.astype(exact.dtype) - exact)
        most = np.max(gaps, initial=0, where=np.isfinite(gaps))
        return np.abs(ours[wrong] - theirs[wrong]) <= 8 * OF_SINGLE * most


def as_among_doubles(theirs, ours, reference, wrong):
    """Where PyTorch computed doubles in single precision, beside operands of it."""
    exact = reference()
    if exact is None or exact.size != theirs.size:
        return np.zeros(wrong.size, bool)
    with np.errstate(all="ignore"):
        gaps = np.abs(theirs - exact)
        allowed = gaps[wrong]
        if reference.mixing:
            allowed = np.max(gaps, initial=0, where=np.isfinite(gaps))
        return np.abs(ours[wrong] - exact[wrong]) <= AS_PYTORCH * allowed


def nearer(error, gaps, sizes, most):
    """Where PyTorch lost what ours kept: a digit at least, or three of its error's."""
    kept = (error <= gaps) & (error <= sizes / 2) & (gaps <= most)
    return np.isfinite(gaps) & (kept | (error <= gaps / 8))


def allowed_by(dtype, exact, gaps, wrong, reference):
    """How far off ours may be by PyTorch's errors."""
    return AS_PYTORCH * worst_of_its_size(dtype, exact, gaps, wrong, reference)


def errors_nearby(reference, gaps):
    """PyTorch's largest errors, of operands that differ by roundings as well.

    One error says little of how large they are: it may be small by chance.
    """
    for seed in SHAKES:
        exact, narrow = reference(seed), reference.narrow(seed)
        if (
            exact is None
            or narrow is None
            or not exact.size == narrow.size == gaps.size
        ):
            continue
        gaps = np.fmax(gaps, np.abs(narrow.astype(exact.dtype) - exact))
    return gaps


def left_of_nothing(dtype, whole, gaps, exact, error):
    """Where sums cancel, so that all that either side can leave is its rounding.

    The exact result vanishes, and shrinks with the digits that it is computed in:
    PyTorch's own are the measure.
    """
    least = VANISHED_HALF if dtype in HALF else VANISHED
    vanished = (gaps > 0) & (np.abs(whole) <= least * gaps)
    left = np.max(gaps, initial=0, where=vanished & np.isfinite(gaps))
    return (np.abs(exact) <= least * left) & (error <= 8 * left)


def worst_of_its_size(dtype, exact, gaps, wrong, reference):
    """PyTorch's errors at elements, or the largest at those that they are like.

    Where a function mixes elements, all are alike; in half precision, whose steps are
    rounded one by one, and where parts of complex numbers cancel, those that are not
    larger.
    """
    sizes = np.where(np.isfinite(exact), np.abs(exact), 0)
    if reference.mixing or dtype in ROUGH:
        near = gaps <= NEAR * sizes.max(initial=0)
    else:
        near = gaps <= NEAR * sizes
    gaps = np.where(near | bool(reference.shakes), gaps, 0)
    gaps = np.where(np.isfinite(gaps), gaps, 0)
    if reference.mixing or reference.shakes:
        return np.full(wrong.size, gaps.max(initial=0))
    if dtype not in ROUGH:
        return gaps[wrong]
    return np.array([gaps[sizes <= 2 * sizes[at]].max(initial=0) for at in wrong])


def moved_by_rounding(reference, exact, wrong, largest):
    """How far results move when the operands are rounded up or down, at random.

    What jumps is not moved by rounding, but wrong on one of the sides.
    """
    moved = np.zeros(wrong.size)
    for seed in SHAKES:
        other = reference(seed)
        if other is None or other.size != exact.size:
            continue
        step = np.abs(other[wrong] - exact[wrong])
        moved = np.fmax(moved, np.where(step <= STEADY * largest, step, 0))
    return moved


def judge_arguments(case, expected, found, wide):
    """Both sides leave their arguments in the same state."""
    if expected.drew or "empty" in case.path[1] or "resize" in case.path[1]:
        return None
    for key, (tensor, spec) in expected.side.tensors.items():
        a = expected.side.read(tensor)
        b = found.side.read(found.side.tensors[key][0])
        if a[0] != b[0] or a[1] != b[1]:
            return "argument", f"{b[0]}{b[1]}, not {a[0]}{a[1]}"

        def read(answer, key=key):
            if key not in answer.side.tensors:
                return None
            return answer.side.read(answer.side.tensors[key][0])[3]

        dtype = computed_in(case, a[0])
        trouble = differ(dtype, a[3], b[3], reference_of(wide, read))
        if trouble:
            return "argument", f"{spec!r} afterwards: {trouble}"
    return None


def judge_twice(case):
    """The gradients of gradients, of calls that are made anew: graphs are used up."""
    expected, found = call(torch, case), call(rushlight, case)
    wide = precise(case)
    return judge_gradients(case, expected, found, wide, gradients_of_gradients)


def gradients_of_gradients(answer, module):
    """Gradients of the first gradients, for other fixed cotangents; None without any."""
    inputs = inputs_of(answer)
    first = gradients(answer, module, create_graph=True)
    there = [g for g in first or () if g is not None]
    # numbers for all of them: which of them have a history is not the same on both sides
    given = zip(there, cotangents_of(there, module, 5), strict=True)
    picked = [(g, one) for g, one in given if g.requires_grad]
    if not picked:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return module.autograd.grad(
            [g for g, _ in picked],
            inputs,
            [one for _, one in picked],
            allow_unused=True,
        )


def inputs_of(answer):
    return [
        tensor
        for tensor, spec in answer.side.tensors.values()
        if spec.grad and tensor.is_leaf and tensor.requires_grad
    ]


def cotangents_of(results, module, seed):
    """Fixed random numbers like results."""
    draw = np.random.default_rng(seed)
    cotangents = []
    for result in results:
        dtype = str(result.dtype).rpartition(".")[2]
        values = draw.normal(size=result.numel())
        if dtype.startswith("complex"):
            values = values + 1j * draw.normal(size=result.numel())
        spec = TensorSpec.dense(values, dtype, tuple(result.shape))
        cotangents.append(Side(module).build(spec))
    return cotangents


def gradients(answer, module, create_graph=False):
    """Gradients of all results by all arguments, for fixed random cotangents."""
    results = [
        leaf
        for _, leaf in leaves(module, answer.result)
        if isinstance(leaf, module.Tensor) and leaf.requires_grad
    ]
    inputs = inputs_of(answer)
    if not results or not inputs:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return module.autograd.grad(
            results,
            inputs,
            cotangents_of(results, module, 3),
            allow_unused=True,
            create_graph=create_graph,
        )


def judge_gradients(case, expected, found, wide, gradients=gradients):
    if expected.drew:
        return None
    try:
        theirs = gradients(expected, torch)
    except Exception:  # PyTorch has no gradient here
        return None
    if theirs is None:
        return None
    try:
        ours = gradients(found, rushlight)
    except Exception as error:
        return "gradient", f"{type(error).__name__}: {error}"
    if ours is None and all(t is None or not (t != 0).any() for t in theirs):
        return None  # zeros that a graph leads to, or none that it does not
    if ours is None or len(ours) != len(theirs):
        return "gradient", "there is none"
    exact = functools.cache(lambda shaken: their_gradients(wide(shaken), gradients))
    exact.narrow = functools.cache(
        lambda shaken: their_gradients(wide.narrow(shaken), gradients)
    )
    exact.single = functools.cache(
        lambda doubles: their_gradients(wide.single(doubles), gradients)
    )
    for at, (a, b) in enumerate(zip(theirs, ours, strict=True)):
        if a is None or b is None:
            other = b if a is None else a
            if other is not None and bool((other != 0).any()):
                return "gradient", f"[{at}] is {b}, not {a}"
            continue
        trouble = judge_gradient(at, a, b, exact, wide, case)
        if trouble:
            return "gradient", f"[{at}]: {trouble}"
    return None


def their_gradients(answer, gradients=gradients):
    """PyTorch's gradients of an answer; None where it has none."""
    if answer.error is not None:
        return None
    try:
        return gradients(answer, torch)
    except Exception:  # no judge then
        return None


def judge_gradient(at, a, b, exact, wide, case):
    (name, sizes, _, x), (ours, our_sizes, _, y) = (
        Side(torch).read(a),
        Side(rushlight).read(b),
    )
    if (name, sizes) != (ours, our_sizes):
        return f"{ours}{our_sizes}, not {name}{sizes}"

    def picked(grads):
        if grads is None or at >= len(grads) or grads[at] is None:
            return None
        return Side(torch).read(grads[at])[3]

    def reference(shaken=None):
        return picked(exact(shaken))

    reference.shakes = wide.shakes
    reference.mixing = wide.mixing
    reference.scale, reference.doubles = wide.scale, wide.doubles
    reference.narrow = lambda shaken: picked(exact.narrow(shaken))
    reference.single = lambda doubles: picked(exact.single(doubles))
    return differ(computed_in(case, name), x, y, reference)
