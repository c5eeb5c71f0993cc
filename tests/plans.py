"""What follows a plan is what a function gives that has none, whatever else is changed.

python -m tests.plans                       # every planned operator
python -m tests.plans --only '^grid' -v

Calls of every planned operator are harvested from PyTorch's samples and from their
gradients. Each is made until it has plans; then with operands that lie elsewhere, hold
other elements, share memory or are of another kind, with other numbers, and in another
state of the process. Each answer is compared, bit for bit, with that of the same call
after all plans are forgotten.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import copy
import os
import re
import resource
import sys
import warnings

import numpy as np

import rushlight as rl
from rushlight.core import warning
from rushlight.dispatch.declared import TAGS
from rushlight.dispatch.dispatcher import packets
from rushlight.dispatch.launch_cache import forget, outcomes
from rushlight.utils._python_dispatch import TorchDispatchMode
from tests.fuzz import draw
from tests.fuzz.specs import BITS, INEXACT, Buffer, Named, Side, TensorSpec

WARM = 3  # calls, of which the last follows what the second wrote down
HARVESTED = ("float32", "float64", "int64", "complex64", "bool", "bfloat16")
OF_EACH = 3  # calls of an operator and dtype
MEMORY = 6 << 30  # what calls with other numbers ask for beyond is refused
MOST_BYTES = 1 << 16  # of an operand's storage
# Whose results hold what memory held.
UNWRITTEN = re.compile(r"(new_)?empty|resize|set_")


def planned():
    """The planned operators, by their full names."""
    return {
        f"{name}.{op._overloadname}": op
        for (namespace, name), packet in sorted(packets().items())
        for op in packet.overloads
        if namespace == "aten" and op.entry and "planned" in op.entry[TAGS]
    }


class Call:
    """A function with arguments that can be made again."""

    def __init__(self, name, function, args, kwargs):
        self.name, self.function, self.args, self.kwargs = name, function, args, kwargs

    def __repr__(self):
        shown = [*map(repr, self.args)]
        shown += [f"{key}={item!r}" for key, item in self.kwargs.items()]
        return f"{self.name}({', '.join(shown)})"


# Harvest ------------------------------------------------------------------------


class Untold(Exception):
    """An argument that cannot be made again."""


def spec_of(tensor, seen):
    """A tensor as a spec; tensors of one storage share a buffer."""
    dtype = str(tensor.dtype).rpartition(".")[2]
    plain = tensor.layout is rl.strided and tensor.device.type == "cpu"
    if dtype not in BITS or not plain or tensor.is_conj() or tensor.is_neg():
        raise Untold(dtype)
    storage = tensor.untyped_storage()
    key = storage.data_ptr() or id(tensor), dtype
    if storage.nbytes() > MOST_BYTES:
        raise Untold(dtype)
    if key not in seen:
        count = storage.nbytes() // tensor.element_size()
        flat = rl.as_strided(tensor.detach(), (count,), (1,), 0).clone()
        raw = flat.view(rl.uint8).numpy().copy().view(BITS[dtype])
        seen[key] = Buffer(raw), storage
    return TensorSpec(
        seen[key][0],
        dtype,
        tensor.shape,
        tensor.stride(),
        tensor.storage_offset(),
        tensor.requires_grad and tensor.is_leaf,
    )


def told(value, seen):
    """Arguments as specs."""
    if isinstance(value, rl.Tensor):
        return spec_of(value, seen)
    if isinstance(value, (rl.dtype, rl.memory_format, rl.layout)):
        return Named(str(value).rpartition(".")[2])
    if isinstance(value, (list, tuple)):
        return [told(item, seen) for item in value]
    if isinstance(value, dict):
        return {key: told(item, seen) for key, item in value.items()}
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        return value
    raise Untold(type(value).__name__)


class Harvest(TorchDispatchMode):
    """Keeps the calls of planned operators that are made in it."""

    def __init__(self, wanted):
        super().__init__()
        self.wanted, self.found = wanted, {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = f"{func._opname}.{func._overloadname}"
        if name in self.wanted:
            self.keep(name, func, args, kwargs or {})
        return func(*args, **(kwargs or {}))

    def keep(self, name, func, args, kwargs):
        seen = {}
        try:
            made = Call(name, func, told(list(args), seen), told(kwargs, seen))
        except Untold:
            return
        kinds = tuple(spec.dtype for spec in draw.tensors_in([made.args, made.kwargs]))
        rows = self.found.setdefault((name, kinds), [])
        if len(rows) < OF_EACH:
            rows.append(made)


def harvest(only=".*", dtypes=HARVESTED, each=OF_EACH):
    """Public calls of PyTorch's samples, and what planned operators these call."""
    inner = Harvest(planned())
    public = []
    for index, (info, has_function) in enumerate(draw.operators()):
        kind = "function" if has_function else "method"
        if not re.search(only, info.name) or UNWRITTEN.match(info.name):
            continue
        for dtype in dtypes:
            rows = draw.samples(index, dtype)
            for args, kwargs in rows[:: max(1, len(rows) // each)][:each]:
                case = draw.Case((kind, info.name), args, kwargs, [])
                function = lookup(case.path)
                if function is None:
                    continue
                made = Call(info.name, function, list(args), kwargs)
                public += [made, unrecorded(made)]
                with inner, contextlib.suppress(Exception):
                    run(made, Variant("as it is"))
    return public, [call for rows in inner.found.values() for call in rows]


def unrecorded(call):
    """The call of operands that want no gradients: compositions have plans for those."""
    args, kwargs = copy.deepcopy((call.args, call.kwargs))
    for spec in draw.tensors_in([args, kwargs]):
        spec.grad = False
    return Call(call.name, call.function, args, kwargs)


def lookup(path):
    from tests.fuzz.judge import lookup

    return lookup(rl, path)


# Variants -----------------------------------------------------------------------


class Variant:
    """A way in which a call is made.

    Attributes:
        front: elements of the storages before those of the call, and behind them.
        elements: of (elements, dtype), what they are instead.
        numbers: of a number, what it is instead.
        state: a context to call in.
        kind: of a tensor and its spec, what is handed over.
    """

    def __init__(
        self,
        name,
        front=0,
        back=0,
        elements=None,
        numbers=None,
        state=contextlib.nullcontext,
        kind=None,
        build=None,
    ):
        self.name, self.front, self.back, self.elements = name, front, back, elements
        self.numbers, self.state, self.kind = numbers, state, kind
        self.build = build or Build


class Build:
    """Arguments for one call."""

    def __init__(self, variant):
        self.variant, self.storages, self.tensors, self.kept = variant, {}, {}, []

    def __call__(self, value):
        if isinstance(value, TensorSpec):
            if id(value) not in self.tensors:
                self.tensors[id(value)] = self.tensor(value)
            return self.tensors[id(value)]
        if isinstance(value, Named):
            return Side(rl).build(value)
        if isinstance(value, (list, tuple)):
            return type(value)([self(item) for item in value])
        if isinstance(value, dict):
            return {key: self(item) for key, item in value.items()}
        if self.variant.numbers is not None and isinstance(value, (bool, int, float)):
            return self.variant.numbers(value)
        return value

    def bytes_of(self, spec):
        v, raw = self.variant, spec.buffer.raw
        if v.elements is not None:
            raw = np.ascontiguousarray(v.elements(raw, spec.dtype)).view(raw.dtype)
        pad = [np.full(n, 1, raw.dtype) for n in (v.front, v.back)]
        raw = np.concatenate([pad[0], raw, pad[1]])
        return raw if raw.size else np.zeros(1, raw.dtype)

    def storage(self, spec):
        key = id(spec.buffer), spec.dtype
        if key not in self.storages:
            flat = rl.from_numpy(self.bytes_of(spec).view(np.uint8).copy()).clone()
            self.storages[key] = flat.view(getattr(rl, spec.dtype))
        return self.storages[key]

    def tensor(self, spec):
        base = self.storage(spec)
        made = base.as_strided(
            spec.sizes, spec.strides, spec.offset + self.variant.front
        )
        made = made.detach()
        if spec.conjugate:
            made = made.conj().detach()
        if spec.grad:
            made.requires_grad_()
        return made if self.variant.kind is None else self.variant.kind(made)


class BuildOfOne(Build):
    """All operands of a type lie in one array, which each storage wraps anew."""

    arrays: dict

    def storage(self, spec):
        raw = self.bytes_of(spec)
        array = self.__dict__.setdefault("shared", {}).get(spec.dtype)
        if array is None or array.nbytes < raw.nbytes:
            array = self.shared[spec.dtype] = raw.view(np.uint8).copy()
        return rl.from_numpy(array).view(getattr(rl, spec.dtype))


class BuildTogether(Build):
    """All operands of a type lie in one storage, and begin at its start."""

    def storage(self, spec):
        raw = self.bytes_of(spec)
        flat = self.storages.get(spec.dtype)
        if flat is None or flat.numel() < raw.size:
            flat = rl.from_numpy(raw.view(np.uint8).copy()).clone()
            flat = self.storages[spec.dtype] = flat.view(getattr(rl, spec.dtype))
        return flat


def changed_number(value, step):
    if isinstance(value, bool):
        return not value if step == 0 else value
    if isinstance(value, int):
        return value + step
    return value * (1 + step) + (step == 2)


def inexact(raw, dtype, value):
    if dtype not in INEXACT:
        return raw
    wide = np.full(raw.size, value)
    return draw.from_values(wide, dtype)


@contextlib.contextmanager
def switched(read, write, value):
    before = read()
    write(value)
    try:
        yield
    finally:
        write(before)


class Plain(rl.Tensor):
    """A subclass that changes nothing."""


class Looked(rl.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class Watched(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def wanting(tensor):
    inexact = tensor.is_floating_point() or tensor.is_complex()
    return tensor.requires_grad_() if inexact else tensor


def negated(tensor):
    return rl._neg_view(tensor) if tensor.is_floating_point() else tensor


def conjugated(tensor):
    return tensor.conj() if tensor.is_complex() else tensor


def told_inference(tensor):
    with rl.inference_mode():
        return tensor.clone()


def of_a_leaf(tensor):
    """A window of a tensor with a history."""
    inexact = tensor.is_floating_point() or tensor.is_complex()
    return tensor.detach().requires_grad_().view_as(tensor) if inexact else tensor


STATES = {
    "default dtype": lambda: switched(
        rl.get_default_dtype, rl.set_default_dtype, rl.float64
    ),
    "deterministic": lambda: switched(
        rl.are_deterministic_algorithms_enabled,
        rl.use_deterministic_algorithms,
        True,
    ),
    "no_grad": rl.no_grad,
    "enable_grad": rl.enable_grad,
    "inference": rl.inference_mode,
    "autocast": lambda: rl.autocast("cpu", dtype=rl.bfloat16),
    "threads": lambda: switched(rl.get_num_threads, rl.set_num_threads, 2),
    "function mode": Looked,
    "dispatch mode": Watched,
    "meta by default": lambda: rl.device("meta"),
    "anomaly": lambda: rl.autograd.set_detect_anomaly(True),
    "vectors flush": lambda: switched(
        lambda: False, lambda on: rl.set_flush_denormal(on), True
    ),
    "precision": lambda: switched(
        rl.get_float32_matmul_precision, rl.set_float32_matmul_precision, "medium"
    ),
}
OTHERS = {
    "aliases": {"build": BuildOfOne},
    "one storage": {"build": BuildTogether},
    "wants grad": {"kind": wanting},
    "wants grad, unrecorded": {"kind": wanting, "state": rl.no_grad},
    "history": {"kind": of_a_leaf},
    "detached": {"kind": lambda t: t.detach()},
    "subclass": {"kind": lambda t: t.as_subclass(Plain)},
    "parameter": {"kind": lambda t: rl.nn.Parameter(t, requires_grad=False)},
    "negated": {"kind": negated},
    "conjugated": {"kind": conjugated},
    "inference operands": {"kind": told_inference},
}


def variants():
    """What a call is followed by."""
    found = [
        Variant("as it is"),
        Variant("front 1", front=1),
        Variant("front 3, back 2", front=3, back=2),
        Variant("back 7", back=7),
        Variant("rolled", elements=lambda raw, dtype: np.roll(raw, 1)),
        Variant("zeros", elements=lambda raw, dtype: np.zeros_like(raw)),
        Variant("not", elements=lambda raw, dtype: 1 - raw if dtype == "bool" else raw),
        Variant("NaN", elements=lambda raw, dtype: inexact(raw, dtype, np.nan)),
        Variant("huge", elements=lambda raw, dtype: inexact(raw, dtype, 1e38)),
        Variant(
            "beyond",
            elements=lambda raw, dtype: (
                np.full_like(raw, 10**9) if dtype == "int64" else raw
            ),
        ),
        Variant("backwards", elements=lambda raw, dtype: raw[::-1]),
        *(
            Variant(f"numbers {step}", numbers=lambda n, s=step: changed_number(n, s))
            for step in (0, 1, -1, 2)
        ),
    ]
    found += [Variant(name, state=state) for name, state in STATES.items()]
    return found + [Variant(name, **how) for name, how in OTHERS.items()]


def beginnings():
    """What calls may be made as until they have plans."""
    found = [Variant("as it is"), Variant("front 1", front=1)]
    found += [Variant("NaN", elements=lambda raw, dtype: inexact(raw, dtype, np.nan))]
    found += [Variant(name, state=state) for name, state in STATES.items()]
    return found + [Variant(name, **how) for name, how in OTHERS.items()]


# Comparison ---------------------------------------------------------------------


def run(call, variant):
    """All that is seen of a call."""
    build = variant.build(variant)
    rl.manual_seed(3)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        args, kwargs = build(call.args), build(call.kwargs)
        told.clear()
        try:
            with variant.state():
                result = call.function(*args, **kwargs)
            found = [seen(leaf, build) for leaf in leaves(result)]
            found += slopes(result, build)
        except Exception as error:
            found = [type(error).__name__, str(error)]
        # What is said once depends on the calls before.
        words = [str(w.message) for w in told]
        found.append([word for word in words if word not in warning._given])
    found += [seen(t, build, whole=True) for t in build.tensors.values()]
    return found


def leaves(result):
    if isinstance(result, (list, tuple)):
        return [leaf for item in result for leaf in leaves(item)]
    return [result]


def seen(leaf, build, whole=False):
    """A tensor's place, kind and bytes; of an operand those of its storage."""
    if not isinstance(leaf, rl.Tensor):
        return repr(leaf)
    looks = [type(leaf).__name__, str(leaf.dtype), tuple(leaf.shape), str(leaf.device)]
    looks += [leaf.requires_grad, leaf.is_leaf, leaf.is_inference()]
    looks += [
        type(leaf.grad_fn).__name__,
        leaf._is_view(),
        leaf.is_conj(),
        leaf.is_neg(),
    ]
    if leaf.layout is not rl.strided or leaf.device.type != "cpu":
        return looks
    storage = leaf.untyped_storage()
    address = storage.data_ptr()
    shared = [
        i
        for i, t in enumerate(build.tensors.values())
        if t.layout is rl.strided and t.untyped_storage().data_ptr() == address
    ]
    looks += [leaf.stride(), leaf.storage_offset(), storage.nbytes(), shared]
    if not leaf.is_inference():
        looks.append(leaf._version)
    with rl.no_grad():
        bare = leaf.detach().as_subclass(rl.Tensor)
        if whole and address:
            count = storage.nbytes() // leaf.element_size()
            bare = bare.as_strided((count,), (1,), 0)
        looks.append(bits(bare))
    return looks


def bits(tensor):
    """A tensor's bytes, one NaN being as good as another."""
    flat = rl.empty(tensor.numel(), dtype=tensor.dtype).copy_(tensor.reshape(-1))
    if flat.is_complex():
        flat = rl.view_as_real(flat)
    if flat.is_floating_point() and flat.element_size() > 1:
        flat = flat.masked_fill(flat != flat, float("nan"))
    return flat.reshape(-1).view(rl.uint8).numpy().tobytes()


def slopes(result, build):
    """What the gradients of a result look like."""
    inputs = [t for t in build.tensors.values() if t.requires_grad and t.is_leaf]
    picked = [
        leaf
        for leaf in leaves(result)
        if isinstance(leaf, rl.Tensor)
        and leaf.requires_grad
        and leaf.grad_fn is not None
    ]
    if not inputs or not picked or any(t.is_inference() for t in inputs):
        return []
    given = [rl.ones_like(leaf).detach() * 0.5 for leaf in picked]
    found = rl.autograd.grad(picked, inputs, given, allow_unused=True)
    return [seen(leaf, build) for leaf in found]


def warmed(call, variant):
    forget()
    before = sum(map(sum, outcomes().values()))
    for _ in range(WARM):
        run(call, variant)
    return sum(map(sum, outcomes().values())) > before


def fresh(call, variant):
    forget()
    return run(call, variant)


def difference(ours, theirs):
    """The first place in which two answers differ."""
    if len(ours) != len(theirs):
        return f"{short(ours)}, not {short(theirs)}"
    for a, b in zip(ours, theirs, strict=True):
        if a != b:
            if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
                return "; ".join(
                    f"{short(x)}, not {short(y)}"
                    for x, y in zip(a, b, strict=True)
                    if x != y
                )
            return f"{short(a)}, not {short(b)}"
    return None


def short(value):
    return value[:12].hex() if isinstance(value, bytes) else repr(value)[:160]


def of_pytorch(call):
    """Whether PyTorch has such an operator: what only ours has trusts its callers."""
    name = getattr(call.function, "_opname", None)
    return name is None or hasattr(draw.torch.ops.aten, name)


def sweep(call, first=None, later=None):
    """(first, later, text) of each answer that a plan changes."""
    first = beginnings() if first is None else first
    later = variants() if later is None else later
    if not of_pytorch(call):
        later = [variant for variant in later if variant.numbers is None]
    expected, wrong = {}, []
    for begun in first:
        if not warmed(call, begun):
            continue
        checked = later if begun.name == "as it is" else later[:1]
        # the first follows the plans of what was before, the last its own
        answers = [[run(call, v) for _ in range(WARM + 1)] for v in checked]
        for variant, found in zip(checked, answers, strict=True):
            if variant.name not in expected:
                expected[variant.name] = fresh(call, variant)
            for ours in (found[0], found[-1]):
                text = difference(ours, expected[variant.name])
                if text:
                    wrong.append((begun.name, variant.name, text))
                    break
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default=".*", help="operators whose name matches")
    parser.add_argument("--each", type=int, default=OF_EACH, help="calls of a dtype")
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args()
    if "asan" not in os.environ.get("LD_PRELOAD", ""):  # its map of memory is larger
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    public, inner = harvest(options.only, each=options.each)
    print(f"{len(public)} calls, {len(inner)} of planned operators", flush=True)
    count, bad = 0, collections.Counter()
    for call in [*inner, *public]:
        if not warmed(call, Variant("as it is")):
            continue
        count += 1
        found = sweep(call)
        bad[call.name] += bool(found)
        if bad[call.name] > 2 and not options.verbose:
            continue
        for begun, later, text in found[: None if options.verbose else 1]:
            print(f"{repr(call)[:300]}\n    {begun} -> {later}: {text}", flush=True)
    reached = outcomes()
    missed = [n for n, op in planned().items() if op.name not in reached]
    print(f"never planned: {', '.join(missed)}")
    print(f"plans: {count} calls swept, {bad.total()} differ")
    return int(bad.total() > 0)


if __name__ == "__main__":
    sys.exit(main())
