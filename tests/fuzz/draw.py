"""Turns a number into a call: a sample of PyTorch's database, changed at random."""

from __future__ import annotations

import functools
import itertools
import random

import numpy as np
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import (
    BinaryUfuncInfo,
    ReductionOpInfo,
    UnaryUfuncInfo,
)

from tests.fuzz import wider
from tests.fuzz.specs import (
    BITS,
    INEXACT,
    REAL,
    Buffer,
    Named,
    TensorSpec,
    from_values,
)

SAMPLES = 12  # of an operator and dtype, spread over the first few
LOOKED_AT = 48
WIDER = 0.3  # of the cases are changed in a further way
TWICE = 0.2  # of them have their gradients differentiated again
RUN = 40  # cases in a row of one operator, whose samples are made once
LARGEST = 20_000  # elements of an argument: cases are many, and small
DTYPES = (
    ("float32",) * 6
    + ("float64",) * 2
    + ("int64", "int32", "bool", "uint8", "int16", "int8")
    + ("bfloat16", "float16", "complex64", "complex128")
)
RARE_DTYPES = ("uint16", "uint32", "uint64")
SPECIAL = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e30, -1e-30, 0.5, 2.0, 65504)
INTEGERS = (0, 1, -1, 2, 7, 127, 128, 255, 2**31 - 1, -(2**31), 2**62, -(2**63))
ODD_NUMBERS = (
    *(0, 1, -1, 2, 3, 64, 2**31, 2**63 - 1, -(2**63), 2**64, 10**30, 1e40, -1e-40),
    *(0.5, float("nan"), float("inf"), -float("inf"), True, False, None, "x", 1j),
    *((), (1,), [2, 2], (-1,), (0, 0), "sum", "mean", b"", np.float32(2), np.int64(1)),
)


class Case:
    """One call: a function by its path or a method by its name, and its arguments.

    Attributes:
        path: ``("function", "nn.functional.relu")`` or ``("method", "relu_")``.
        notes: what was changed about PyTorch's sample.
        history: the arguments before the changes, and each change with the state of
            the random numbers that it began with.
        twice: whether the gradients are differentiated again.
    """

    def __init__(self, path, args, kwargs, notes, history=None):
        self.path, self.args, self.kwargs, self.notes = path, args, kwargs, notes
        self.history = history
        self.twice = False

    def __repr__(self):
        kind, name = self.path
        shown = [repr(item) for item in self.args]
        shown += [f"{key}={item!r}" for key, item in self.kwargs.items()]
        start = "" if kind == "function" else "Tensor."
        return f"{start}{name}({', '.join(shown)})  # {', '.join(self.notes)}"


@functools.cache
def operators():
    """The database's operators that have a public name, by that name."""
    found = {}
    for info in op_db:
        target = torch
        for part in info.name.split("."):
            target = getattr(target, part, None)
        if not callable(target):
            target = None
        if target is not None or callable(info.method_variant):
            found.setdefault(info.name, []).append((info, target is not None))
    return [(info, public) for name in sorted(found) for info, public in found[name]]


@functools.lru_cache(maxsize=256)
def samples(index, dtype):
    """A few of the database's samples of an operator, as specs."""
    info, _ = operators()[index]
    kind = getattr(torch, dtype)
    if kind not in info.supported_dtypes("cpu"):
        return ()
    torch.manual_seed(index)
    random.seed(index)
    np.random.seed(index)
    try:
        drawn = info.sample_inputs(
            "cpu", kind, requires_grad=dtype in INEXACT, set_seed=False
        )
        made = list(itertools.islice(drawn, LOOKED_AT))
    except Exception:  # a sampler's own failure says nothing about operators
        return ()
    if len(made) > SAMPLES:
        made = [made[int(i * len(made) / SAMPLES)] for i in range(SAMPLES)]
    carried = {}
    result = []
    for sample in made:
        args = carry((sample.input, *sample.args), carried)
        kwargs = carry(sample.kwargs, carried)
        if args is not None and kwargs is not None:
            result.append((args, kwargs))
    return tuple(result)


