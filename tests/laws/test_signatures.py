"""Whatever can be handed to a function of PyTorch can be handed to ours in the same way.

Names, their order and their defaults are asked of PyTorch itself: of the functions that
are Python by `inspect`, of the compiled ones by the stubs that lie beside them.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import pickle
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import rushlight as rl
from rushlight.dispatch.deprecated_signatures import forms
from rushlight.dispatch.packet import OperatorPacket

torch = pytest.importorskip("torch", reason="the oracle is not installed")

MODULES = """
    . Tensor accelerator amp autograd autograd.forward_ad autograd.function
    autograd.functional autograd.grad_mode autograd.graph autograd.profiler compiler cpu
    distributed distributions distributions.constraints distributions.kl
    distributions.transforms fft func fx fx.experimental.proxy_tensor futures hub jit
    library linalg masked monitor multiprocessing nested nn nn.attention
    nn.attention.bias nn.attention.flex_attention nn.functional nn.init nn.parallel
    nn.utils nn.utils.parametrizations nn.utils.parametrize nn.utils.prune nn.utils.rnn
    nn.utils.stateless optim optim.lr_scheduler optim.swa_utils overrides package
    profiler quasirandom random return_types serialization signal.windows sparse special
    storage testing utils utils.benchmark utils.checkpoint utils.data utils.dlpack
    utils.hooks
""".split()

# What differs on purpose, or where nothing can be asked.
MEANT = {
    "distributed.DeviceMesh": "its layouts and roots are handed in there, privately",
    "hub.load_state_dict_from_url": "files are read as if a stranger had written them",
    "utils.model_zoo.load_url": "likewise",
    "autograd.profiler.FunctionEvent": "made by the profiler alone",
    "layout": "made by nobody but the library",
    "memory_format": "likewise",
    "qscheme": "likewise",
    "SymInt": "likewise",
    "SymBool": "likewise",
    "SymFloat": "likewise",
    "div": "one overload with the mode, and one without",
    "linspace": "the stub has a default that the parser refuses",
    "logspace": "likewise",
    "div_": "likewise",
    "to": "the stub joins what the parser tells apart",
    "contiguous": "the stub has a place for a keyword",
    "new_ones": "likewise",
    "gelu": "likewise",
    "one_hot": "the stub has another name",
    "scaled_dot_product_attention": "the stub tells no keywords",
    "_sparse_sum": "private",
    "_softmax_backward_data": "private",
}
# Removed functions refuse every call, in the words of functions.
REMOVED = ("eig", "lstsq", "solve", "symeig")
# PyTorch has these forms for other processors only.
OTHER_THREAD = {"names", "out_dtype"}
FACTORY = {"out", "dtype", "layout", "device", "pin_memory", "requires_grad"}
FACTORY |= {"memory_format", "generator"}


def find(root, path):
    """A module or class by its dotted path; None where it is not there."""
    if path == ".":
        return root
    try:
        return importlib.import_module(f"{root.__name__}.{path}")
    except ImportError:
        return getattr(root, path, None)


def plain(value):
    """A default as both libraries write it."""
    text = re.sub(r"\b(torch|rushlight)\.", "", repr(value))
    text = re.sub(r" object at 0x[0-9a-f]+| at 0x[0-9a-f]+", "", text)
    text = re.sub(r"<(?:\w+\.)*(\w+)\b.*", r"<\1>", text)
    return re.sub(r"Size\(\[\]\)", "()", text)


def callables(path):
    """Pairs of functions, and of classes' methods, that both libraries have."""
    theirs, ours = find(torch, path), find(rl, path)
    if theirs is None or ours is None:
        return
    names = getattr(theirs, "__all__", None) or dir(theirs)
    seen = set()  # what classes inherit is compared once
    for name in names:
        if name.startswith("_") or name not in dir(ours):
            continue
        pair = getattr(theirs, name), getattr(ours, name)
        if not callable(pair[0]) or inspect.ismodule(pair[0]):
            continue
        home = getattr(pair[0], "__module__", None) or ""
        if not home.startswith("torch"):
            continue
        label = name if path == "." else f"{path}.{name}"
        yield label, path == "Tensor", *pair
        if inspect.isclass(pair[0]) and name not in ("Tensor", "Parameter", "Buffer"):
            for method in dir(pair[0]):
                there = getattr(pair[0], method, None)
                if method.startswith("_") or method not in dir(pair[1]):
                    continue
                here = getattr(pair[1], method, None)
                if callable(there) and (id(there), id(here)) not in seen:
                    seen.add((id(there), id(here)))
                    yield f"{label}.{method}", True, there, here


