"""Translated modules: types of their attributes, their methods, and how they are called."""

import inspect
import typing

import rushlight as torch
from rushlight.core import naming
from rushlight.jit import _annotated, _forms, _overloads, _runtime, _types
from rushlight.jit._names import PythonNames
from rushlight.jit._sources import FrontendError, ScriptError, Source, Untranslatable
from rushlight.jit._statements import compile_function
from rushlight.jit._unit import Unit, definition, qualified
from rushlight.jit.ir import Function
from rushlight.nn import (
    Module,
    ModuleDict,
    ModuleList,
    ParameterList,
    RNNBase,
    Sequential,
)

_CONSTANT = (
    bool,
    int,
    float,
    complex,
    str,
    tuple,
    type(None),
    torch.device,
    torch.dtype,
)
_INTERNAL = frozenset(vars(Module())) - {"training"}


def own_class(python):
    """Whether a class is one of the package's modules."""
    return naming.is_own(python.__module__)


class Modules(Unit):
    """Translated functions and classes, modules among them."""

    def compile(self, source, tree, names, function, graph, self_type):
        """Fills a graph with a function's program."""
        compile_function(self, source, tree, names, function, graph, self_type)

    def form_of(self, python):
        """The translated form of a function of the package, or None."""
        known = self.of_python.get(python) if _hashable(python) else None
        if isinstance(known, Function):
            return known
        found = _forms.function_form(python)
        if found is None:
            return None
        source, tree, names = found
        name = self.free(qualified(python))
        function = self.define(tree, source, names(self), name)
        self.functions[name] = function
        self.of_python[python] = function
        return function

    def method(self, kind, name):
        """The method of a module, translated when it is first asked for; None: none."""
        if name in kind.methods:
            return kind.methods[name]
        if kind.python is None:
            return None
        overload = _overloads.split(name)
        defined = overload[0] if overload else name
        for base in kind.python.__mro__:
            if name in vars(base):
                overload = None
                break
            if defined in vars(base):
                break
        else:
            base = kind.python
            if not own_class(base) and _forms.method_form(base, name) is None:
                return None
        full = f"{kind.name}.{name}"
        if own_class(base):
            method = self.own_method(kind, vars(base).get(name), name, full)
        else:
            python = vars(base)[name if overload is None else defined]
            method = self.python_method(python, overload, full, kind)
            if method is None:
                return None
        kind.methods[name] = method
        return method

    def own_method(self, kind, python, name, full):
        """A method of one of the package's modules: its form, or as it is written.

        Raises:
            Untranslatable: it has no form, and is no program.
        """
        found = _forms.method_form(kind.python, name)
        if found is not None:
            source, tree, names = found
            return self.define(tree, source, names(self), full, kind)
        try:
            method = self.of_source(python, full, kind)
            _ = method.graph  # what the language lacks is seen at once
        except (ScriptError, FrontendError, OSError, TypeError) as reason:
            raise Untranslatable(f"{kind.python.__name__}.{name}") from reason
        return method

    def python_method(self, python, overload, full, kind):
        """A method of a class of the user's, or one of its signatures; None: no method."""
        python = inspect.unwrap(python)
        if not inspect.isfunction(python):
            return None
        if overload is None:
            return self.of_source(python, full, kind)
        declared = _overloads.signatures_of(python)
        if overload[1] >= len(declared):
            return None
        return self.of_source(python, full, kind, declared[overload[1]])

    def overloads(self, kind, name):
        """The names of the methods that stand for one, each for other operands."""
        if kind.python is None:
            return _overloads.numbered(kind.methods, name)
        python = inspect.getattr_static(kind.python, name, None)
        if python is None or own_class(python):
            return _forms.overloads_of(kind.python, name)
        count = len(_overloads.signatures_of(inspect.unwrap(python)))
        return [f"{name}__{at}" for at in range(count)]

    def of_source(self, python, full, kind, declaration=None):
        """A method of a class of the user's, under its signature or a declared one."""
        source = Source.of(python)
        tree = definition(source, python)
        if declaration is not None:
            tree = _overloads.with_signature(tree, declaration)
        extra = {"__class__": kind.python}
        names = PythonNames.of_function(python, self, extra)
        return self.define(tree, source, names, full, kind, python)

    def member(self, kind, name):
        """What Python knows under a name of a module: a function, a constant; or None."""
        found = getattr(kind, "others", {}).get(name)
        if found is not None:
            return found
        if kind.python is None:
            return None
        if name == "_flat_weights" and issubclass(kind.python, RNNBase):
            return Weights(kind.parameters)
        if _forms.method_form(kind.python, name) is not None:
            return self.method
        try:
            return inspect.getattr_static(kind.python, name)
        except AttributeError:
            return None

    def accessor(self, kind, name, word):
        """The method that gets or sets a property, translated when it is first asked for."""
        known = super().accessor(kind, name, word)
        found = self.member(kind, name) if kind.is_module and known is None else None
        if not isinstance(found, property):
            return known
        python = getattr(found, f"f{word}")
        if python is None or own_class(python):
            return None
        short = f"__{name}_{word}ter"
        method = self.of_source(python, f"{kind.name}.{short}", kind)
        kind.methods[short] = kind.properties.setdefault(name, {})[word] = method
        return method

    def items(self, kind):
        """The names of what a module holds in order, or None."""
        if kind.python is None or not issubclass(
            kind.python, (ModuleList, ModuleDict, Sequential, ParameterList)
        ):
            return None
        return list(kind.held)

    def hint(self, kind, name):
        """Why an attribute is not there."""
        why = getattr(kind, "failed", {}).get(name)
        if why is None:
            return ""
        return (
            " (This attribute exists on the Python module, but we failed to convert Python "
            f"type: '{why}' to a TorchScript type.)"
        )

    def attribute_type(self, kind, name):
        """The type of an attribute that a module sets, or None."""
        return kind.attributes.get(name)

    # -- classes of modules ------------------------------------------------------------

    def module_type(self, module, scripted):
        """The type of a module: one for all that have the same attributes."""
        described = Described(self, module, scripted)
        key = described.key()
        known = self.of_python.get(key)
        if known is not None:
            return known
        kind = described.kind
        kind.name = self.free(qualified(type(module)))
        self.classes[kind.name] = kind
        self.of_python[key] = kind
        for name, hook in kind.hook_functions.items():
            kind.methods[name] = self.of_source(hook, f"{kind.name}.{name}", kind)
        return kind

    def traced_type(self, module, scripted):
        """The type of a module that is recorded: its own, for the recording is."""
        kind = Described(self, module, scripted).kind
        kind.name = self.free(qualified(type(module)))
        kind.python = None
        self.classes[kind.name] = kind
        return kind