class Untold(Exception):
    """A value that specs cannot say."""


def carry(value, carried):
    """PyTorch's arguments as specs; None where one cannot be carried."""
    try:
        return _carry(value, carried)
    except Untold:
        return None


def _carry(value, carried):
    if isinstance(value, torch.Tensor):
        if id(value) not in carried:
            carried[id(value)] = (carry_tensor(value), value)
        return carried[id(value)][0]
    if isinstance(value, (torch.dtype, torch.memory_format, torch.layout)):
        return Named(str(value).rpartition(".")[2])
    if isinstance(value, torch.device):
        return Named(f"device:{value}")
    if isinstance(value, torch.Size):
        return tuple(value)
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return type(value)([_carry(item, carried) for item in value])
    if isinstance(value, dict):
        return {key: _carry(item, carried) for key, item in value.items()}
    if value is None or isinstance(value, (bool, int, float, complex, str, slice)):
        return value
    if value is Ellipsis:
        return value
    raise Untold(type(value).__name__)


def carry_tensor(tensor):
    dtype = str(tensor.dtype).rpartition(".")[2]
    strided = tensor.layout is torch.strided and tensor.device.type == "cpu"
    if dtype not in BITS or not strided or tensor.numel() > LARGEST:
        raise Untold(dtype)
    t = tensor.detach().resolve_conj().resolve_neg()
    span = 1 + sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True))
    if t.numel() == 0 or span > 4 * LARGEST:
        t = t.contiguous()
        span = t.numel()
    flat = t.as_strided((span,), (1,), t.storage_offset()).clone()
    raw = flat.view(torch.uint8).numpy().view(BITS[dtype])
    return TensorSpec(
        Buffer(raw),
        dtype,
        t.shape,
        t.stride(),
        0,
        tensor.requires_grad and t.numel() > 0,
    )


# PyTorch trusts the sizes of these functions' arguments: it writes outside of statistics
# that are too short, and dies of that later.
UNSAFE = ("_native_batch_norm_legit",)


# Random tensors -----------------------------------------------------------------


def random_sizes(rng, rank=None):
    rank = rng.choice((0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8)) if rank is None else rank
    limit = 5 if rank < 5 else 3
    return [
        rng.choice((0, 1, 1, 2, 3, limit, limit))
        if rng.random() < 0.5
        else rng.randint(1, limit)
        for _ in range(rank)
    ]