def signature(function):
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None


def of_operator(packet):
    """The signatures of an operator's overloads."""
    kind = inspect.Parameter
    for op in packet.overloads:
        parameters = []
        for name, _, default, keyword, *_ in op.signature.rows:
            default = kind.empty if default is ... else default
            place = kind.KEYWORD_ONLY if keyword else kind.POSITIONAL_OR_KEYWORD
            name = "from_" if name == "from" else name
            parameters.append(kind(name, place, default=default))
        yield parameters


def fault(theirs, ours, method):
    """What can be handed to the one and not to the other; None if there is nothing."""
    kinds = {p.kind for p in ours}
    everything = inspect.Parameter.VAR_POSITIONAL in kinds
    rest = inspect.Parameter.VAR_KEYWORD in kinds
    if everything and rest and len(ours) <= 4:
        return None
    by_name = {p.name: p for p in ours if p.kind != p.VAR_KEYWORD}
    at = [p for p in ours if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    for i, wanted in enumerate(theirs):
        if wanted.kind in (wanted.VAR_POSITIONAL, wanted.VAR_KEYWORD):
            return None
        if wanted.kind is wanted.KEYWORD_ONLY:
            mine = by_name.get(wanted.name)
            if mine is None and rest:
                continue
            if mine is None:
                return f"no keyword {wanted.name}"
        elif i >= len(at):
            return f"no place for {wanted.name}"
        else:
            mine = at[i]
            free = wanted.kind is wanted.POSITIONAL_ONLY or (method and i == 0)
            if {mine.name, wanted.name} <= {"self", "input"}:
                free = True  # an operator takes both names
            if mine.name != wanted.name and not free:
                return f"{mine.name} in the place of {wanted.name}"
        if wanted.default is wanted.empty:
            continue
        if mine.default is mine.empty and mine.kind is not mine.VAR_POSITIONAL:
            return f"{wanted.name} must be given"
        if plain(mine.default) != plain(wanted.default) and not same(wanted, mine):
            shown = plain(mine.default), plain(wanted.default)
            return f"{wanted.name} is {shown[0]}, not {shown[1]}"
    known = {p.name for p in theirs}
    for i, mine in enumerate(at):
        needed = mine.default is mine.empty
        if needed and i >= len(theirs) and mine.name not in known:
            return f"{mine.name} is needed"
    return None


def same(wanted, mine):
    """Numbers given once and once for each dimension, and names of objects."""

    def numbers(value):
        return set(value) if isinstance(value, (tuple, list)) else {value}

    try:
        return numbers(wanted.default) == numbers(mine.default)
    except TypeError:
        return plain(wanted.default).strip("'") == plain(mine.default).strip("'")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", MODULES)
def test_functions_in_python_take_what_pytorchs_take(path):
    faults = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for label, method, theirs, ours in callables(path):
            wanted = signature(theirs)
            if wanted is None or label in MEANT or label.split(".")[-1] in REMOVED:
                continue
            if isinstance(ours, OperatorPacket):
                found = [fault(wanted, s, method) for s in of_operator(ours)]
                why = None if None in found else found[0]
            elif (given := signature(ours)) is None:
                continue  # a compiled class
            else:
                why = fault(wanted, given, method)
            if why:
                faults.append(f"{label}: {why}")
    assert not faults, "\n".join(faults)


STUBS = {
    "functions": ("_VariableFunctions.pyi", None, torch, rl),
    "methods": ("__init__.pyi", "TensorBase", torch.Tensor, rl.Tensor),
    "functional": ("_nn.pyi", None, torch.nn.functional, rl.nn.functional),
}


def stubbed(file, within):
    """The parameters that a stub gives each overload of each name."""
    text = (Path(torch.__file__).parent / "_C" / file).read_text()
    body = ast.parse(text).body
    if within:
        classes = (n for n in body if isinstance(n, ast.ClassDef) and n.name == within)
        body = next(classes).body
    kind = inspect.Parameter
    for node in body:
        if not isinstance(node, ast.FunctionDef):
            continue
        given, parameters = node.args, []
        names = [a.arg for a in given.posonlyargs + given.args]
        defaults = [None] * (len(names) - len(given.defaults)) + given.defaults
        if given.vararg:
            names.append(given.vararg.arg)
            defaults.append(None)
        for name, default in zip(names, defaults, strict=True):
            default = kind.empty if default is None else value_of(default)
            parameters.append(kind(name, kind.POSITIONAL_OR_KEYWORD, default=default))
        for name, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
            default = kind.empty if default is None else value_of(default)
            parameters.append(kind(name.arg, kind.KEYWORD_ONLY, default=default))
        yield node.name, parameters


def value_of(node):
    text = ast.unparse(node)
    if text == "...":
        return inspect.Parameter.empty
    try:
        return eval(text, {"torch": torch, "strided": "strided", "inf": float("inf")})
    except NameError:
        return text


def taken(name, parameters, packet, method):
    """Why no overload takes what a stub describes; None where one does."""
    wanted = [
        p for p in parameters if p.name not in FACTORY or p.kind != p.KEYWORD_ONLY
    ]
    names = tuple("self" if p.name == "input" else p.name for p in wanted)
    if names in forms(packet):
        return None
    numbers = ["number" if p.name == "other" else p.name for p in wanted]
    numbers[:1] = ["self"]
    if tuple(numbers) in forms(packet):
        return None
    renamed = {"element": "elements", "test_element": "test_elements"}
    if name == "copy_":
        renamed["other"] = "src"
    wanted = [p.replace(name=renamed.get(p.name, p.name)) for p in wanted]
    faults = [fault(wanted, ours, method) for ours in of_operator(packet)]
    return None if None in faults else faults[0]


@pytest.mark.parametrize("place", STUBS)
def test_operators_take_what_pytorchs_take(place):
    file, within, theirs, ours = STUBS[place]
    faults = []
    for name, parameters in stubbed(file, within):
        packet = getattr(ours, name, None)
        if not hasattr(theirs, name) or not isinstance(packet, OperatorPacket):
            continue
        given = {p.name for p in parameters}
        if given & OTHER_THREAD or name in MEANT or name.startswith("__"):
            continue
        why = taken(name, parameters, packet, within is not None)
        if why:
            faults.append(f"{name}({', '.join(map(str, parameters))}): {why}")
    assert not faults, "\n".join(faults)


# Orders and names that only the parser of arguments knows.
CALLS = """
    add(a, 2, b) | sub(a, 2, b) | add(a, 2, b, out=o) | addmm(2, a, 3, a, b)
    addmm(2, a, a, b) | addmm(2, a, a, b, out=o) | addmv(2, a[0], a, b[0])
    addmv_(2, o[0], a, b[0]) | addr(2, a, 3, a[0], b[0]) | addbmm(2, a, 3, c, c)
    baddbmm(2, c, 3, c, c) | baddbmm(2, c, c, c) | addcmul(a, 2, a, b)
    addcdiv(a, 2, a, b) | a.add(2, b) | a.add_(2, b) | a.sub(2, b) | a.sub_(2, b)
    a.addmm(2, a, b) | a.addmm(2, 3, a, b) | a.addcmul(2, a, b) | a.addcdiv_(2, a, b)
    a.addr(2, 3, a[0], b[0]) | a[0].addmv(2, 3, a, b[0]) | c.baddbmm(2, c, c)
    a.addbmm(2, 3, c, c) | add(a, 2, 3) | a.add_(2, 3) | sub(a, 2, 3) | rsub(a, 2, 3)
    subtract(a, 2, 3) | a.subtract_(2, 3) | add(a, b, 2) | a.add(True, b)
    a.add(tensor(2.0), b) | addmm(a, 2, a, b) | a.addmm(b, 2, a) | a.add("x", b)
    isin(element=2, test_elements=a) | isin(elements=a, test_element=2)
    isin(element=a, test_elements=a) | isin(element=2, test_element=a)
    a.copy_(other=b) | a.copy_(other=b, non_blocking=True) | a.copy_(b, other=b)
    a.swapaxes_(axis0=0, axis1=1) | a.swapaxes_(dim0=0, dim1=1)
    rrelu(a, 0.1, 0.2, True, generator=g) | rrelu(a, 0.1, 0.2, False, None)
    view_copy(a, int32) | view_copy(a, dtype=int32) | sym_sum(1, 2, 3)
    sym_sum([1, 2, 3]) | from_dlpack(a, copy=True) | from_dlpack(ext_tensor=a)
    from_dlpack(a, device="cpu", copy=False) | meshgrid(a[0], b[0], indexing=None)[1]
    is_tensor(obj=a) | set_default_dtype(d=float32)
    nn.Sequential(s, s).modules(remove_duplicate=False).__next__() is not None
    len([*nn.Sequential(s, s).modules(remove_duplicate=False)])
"""


class Names(dict):
    """What expressions see: a few values, and all that the library has."""

    def __init__(self, library):
        super().__init__()
        self.library = library

    def __missing__(self, name):
        found = getattr(self.library, name, None) or getattr(builtins, name, None)
        if found is None:
            raise KeyError(name)
        return found


def answer(library, text):
    library.manual_seed(0)
    a = library.arange(9.0).reshape(3, 3) - 3
    b = a.flip(0)
    space = Names(library)
    space |= {
        "a": a, "b": b, "c": library.stack([a, b, a]), "o": library.zeros(3, 3),
        "g": library.Generator(), "s": library.nn.ReLU(),
    }  # fmt: skip
    try:
        found = eval(text, {}, space)
    except (TypeError, RuntimeError) as error:
        return type(error)
    return found.tolist() if isinstance(found, library.Tensor) else found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "text", [c.strip() for c in re.split(r"\||\n", CALLS) if c.strip()]
)
def test_a_call_of_another_order_goes_as_in_pytorch(text):
    theirs, ours = answer(torch, text), answer(rl, text)
    if isinstance(theirs, list):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    else:
        assert ours == theirs