class Weights:
    """The weights of a recurrent network, in the order of its layers."""

    def __init__(self, names):
        self.names = names


class Described:
    """What the type of a module is made of."""

    def __init__(self, unit, module, scripted):
        self.unit, self.module = unit, module
        kind = self.kind = _types.ClassType("", is_module=True)
        kind.python = type(module)
        kind.others, kind.failed, kind.held = {}, {}, []
        kind.parameters = [n for n, v in module._parameters.items() if v is not None]
        kind.buffers = [n for n, v in module._buffers.items() if v is not None]
        self.hints = self.annotations()
        for name, value in (*module._parameters.items(), *module._buffers.items()):
            self.tensor(name, value)
        for name, inner in scripted.items():
            kind.attributes[name] = inner._script_type
            kind.held.append(name)
        if isinstance(module, ParameterList):
            kind.held = list(module._parameters)
        kind.attributes["training"] = _types.BoolType.get()
        self.rest()
        self.hooks()

    def hooks(self):
        """The hooks, each under its name."""
        module, kind = self.module, self.kind
        kind.hook_functions = {}
        kind.pre_hooks = self.hook_names("Pre-hook", module._forward_pre_hooks)
        kind.hooks = self.hook_names("Hook", module._forward_hooks)
        special = (
            module._forward_pre_hooks_with_kwargs,
            module._forward_hooks_with_kwargs,
            module._forward_hooks_always_called,
        )
        if any(special):
            raise Untranslatable("hooks that take keywords or are always called")

    def hook_names(self, what, hooks):
        found = self.kind.hook_functions
        names = []
        for hook in hooks.values():
            if not inspect.isfunction(hook) or own_class(hook):
                raise Untranslatable("a hook that is no function of the program")
            name = hook.__name__
            if found.setdefault(name, hook) is not hook:
                raise RuntimeError(
                    f"{what} '{name}' on {type(self.module).__name__} has at least two "
                    "different python definitions. Please use unique names for all hooks."
                )
            names.append(name)
        return names

    def annotations(self):
        found = {}
        for base in reversed(type(self.module).__mro__):
            if not own_class(base) and base is not object:
                try:
                    found.update(typing.get_type_hints(base))
                except NameError:
                    found.update(vars(base).get("__annotations__", {}))
        return found

    def tensor(self, name, value):
        if value is not None:
            hint = self.hints.get(name)
            kind = _types.TensorType.get()
            if hint is not None and hint is not torch.Tensor:
                kind = _annotated.of_python(hint, self.unit)
            self.kind.attributes[name] = kind
        elif name in self.hints:
            self.kind.attributes[name] = _annotated.of_python(
                self.hints[name], self.unit
            )
        else:
            self.kind.constants[name] = None

    def rest(self):
        module, kind = self.module, self.kind
        fixed = set(getattr(module, "__constants__", ()))
        package = own_class(type(module))
        ignored = set(getattr(module, "__jit_unused_properties__", ()))
        names = dict.fromkeys([*vars(module), *fixed])
        for name in names:
            if (
                name in _INTERNAL
                or name in kind.attributes
                or name in ignored
                or name == "training"
            ):
                continue
            if not hasattr(module, name) or name in module._modules:
                continue
            value = getattr(module, name)
            hint = self.hints.get(name)
            final = typing.get_origin(hint) is typing.Final or hint is typing.Final
            if final or name in fixed or package and isinstance(value, _CONSTANT):
                kind.constants[name] = value
            else:
                self.attribute(name, value, hint)

    def attribute(self, name, value, hint):
        kind = self.kind
        if isinstance(value, torch.jit.Attribute):
            kind.attributes[name] = _annotated.of_python(value.type, self.unit)
            setattr(self.module, name, value.value)
            return
        if hint is not None:
            kind.attributes[name] = _annotated.of_python(hint, self.unit)
            return
        found = _annotated.of_value(value, self.unit)
        if found is not None:
            kind.attributes[name] = found
        elif callable(value):
            kind.others[name] = value
        else:
            kind.failed[name] = type(value).__name__

    def key(self):
        """What is the same for modules of one type."""
        kind = self.kind
        constants = tuple((n, repr(v)) for n, v in kind.constants.items())
        others = tuple((n, id(v)) for n, v in kind.others.items())
        tensors = (tuple(kind.parameters), tuple(kind.buffers))
        hooks = (*kind.pre_hooks, None, *kind.hooks, *kind.hook_functions.values())
        attributes = tuple(kind.attributes.items())
        return (kind.python, attributes, constants, others, tensors, hooks)


def _hashable(python):
    try:
        hash(python)
    except TypeError:
        return False
    return True


def settle_result(function):
    """Makes sure that a function's schema says what it gives."""
    graph = function.graph
    if function.infer:
        function.schema.returns = [value.type for value in graph.returns.inputs_]
        function.infer = False


UNIT = Modules()
_runtime.handed.classes = UNIT.of_python