def random_values(rng, dtype, count):
    draw = np.random.default_rng(rng.getrandbits(32))
    if dtype in INEXACT:
        values = draw.normal(size=count) * rng.choice((1, 1, 1, 5, 100))
        if dtype not in REAL:
            values = values + 1j * draw.normal(size=count)
        if rng.random() < 0.15 and count:
            at = draw.integers(0, count, size=max(1, count // 4))
            values[at] = draw.choice(SPECIAL, size=at.size)
    elif dtype == "bool":
        values = draw.integers(0, 2, size=count)
    else:
        low, high = (0, 5) if dtype.startswith("u") else (-4, 5)
        values = draw.integers(low, high, size=count)
        if rng.random() < 0.15 and count:
            at = draw.integers(0, count, size=max(1, count // 4))
            values[at] = draw.choice(INTEGERS, size=at.size)
    return values


def random_tensor(rng, dtype, sizes, grad=False):
    count = int(np.prod(sizes, dtype=np.int64))
    values = random_values(rng, dtype, count)
    return TensorSpec.dense(values, dtype, sizes, grad and dtype in INEXACT)


def random_dtype(rng):
    return rng.choice(RARE_DTYPES) if rng.random() < 0.04 else rng.choice(DTYPES)


# Changes ------------------------------------------------------------------------


def tensors_in(value):
    if isinstance(value, TensorSpec):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [t for item in value for t in tensors_in(item)]
    return []


def swap(value, old, new):
    """The tree with one object in the place of another."""
    if value is old:
        return new
    if isinstance(value, dict):
        return {key: swap(item, old, new) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([swap(item, old, new) for item in value])
    return value


def relaid(rng, spec):
    """The same values in another order of strides, with gaps and an offset."""
    order = list(range(len(spec.sizes)))
    rng.shuffle(order)
    strides, step = [0] * len(order), rng.choice((1, 1, 2))
    for d in order:
        strides[d] = step
        step *= max(1, spec.sizes[d]) + rng.choice((0, 0, 0, 1))
    offset = rng.choice((0, 0, 1, 3))
    raw = np.zeros(offset + step + 1, spec.buffer.raw.dtype)
    if spec.numel:
        item = raw.itemsize
        window = np.lib.stride_tricks.as_strided(
            raw[offset:], spec.sizes, [s * item for s in strides]
        )
        window[...] = from_values(spec.values(), spec.dtype).reshape(spec.sizes)
    return TensorSpec(
        Buffer(raw), spec.dtype, spec.sizes, strides, offset, spec.grad
    ), "relaid"


def expanded(rng, spec):
    """One dimension repeats its first element: a stride of zero."""
    if not spec.sizes:
        return spec, "kept"
    d = rng.randrange(len(spec.sizes))
    strides = list(spec.strides)
    strides[d] = 0
    return TensorSpec(
        spec.buffer, spec.dtype, spec.sizes, strides, spec.offset, spec.grad
    ), "expanded"


def recast(rng, spec):
    dtype = random_dtype(rng)
    grad = spec.grad and dtype in INEXACT
    return TensorSpec.dense(spec.values(), dtype, spec.sizes, grad), f"as {dtype}"


def refilled(rng, spec):
    return random_tensor(rng, spec.dtype, spec.sizes, spec.grad), "other values"


def resized(rng, spec):
    sizes = list(spec.sizes)
    choice = rng.random()
    if sizes and choice < 0.6:
        sizes[rng.randrange(len(sizes))] = rng.choice((0, 1, 1, 2, 5))
    elif sizes and choice < 0.75:
        sizes.pop(rng.randrange(len(sizes)))
    elif choice < 0.9:
        sizes.insert(rng.randrange(len(sizes) + 1), rng.choice((1, 1, 2, 0)))
    else:
        sizes = random_sizes(rng)
    if np.prod(sizes, dtype=np.int64) > LARGEST:
        return spec, "kept"
    return random_tensor(rng, spec.dtype, sizes, spec.grad), f"sized {sizes}"


def wild(rng, spec):
    """Integers far out of any range."""
    if spec.dtype in INEXACT or spec.dtype == "bool" or not spec.numel:
        return spec, "kept"
    values = spec.values().astype(np.int64).copy()
    values[rng.randrange(values.size)] = rng.choice(INTEGERS)
    return TensorSpec.dense(values, spec.dtype, spec.sizes), "wild values"


def misplaced(rng, spec):
    """Something that is no tensor."""
    return rng.choice(ODD_NUMBERS), "no tensor"


TENSOR_CHANGES = (
    (relaid, 6),
    (expanded, 3),
    (recast, 5),
    (refilled, 4),
    (resized, 5),
    (wild, 1),
    (misplaced, 1),
)


def change_tensor(rng, args, kwargs, notes):
    found = tensors_in([args, kwargs])
    if not found:
        return args, kwargs
    spec = rng.choice(found)
    change = rng.choices(*zip(*TENSOR_CHANGES))[0]
    new, note = change(rng, spec)
    notes.append(note)
    return swap(args, spec, new), swap(kwargs, spec, new)


def change_all(rng, args, kwargs, notes):
    """Every tensor in another dtype, or every one in another layout."""
    change = rng.choice((relaid, recast, refilled))
    dtype = random_dtype(rng)
    for spec in dict.fromkeys(tensors_in([args, kwargs])):
        if change is recast:
            grad = spec.grad and dtype in INEXACT
            new = TensorSpec.dense(spec.values(), dtype, spec.sizes, grad)
        else:
            new, _ = change(rng, spec)
        args, kwargs = swap(args, spec, new), swap(kwargs, spec, new)
    notes.append(f"all {dtype if change is recast else change.__name__}")
    return args, kwargs


def change_number(rng, args, kwargs, notes):
    """One argument that is no tensor becomes another value."""
    places = [i for i, item in enumerate(args) if not isinstance(item, TensorSpec)]
    keys = [key for key, item in kwargs.items() if not isinstance(item, TensorSpec)]
    if not places and not keys:
        return args, kwargs
    at = rng.choice(places + keys)
    value = rng.choice(ODD_NUMBERS)
    old = args[at] if at in places else kwargs[at]
    if isinstance(old, (list, tuple)) and old and rng.random() < 0.7:
        value = list(old)
        value[rng.randrange(len(value))] = rng.choice(ODD_NUMBERS[:12])
        value = type(old)(value)
    notes.append(f"{at}: {old!r} -> {value!r}"[:80])
    if at in places:
        return (*args[:at], value, *args[at + 1 :]), kwargs
    return args, {**kwargs, at: value}


def change_count(rng, args, kwargs, notes):
    """One argument fewer, or one more."""
    if rng.random() < 0.5 and len(args) > 1:
        notes.append("one argument fewer")
        return args[:-1], kwargs
    if kwargs and rng.random() < 0.5:
        gone = rng.choice(list(kwargs))
        notes.append(f"no {gone}")
        return args, {key: item for key, item in kwargs.items() if key != gone}
    notes.append("one argument more")
    return (*args, rng.choice(ODD_NUMBERS)), kwargs


def share(rng, args, kwargs, notes):
    """Two arguments become one tensor, or windows on one memory."""
    found = tensors_in([args, kwargs])
    if len(found) < 2:
        return args, kwargs
    one, other = rng.sample(found, 2)
    if one is other:
        return args, kwargs
    if rng.random() < 0.5 or len(one.sizes) == 0 or one.dtype != other.dtype:
        notes.append("one tensor twice")
        return swap(args, other, one), swap(kwargs, other, one)
    span = 1 + sum((n - 1) * s for n, s in zip(other.sizes, other.strides, strict=True))
    shift = rng.choice((0, 0, 1))
    if not other.numel or shift + span > one.buffer.raw.size:
        return args, kwargs
    new = TensorSpec(one.buffer, one.dtype, other.sizes, other.strides, shift, False)
    notes.append("shared memory")
    return swap(args, other, new), swap(kwargs, other, new)


def give_out(rng, args, kwargs, notes):
    """An ``out`` of some dtype, shape and layout, or one of the inputs itself."""
    found = tensors_in([args])
    if not found:
        return args, kwargs
    like = rng.choice(found)
    out = random_tensor(rng, like.dtype, like.sizes)
    choice = rng.random()
    if choice < 0.2:
        out = like
    elif choice < 0.35:
        out, _ = relaid(rng, out)
    elif choice < 0.5:
        out, _ = recast(rng, out)
    elif choice < 0.65:
        out, _ = resized(rng, out)
    elif choice < 0.7:
        out, _ = expanded(rng, out)
    notes.append("out")
    return args, {**kwargs, "out": out}


CHANGES = (
    (change_tensor, 10),
    (change_all, 5),
    (change_number, 4),
    (change_count, 1),
    (share, 2),
    (give_out, 2),
)


# Cases --------------------------------------------------------------------------


def fresh_arguments(rng, info):
    """Arguments made anew for operators of a regular kind; None for others."""
    dtype = random_dtype(rng)
    if isinstance(info, UnaryUfuncInfo):
        return (random_tensor(rng, dtype, random_sizes(rng), True),), {}
    if isinstance(info, BinaryUfuncInfo):
        sizes = random_sizes(rng)
        other = [1 if rng.random() < 0.2 else n for n in sizes]
        other = other[rng.randrange(len(other) + 1) :] if rng.random() < 0.3 else other
        second = random_tensor(
            rng, dtype if rng.random() < 0.6 else random_dtype(rng), other, True
        )
        if rng.random() < 0.2:
            second = rng.choice((2, 0, -1, 0.5, 1.5, True, 2**40, -0.0, 1j, 1e40))
        args = (random_tensor(rng, dtype, sizes, True), second)
        return args[:: rng.choice((1, 1, 1, -1))], {}
    if isinstance(info, ReductionOpInfo):
        sizes = random_sizes(rng)
        kwargs = {}
        if sizes and rng.random() < 0.8:
            dims = rng.sample(range(len(sizes)), rng.randint(1, len(sizes)))
            dims = [d - len(sizes) if rng.random() < 0.3 else d for d in dims]
            kwargs["dim"] = dims[0] if rng.random() < 0.5 else tuple(dims)
            if rng.random() < 0.5:
                kwargs["keepdim"] = True
        return (random_tensor(rng, dtype, sizes, True),), kwargs
    return None


def chosen(seed, index):
    """Which of the operators a case is about."""
    return random.Random(f"{seed}:{index // RUN}").randrange(len(operators()))


def draw(seed, index):
    """The case of a number, or None where it names no possible call."""
    rng = random.Random(f"{seed}:{index}")
    at = chosen(seed, index)
    info, public = operators()[at]
    if info.name in UNSAFE:
        return None
    notes = []
    made = fresh_arguments(rng, info) if rng.random() < 0.4 else None
    if made is None:
        found = samples(at, rng.choice(DTYPES)) or samples(at, "float32")
        if not found:
            return None
        made = rng.choice(found)
    else:
        notes.append("made anew")
    args, kwargs = start = made
    steps = []

    def take(change, rng=rng):
        steps.append((change, rng.getstate()))
        return change(rng, args, kwargs, notes)

    if notes and rng.random() < 0.5:
        args, kwargs = take(change_all)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 3))):
        args, kwargs = take(rng.choices(*zip(*CHANGES))[0])
    more = random.Random(f"{seed}:{index}:more")
    if more.random() < WIDER:
        args, kwargs = take(more.choices(*zip(*wider.changes(info.name)))[0], more)
    path = choose_path(rng, info, public)
    if path[0] == "method":
        kwargs = {key: item for key, item in kwargs.items() if key != "out"}
        if not args or not isinstance(args[0], TensorSpec):
            return None
    # leaves that need gradients are refused in place: rarely of interest
    free = in_place(path) and rng.random() < 0.9
    case = finish(path, args, kwargs, notes, (start, steps, free))
    case.twice = more.random() < TWICE
    if case.twice:
        notes.append("twice")
    return case


def in_place(path):
    kind, name = path
    return kind == "method" and name.endswith("_") and not name.startswith("__")


def finish(path, args, kwargs, notes, history):
    """The case of changed arguments, the first free of gradients if it is to be."""
    if history[-1]:
        first = args[0]
        free = TensorSpec(
            first.buffer, first.dtype, first.sizes, first.strides, first.offset
        )
        args, kwargs = swap(args, first, free), swap(kwargs, first, free)
    return Case(path, args, kwargs, notes, history)


def without_one_change(case):
    """The cases that leave out one change each, the last of them first."""
    (start, steps, free) = case.history or (None, (), False)
    for gone in reversed(range(len(steps))):
        args, kwargs, notes = *start, []
        for change, state in [*steps[:gone], *steps[gone + 1 :]]:
            rng = random.Random()
            rng.setstate(state)
            args, kwargs = change(rng, args, kwargs, notes)
        if case.path[0] == "method":
            kwargs = {key: item for key, item in kwargs.items() if key != "out"}
            if not args or not isinstance(args[0], TensorSpec):
                continue
        yield finish(case.path, args, kwargs, notes, (start, [], free))


def choose_path(rng, info, public):
    """The function, a method or the in-place method."""
    name = info.name.rpartition(".")[2]
    choices = [("function", info.name)] * (3 if public else 0)
    if callable(info.method_variant) and hasattr(torch.Tensor, name):
        choices.append(("method", name))
    if callable(info.inplace_variant) and hasattr(torch.Tensor, f"{name}_"):
        choices.append(("method", f"{name}_"))
    return rng.choice(choices or [("function", info.name)])
