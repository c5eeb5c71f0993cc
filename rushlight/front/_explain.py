"""What an operator is, from its declaration to machine code, as text."""

import ast
import functools
import importlib
import inspect
import os
import sys
import types

from rushlight._explain_rules import (
    KERNELS,
    ONE_FUNCTION,
    batching_of,
    device_variants,
    met,
    tangent_of,
)
from rushlight.dispatch.declared import IMPLEMENTATION, KIND, OPTIONAL, RULE, SOURCE

SECTIONS = (
    "declaration",
    "kernel",
    "derivative",
    "tangent",
    "batching",
    "variants",
    "dispatch",
    "expression",
    "loops",
    "llvm",
    "assembly",
)
ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))


def explain(operator, only=None, file=None):
    """Prints how an operator is declared, derived, dispatched and computed.

    Args:
        operator: a function of the package (``F.gelu``) or a name (``"gelu"``,
            ``"add.Tensor"``).
        only: which of `SECTIONS` to print; all by default.
        file: where to; standard output by default.

    Raises:
        AttributeError: there is no such operator.
        TypeError: it is something else.
        ValueError: there is no such section.

    >>> torch.explain("sigmoid", only="dispatch")
    ==== dispatch...
    """
    wanted = SECTIONS if only is None else only
    wanted = wanted.split(",") if isinstance(wanted, str) else wanted
    for section in wanted:
        if section not in SECTIONS:
            listed = ", ".join(SECTIONS)
            raise ValueError(f"explain: no section {section!r}; there are {listed}")
    for title, text in describe(operator, set(wanted)):
        print(f"==== {title}\n{text.rstrip()}\n", file=file or sys.stdout)


def describe(operator, wanted=frozenset(SECTIONS)):
    """Yields the pairs of title and text that `explain` prints."""
    found, chosen = resolve(operator)
    if isinstance(found, types.FunctionType):
        yield from describe_function(found)
        return
    operators = [
        op
        for op in found.overloads
        if not chosen or op.name.partition(".")[2] == chosen
    ]
    if not operators:
        raise AttributeError(f"the operator '{found.name}' has no overload '{chosen}'")
    for op in operators:
        yield from describe_operator(op, wanted, code=op is operators[0])


def resolve(operator):
    """The operator packet or plain function meant, and the overload's name or ''."""
    from rushlight.dispatch.overridable import Overridable
    from rushlight.operators import registry

    if isinstance(operator, Overridable):
        operator = operator.__wrapped__
    if not isinstance(operator, str):
        if isinstance(operator, types.FunctionType) or hasattr(operator, "overloads"):
            return operator, ""
        if not hasattr(operator, "signature"):
            raise TypeError(
                "explain: expected an operator, a function of the package or a name, "
                f"not {operator!r}"
            )
        operator = f"{operator.namespace}::{operator.name}"
    name, _, overload = operator.rpartition("::")[2].partition(".")
    try:
        return registry.find(name), overload
    except AttributeError:
        functional = importlib.import_module("rushlight.nn.functional")
        found = getattr(functional, name, None)
        if isinstance(found, types.FunctionType):
            return found, ""
        raise AttributeError(f"there is no operator {operator!r}") from None


def describe_function(function):
    """The source of a function composed of operators, and which ones those are."""
    yield f"function {function.__name__}: {location(function)}", source(function)
    called = sorted(name for name in function.__code__.co_names if is_operator(name))
    if called:
        yield "operators that it may call", "\n".join(called)


def is_operator(name):
    """Whether formulas can call an operator of this name."""
    from rushlight.operators import registry

    return hasattr(getattr(registry.call, name, None), "overloads")


