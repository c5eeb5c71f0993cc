"""Modules of translated programs."""

from collections import OrderedDict

import rushlight as torch
from rushlight.core import naming
from rushlight.jit import _overloads
from rushlight.jit._callables import OverloadedMethod, ScriptFunction, ScriptMethod
from rushlight.jit._modules import UNIT, own_class, settle_result
from rushlight.jit._print import code_and_constants
from rushlight.jit._texts import define_methods
from rushlight.jit._write import save_module
from rushlight.nn import Module

_OWN = {"_script_type", "_script_methods", "_python"}
_HELD = "_modules", "_parameters", "_buffers"


class ScriptModule(Module):
    """A module whose program was translated."""

    _keeps_its_tensors = "Jitted modules"


class RecursiveScriptModule(ScriptModule):
    """A translated module: the tensors of the original, and a program for its methods.

    ``graph`` and ``code`` show ``forward``'s program.
    """

    def __init__(self, kind=None):
        super().__init__()
        if kind is not None:
            self.__dict__["_script_type"] = kind

    @property
    def original_name(self):
        """The name of the class that was translated."""
        return self._script_type.name.rpartition(".")[2]

    def _get_name(self):
        return "RecursiveScriptModule"

    def extra_repr(self):
        """The name of the original class."""
        return f"original_name={self.original_name}"

    def _method(self, name):
        kind = self.__dict__.get("_script_type")
        if kind is None:
            return None
        names = _overloads.numbered(kind.methods, name)
        if names:
            return OverloadedMethod(self, [kind.methods[each] for each in names])
        function = kind.methods.get(name)
        return None if function is None else ScriptMethod(self, function)

    def __getattr__(self, name):
        for held in _HELD:  # what programs ask for
            found = self.__dict__.get(held, {}).get(name)
            if found is not None:
                return found
        found = self._method(name)
        if found is not None:
            return found
        kind = self.__dict__.get("_script_type")
        if kind is not None:
            if name in kind.constants:
                return kind.constants[name]
            method = UNIT.accessor(kind, name, "get")
            if method is not None:
                settle_result(method)
                return ScriptMethod(self, method)()
        return super().__getattr__(name)

    def __setattr__(self, name, value):
        kind = self.__dict__.get("_script_type")
        if kind is not None and name in kind.constants:
            raise AttributeError(
                f"Cannot mutate TorchScript constant value: '{name}'. Value: "
                f"'{kind.constants[name]}'"
            )
        super().__setattr__(name, value)

    def forward(self, *args, **kwargs):
        """Runs the program of ``forward``."""
        method = self._method("forward")
        if method is None:
            raise NotImplementedError(f"{self.original_name} has no forward")
        return method(*args, **kwargs)

    @property
    def graph(self):
        """The program of ``forward``."""
        return self._method("forward").graph

    @property
    def inlined_graph(self):
        """The program of ``forward`` with what it calls put in its place."""
        return self._method("forward").inlined_graph

    @property
    def code(self):
        """The program of ``forward`` as text."""
        return self._method("forward").code

    @property
    def code_with_constants(self):
        """The text, and the tensors that it names."""
        return code_and_constants(self._method("forward").function)

    def graph_for(self, *args, **kwargs):
        """The program that runs for operands: the one there is."""
        return self.graph

    def save(self, f, _extra_files=None):
        """Writes the module with its code."""
        save_module(self, f, _extra_files)

    def save_to_buffer(self, _extra_files=None):
        """The bytes of the module's archive."""
        import io

        file = io.BytesIO()
        self.save(file, _extra_files)
        return file.getvalue()

    def define(self, src):
        """Adds methods from their text."""
        define_methods(self, src)

    def get_debug_state(self):
        """Not kept: there is one program a method."""
        raise RuntimeError("get_debug_state: programs are not specialised here")

    def __contains__(self, name):
        return name in self._modules

    def __iter__(self):
        return iter(self._modules.values())

    def __len__(self):
        return len(self._modules)

    def __getitem__(self, index):
        held = list(self._modules.values())
        return self._modules[index] if isinstance(index, str) else held[index]

    def __bool__(self):
        return True

    def __reduce__(self):
        import pickle

        raise pickle.PickleError(
            "ScriptModules cannot be deepcopied using copy.deepcopy or saved using "
            "torch.save. Mixed serialization of script and non-script modules is not "
            "supported. For purely script modules use my_script_module.save(<filename>) "
            "instead."
        )

    def __deepcopy__(self, memo):
        return copied(self, memo)

    def __copy__(self):
        return copied(self, None)

    copy = __copy__