def test_older_orders_are_warned_of_once(nothing_said_yet):
    x = rl.ones(2)
    with pytest.warns(UserWarning, match=r"add_\(Number alpha, Tensor other\)"):
        x.add_(2, x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x.add_(2, x)


NAMED_SELF = """
    where(a > 0, self=a, other=b) | where(a > 0, input=a, other=b) | add(self=a, other=b)
    where(a > 0, self=2.0, other=b) | sum(self=a) | relu(self=a) | permute(self=a, dims=(0, 1))
    pow(self=2.0, exponent=a) | relu_(self=o) | linalg.det(self=a) | nn.functional.gelu(self=a)
    ops.aten.relu(self=a) | ops.aten.add(self=a, other=b) | a.where(condition=a > 0, other=b)
    ops.aten.add.Tensor(self=a, other=b) | sum(input=a) | cat(self=[a, b])
"""


@pytest.mark.parametrize(
    "text", [t.strip() for t in re.split(r"[|\n]", NAMED_SELF) if t.strip()]
)
def test_functions_call_their_tensor_input_and_operators_call_it_self(text):
    outcomes = []
    for library in (torch, rl):
        names = {"a": library.ones(2, 2), "b": library.ones(2, 2), "o": library.ones(2)}
        run = text if text.startswith("a.") else f"m.{text}"
        try:
            outcomes.append(eval(run, {"m": library, **names}).tolist())
        except Exception as error:
            outcomes.append(type(error))
    assert outcomes[1] == outcomes[0]


def test_functions_are_pickled_as_themselves():
    for function in (rl.add, rl.linalg.det, rl.relu_, rl.ops.aten.add, rl.Tensor.add):
        assert pickle.loads(pickle.dumps(function)) is function


def test_kernels_from_python_are_replaced_unless_told():
    library = rl.library.Library("signatures", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x, "CPU")
    library.impl("twice", lambda x: x * 2, "CPU")
    assert rl.ops.signatures.twice(rl.ones(1)).item() == 2
    with pytest.raises(RuntimeError, match="already a kernel registered"):
        library.impl("twice", lambda x: x, "CPU", allow_override=False)