def describe_operator(op, wanted, code=True):
    """The sections of one overload; ``code`` includes what is compiled for it."""
    if "declaration" in wanted and op.entry:
        yield f"declaration: {op.entry[SOURCE]}", declaration(op.entry[SOURCE])
    kernel = kernel_object(op)
    if "kernel" in wanted and kernel is not None:
        shown = getattr(kernel, "function", kernel)
        yield f"kernel: {location(shown)}", source(shown)
    if "derivative" in wanted:
        yield from describe_derivative(op)
    if "tangent" in wanted:
        yield described("tangent", tangent_of(op))
    if "batching" in wanted:
        yield described("batching", batching_of(op))
    if "variants" in wanted:
        yield from describe_variants(op, kernel)
    if "dispatch" in wanted:
        yield f"dispatch table: {op.namespace}::{op.name}", dispatch_table(op)
    if code and wanted & {"expression", "loops", "llvm", "assembly"}:
        for name, stages in compiled_stages(op, kernel):
            yield from describe_stages(name, stages, wanted)


def declaration(place):
    """The entry of a YAML file that starts at ``path:line``."""
    path, _, line = place.rpartition(":")
    try:
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            lines = file.readlines()[int(line) - 1 :]
    except OSError:
        return "(the file is not installed)"
    end = next((n for n, text in enumerate(lines) if n and text.startswith("- ")), None)
    return "".join(without_example(lines[:end])).rstrip()


def without_example(lines):
    """An entry's lines but for its example, which `help` shows."""
    inside = False
    for text in lines:
        if text.startswith("  ") and not text.startswith("   "):
            inside = text.startswith("  example:")
        if not inside:
            yield text


def describe_derivative(op):
    """Where the gradients come from."""
    if op.derivative is None:
        yield "derivative", "none: results don't require gradients"
        return
    module = importlib.import_module(op.derivative.module)
    function = getattr(module, op.derivative.function)
    yield f"derivative: {location(function)}", source(function)


def described(title, rule):
    """A rule's place and source, or the words that there are in place of a rule."""
    if isinstance(rule, str):
        return title, rule
    return f"{title}: {location(rule)}", source(rule)


def describe_variants(op, kernel):
    """The forms of an operator's parts that differ by device."""
    parts = list(device_variants(op, kernel))
    kind = op.entry[IMPLEMENTATION][KIND] if op.entry else ""
    if not parts or kind in KERNELS:  # layouts may have forms beside the devices' one
        yield "variants", KERNELS.get(kind, ONE_FUNCTION)
    for name, forms in parts:
        rows = [f"{key:18} {form_name(form)}" for key, form in forms.items()]
        yield f"variants: {name}", "\n".join(rows)


def form_name(form):
    """Where a form for a device is: a function, an object's class, a module and a name."""
    if isinstance(form, tuple):
        return ".".join(form)
    named = form if hasattr(form, "__qualname__") else type(form)
    return f"{location(named)}  {named.__qualname__.rpartition('.')[2]}"


# Keys of transformations, of autocast and of what records programs: registered for every
# operator when one is first used, and met only inside of it.
ON_DEMAND = (
    "Autocast",
    "Batched",
    "Below",
    "OperatorTrace",
    "ForwardAD",
    "PreDispatch",
    "Profiling",
    "Recording",
    "ValueType",
)


def dispatch_table(op):
    """What runs at each dispatch key of a plain call, highest priority first."""
    from rushlight.dispatch.keys import DispatchKey

    rows = []
    for key in sorted(DispatchKey, reverse=True):
        if key.name in ON_DEMAND:
            continue
        kernel = op.kernels.get(int(key))
        if kernel is not None:
            rows.append(f"{key.name:18} {kernel_name(kernel)}")
        elif op.handled_bits >> int(key) & 1:
            rows.append(f"{key.name:18} {default_name(op, key.name)}")
    return "\n".join(rows) or "no kernel: it is composed of other operators"


def default_name(op, key):
    """What handles a key at which nothing is registered for this operator."""
    if key == "Autograd":
        return "the recorder of graph nodes"
    if key == "ADInplaceOrView":
        return "the keeper of versions and views"
    return "a fallback"