class TracedModule(RecursiveScriptModule):
    """A module inside of one that was recorded."""

    def _get_name(self):
        return self.original_name


class TopLevelTracedModule(TracedModule):
    """A module made of a recording."""


def copied(module, memo):
    """Another module of the same program; with ``memo`` its values are copied too."""
    import copy

    kind = module._script_type
    made = type(module)(kind)
    own = ("_forward_pre_hooks", "_forward_hooks") if kind.has_hooks else ()
    if own:
        add_hooks(made)
    if memo is not None:
        memo[id(module)] = made
    for name, value in vars(module).items():
        if name == "_script_type" or name in own:
            continue
        if memo is not None:
            value = copy.deepcopy(value, memo)
        elif isinstance(value, dict):
            value = dict(value)
        made.__dict__[name] = value
    return made


def script_module(module):
    """The translation of a module, and of what it holds.

    Raises:
        Untranslatable: it has hooks that are no functions of the program.
        RuntimeError: its program is not of the language.
    """
    made, pending = build(module, {})
    for one in pending:
        translate(one)
    return made


def build(module, known, made_of=RecursiveScriptModule):
    """The translated module without its methods, and all inside of it."""
    if isinstance(module, RecursiveScriptModule):
        return module, []
    if module in known:
        return known[module], []
    pending, scripted = [], {}
    for name, inner in module._modules.items():
        if inner is None:
            continue
        scripted[name], more = build(inner, known, made_of)
        pending += more
    kind = UNIT.module_type(module, scripted)
    made = made_of(kind)
    fill(made, module, scripted)
    known[module] = made
    return made, [*pending, made]


def fill(made, module, scripted):
    """Gives a translated module the original's values."""
    own = made.__dict__
    for name, value in vars(module).items():
        if name in ("_modules", "training"):
            continue
        if name in ("_parameters", "_buffers"):
            own[name] = value
        elif name not in own:
            own[name] = value
    own["training"] = module.training
    add_hooks(made)
    own["_modules"] = dict(scripted)
    own["_python"] = type(module)


def add_hooks(module):
    """Has calls from Python run the hooks of the program."""
    kind, own = module._script_type, module.__dict__
    for word, names in (
        ("_forward_pre_hooks", kind.pre_hooks),
        ("_forward_hooks", kind.hooks),
    ):
        rows = [(at, ScriptFunction(kind.methods[n])) for at, n in enumerate(names)]
        own[word] = OrderedDict(rows)


def wanted(module):
    """The names of the methods that are translated for themselves."""
    python = module._script_type.python
    names = []
    forward = getattr(python, "forward", None)
    ignored = str(getattr(forward, "_torchscript_modifier", ""))
    default = naming.is_own(getattr(forward, "__module__", "")) and own_class(python)
    if (
        forward is not None
        and not ignored.startswith(("ignore", "unused"))
        and has_forward(python)
    ):
        names += UNIT.overloads(module._script_type, "forward") or ["forward"]
    for name in dir(python):
        own = getattr(python, name, None)
        if str(getattr(own, "_torchscript_modifier", "")).startswith("export"):
            names.append(name)
    return names if not default or has_forward(python) else []


def has_forward(python):
    """Whether a class says what it computes."""
    return getattr(python, "forward", None) is not Module.forward and "forward" in {
        name for base in python.__mro__ if base is not Module for name in vars(base)
    }


def translate(module):
    """Translates a module's methods."""
    kind = module._script_type
    if getattr(kind, "translated", False):
        return
    kind.translated = True
    try:
        for name in {**dict.fromkeys(kind.pre_hooks), **dict.fromkeys(kind.hooks)}:
            settle_result(kind.methods[name])
        for name in wanted(module):
            if (
                is_container(kind.python)
                and name == "forward"
                and name not in vars(kind.python)
            ):
                continue
            method = UNIT.method(kind, name)
            if method is not None:
                settle_result(method)
    except BaseException:
        kind.translated = False
        kind.methods.clear()
        raise


def is_container(python):
    """Whether a class only holds modules."""
    holders = (
        torch.nn.ModuleList,
        torch.nn.ModuleDict,
        torch.nn.ParameterList,
        torch.nn.ParameterDict,
    )
    return issubclass(python, holders)