def kernel_name(kernel):
    """How a dispatch table's kernel is named in the sources."""
    module = getattr(kernel, "module", None)
    if module:
        return f"{module}.{kernel.attribute}"
    function = getattr(kernel, "function", None)
    if function is not None:
        function = getattr(function, "func", function)  # of a partial call
        return f"{function.__module__}.{function.__qualname__}"
    return type(kernel).__name__


def kernel_object(op):
    """The object in a family's file that an entry names, or None."""
    base = op if op.functional is None else op.functional
    if not base.entry:
        return None
    module, attribute = base.entry[IMPLEMENTATION][1:3]
    if module is None:
        return None
    found = importlib.import_module(module)
    for part in attribute.split("."):
        found = getattr(found, part)
    # a function of any number of axes, with that number: the function is what is shown
    return found.func if isinstance(found, functools.partial) else found


# ---- what is compiled


def compiled_stages(op, kernel):
    """Pairs of name and `Stages` of the kernels behind an operator, for float32."""
    from rushlight.codegen.frontend.front import Front

    if isinstance(kernel, Front):
        yield kernel.name, kernel.stages(*specialization(op, kernel))
        return
    for loops in loop_kernels(kernel):
        yield loops.name, loops.stages(**loops.example)


def specialization(op, kernel):
    """Arguments of ``kernel.stages`` for float32 operands and default options."""
    kind = op.entry[IMPLEMENTATION][KIND]
    if kind == "reduction":
        outputs = tuple("float32" for _ in op.returns)
        return "float32", outputs, "float32"
    from rushlight.operators import registry

    rows = op.signature.rows
    fixed = registry.static_arguments(rows)
    static = tuple(plain(rows[n][2]) for n in fixed)
    # trailing numbers that are left out at their defaults
    optional = op.entry[IMPLEMENTATION][OPTIONAL]
    count = kernel.arity - len(static) - optional
    rule = op.entry[RULE][0] if op.entry[RULE] else "promote"
    out = "bool" if rule == "bool" else "float32"
    return ("float32",) * count, (out,) * len(op.returns), "float32", static


def plain(default):
    """A static argument's default; where there is none, one that any kernel takes."""
    return 1 if default is ... else default


def loop_kernels(function):
    """The loop kernels that a Python function, or one that it calls, may launch."""
    from rushlight.codegen.loops import Loops

    return [item for _, item in met(function) if isinstance(item, Loops)]


def describe_stages(name, stages, wanted):
    """The sections of one compiled kernel."""
    if "expression" in wanted:
        yield f"{name}: tensor expression", stages.expression
    if "loops" in wanted:
        before = None
        for step, text in stages.loops:
            changed = text != before
            yield f"{name}: loops, {step}", text if changed else "(no change)"
            before = text
    if "llvm" in wanted:
        yield f"{name}: LLVM IR", stages.llvm
    if "assembly" in wanted:
        yield f"{name}: assembly", stages.assembly


# ---- sources


def source(item):
    """The source text of a function or class."""
    found = compiled_source(item)
    if found is not None:
        return found[2]
    try:
        return inspect.getsource(inspect.unwrap(item))
    except (OSError, TypeError):
        return "(its source is not installed)"


def location(item):
    """``path:line`` of a function or class, relative to the project."""
    found = compiled_source(item)
    try:
        path = found[0] if found else inspect.getsourcefile(item)
        line = found[1] if found else inspect.getsourcelines(item)[1]
    except (OSError, TypeError):
        return f"{getattr(item, '__module__', '?')}.{getattr(item, '__name__', '?')}"
    return f"{os.path.relpath(path, ROOT)}:{line}"


def compiled_source(item):
    """Path, line and text of what stands in the source beside a compiled module, or None."""
    module = sys.modules.get(getattr(item, "__module__", None))
    path = getattr(module, "__file__", None) or ""
    if not path.endswith((".so", ".pyd")):
        return None
    path = path.partition(".")[0] + ".py"
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError:
        return None
    for node in ast.parse(text).body:
        if getattr(node, "name", None) == item.__name__:
            return path, node.lineno, ast.get_source_segment(text, node)
    return None
