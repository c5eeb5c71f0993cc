"""Records a program by running it with proxies in place of its arguments."""

import builtins
import collections
import contextlib
import copy
import functools
import inspect
import math
import os
import warnings
from collections import OrderedDict
from types import FunctionType, ModuleType
from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.fx import _names
from rushlight.fx._codegen import _PyTreeCodeGen, _PyTreeInfo
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import base_types, map_aggregate
from rushlight.fx.proxy import (
    ParameterProxy,
    Proxy,
    Scope,
    ScopeContextManager,
    TracerBase,
)
from rushlight.nn.modules.container import Sequential
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.operators.assertions import _assert
from rushlight.utils import _pytree as pytree

HAS_VARSTUFF = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS

_orig_module_call = Module.__call__
_orig_module_getattr = Module.__getattr__
_proxyable_classes: dict[type, None] = {}
_is_fx_tracing_flag = False
_ConstantAttributeType = Tensor


def is_fx_tracing():
    """Whether a program is being recorded."""
    return _is_fx_tracing_flag


is_fx_symbolic_tracing = is_fx_tracing


class ProxyableClassMeta(type):
    """The metaclass of classes whose making becomes a step, where it gets a proxy.

    >>> class Pair(metaclass=ProxyableClassMeta):
    ...     def __init__(self, left, right):
    ...         self.left, self.right = left, right
    >>> from rushlight import fx
    >>> fx.symbolic_trace(lambda x: Pair(x, x).left + 1)(2)
    3
    """

    def __init__(cls, name, bases, attrs):
        _proxyable_classes.setdefault(cls)
        super().__init__(name, bases, attrs)

    def __call__(cls, *args, **kwargs):
        instance = cls.__new__(cls)
        if not is_fx_tracing():
            cls.__init__(instance, *args, **kwargs)
            return instance
        found: list[Proxy] = []

        def look(leaf):
            if isinstance(leaf, Proxy):
                found.append(leaf)

        map_aggregate(args, look)
        map_aggregate(kwargs, look)
        if found:
            return found[0].tracer.create_proxy("call_function", cls, args, kwargs)
        cls.__init__(instance, *args, **kwargs)
        return instance


def _patch_function(fn, nargs):
    """The function with ``nargs`` plain arguments in place of starred and named ones."""
    code = fn.__code__.replace(
        co_flags=fn.__code__.co_flags & ~HAS_VARSTUFF,
        co_argcount=nargs,
        co_posonlyargcount=0,
        co_kwonlyargcount=0,
    )
    made: Any = FunctionType(
        code, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__
    )
    # what was given by name has its value in the graph's arguments
    made.__kwdefaults__ = None
    return made


class PHBase:
    """Marks what stays an argument inside of nests in ``concrete_args``."""

    def __repr__(self):
        return "PH"


PH = PHBase()


class PHWithMeta(PHBase):
    """As ``PH``, with attributes that the argument's node gets."""

    def __init__(self, ph_key=None):
        super().__init__()
        self.ph_key = ph_key


def _transfer_attrs(fr, to):
    for name in dir(fr):
        value = getattr(fr, name)
        if not callable(value) and not name.startswith("__") and not hasattr(to, name):
            setattr(to, name, value)


class Tracer(TracerBase):
    """Records modules and functions; its methods are what subclasses change.

    Args:
        autowrap_modules: modules whose functions become steps where they get a proxy.
        autowrap_functions: functions of which the same holds.
        param_shapes_constant: whether the sizes of parameters are known in recording.

    >>> from rushlight import fx, nn
    >>> class Whole(fx.Tracer):
    ...     def is_leaf_module(self, m, module_qualified_name):
    ...         return False
    >>> print(*Whole().trace(nn.Sequential(nn.ReLU())).nodes)
    input_1 relu output
    """

    def __init__(
        self,
        autowrap_modules=(math,),
        autowrap_functions=(),
        param_shapes_constant=False,
    ):
        super().__init__()
        self._autowrap_function_ids = {
            id(value)
            for module in autowrap_modules
            for name, value in vars(module).items()
            if not name.startswith("_") and callable(value)
        }
        self._autowrap_function_ids.update(id(f) for f in autowrap_functions)
        self._autowrap_search: list[ModuleType] = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[Module, str] | None = None
        self.root_module_name = ""
        self.scope = Scope("", None)
        self.module_stack = OrderedDict()
        self.num_calls: dict[str, int] = {}
        self.node_name_to_scope = {}

    _qualname_counter: dict[str, int] = collections.defaultdict(int)

    def get_fresh_qualname(self, prefix):
        """A name that the root has nothing under."""
        number = self._qualname_counter[prefix]
        while hasattr(self.root, f"{prefix}{number}"):
            number += 1
        self._qualname_counter[prefix] = number
        return f"{prefix}{number}"

    def create_arg(self, a):
        """A value as an argument of a step.

        Parameters, buffers and modules of the root become steps that read them; other
        tensors are kept with the graph, as constants.

        Args:
            a: the value.

        Raises:
            NameError: a parameter is not the root's.
            NotImplementedError: values of its type cannot be arguments.
        """
        if isinstance(a, Parameter):
            for name, held in self.root.named_parameters():
                if a is held:
                    return self.create_node("get_attr", name, (), {})
            raise NameError("parameter is not a member of this module")
        if isinstance(a, Tensor):
            for name, held in self.root.named_buffers():
                if a is held:
                    return self.create_node("get_attr", name, (), {})
        elif isinstance(a, Module):
            for name, held in self.root.named_modules():
                if a is held:
                    return self.create_node("get_attr", name, (), {})
        if isinstance(a, tuple) and hasattr(a, "_make"):
            args = tuple(self.create_arg(each) for each in a)
            return self.create_node("call_function", type(a), args, {})
        if isinstance(a, Tensor):
            return self._constant(a)
        if type(a) in _proxyable_classes:
            return self._constant(a, f"_{type(a).__name__}_constant_")
        return super().create_arg(a)

    def _constant(self, a, prefix="_tensor_constant"):
        """A step that reads a value which the graph keeps."""
        name = self.tensor_attrs.get(id(a))
        if name is None:
            name = self.get_fresh_qualname(prefix)
            self.tensor_attrs[id(a)] = name
            self._kept.append(a)
            setattr(self.root, name, a)
        return self.create_node("get_attr", name, (), {})

    def is_leaf_module(self, m, module_qualified_name):
        """Whether a module is one step; by default those of ``nn`` are, but containers.

        Args:
            m: the module.
            module_qualified_name: its path.
        """
        home = _names.in_package(m.__module__)
        return home.startswith(("torch.nn", "torch.ao.nn")) and not isinstance(
            m, Sequential
        )

    def path_of_module(self, mod):
        """The path of a module from the root.

        Raises:
            NameError: the root does not hold it.
        """
        if self.submodule_paths:
            path = self.submodule_paths.get(mod)
            if path is None:
                raise NameError("module is not installed as a submodule")
            return path
        for name, held in self.root.named_modules():
            if mod is held:
                return name
        raise NameError("module is not installed as a submodule")

    def call_module(self, m, forward, args, kwargs):
        """Called for each call of a module: one step, or those of its own program.

        Args:
            m: the module.
            forward: runs its program.
            args: what it was called with; ``kwargs`` too.

        Raises:
            NameError: the root does not hold it.
        """
        path = self.path_of_module(m)
        with ScopeContextManager(self.scope, Scope(path, type(m))) as scope:
            calls = self.num_calls.get(path, 0)
            key = f"{path}@{calls}" if calls > 0 else path
            self.module_stack[key] = (scope.module_path, scope.module_type)
            self.num_calls[path] = calls + 1
            try:
                if self.is_leaf_module(m, path):
                    return self.create_proxy("call_module", path, args, kwargs)
                return forward(*args, **kwargs)
            finally:
                self.module_stack.popitem()

    def getattr(self, attr, attr_val, parameter_proxy_cache):
        """Called for each parameter, buffer and module that the program reads.

        Args:
            attr: the name that was read.
            attr_val: what it is.
            parameter_proxy_cache: the proxies of this recording, by paths.
        """

        def stand_for(held, cache, known):
            for name, value in held:
                if attr_val is not value:
                    continue
                if name not in cache:
                    factory = None
                    if known and self.param_shapes_constant:
                        factory = functools.partial(_parameter_proxy, self, name, value)
                    cache[name] = self.create_proxy(
                        "get_attr", name, (), {}, proxy_factory_fn=factory
                    )
                return cache[name]
            return None

        found = None
        if isinstance(attr_val, Parameter):
            found = stand_for(self.root.named_parameters(), parameter_proxy_cache, True)
        elif self.proxy_buffer_attributes and isinstance(attr_val, Tensor):
            found = stand_for(self.root.named_buffers(), parameter_proxy_cache, False)
        return attr_val if found is None else found

    def _proxy_placeholder(self, name, concrete_args, sig, fn_for_analysis):
        """What stands for an argument, or the value it has been given."""
        default: tuple[Any, ...] = ()
        if not name.startswith("*"):
            given = sig.parameters[name].default
            default = () if given is inspect.Parameter.empty else (given,)
        if concrete_args is not None and name in concrete_args:
            count = 0

            def replace(x):
                nonlocal count
                count += 1
                out = self.create_proxy("placeholder", f"{name}_{count}", default, {})
                if isinstance(x, PHBase):
                    if x is not PH:
                        _transfer_attrs(fr=x, to=out.node)
                    return out
                self._assert_given(name, x, out)
                return x

            return pytree.tree_map(replace, concrete_args[name])
        kind = _annotations(fn_for_analysis).get(name)
        return self.create_proxy("placeholder", name, default, {}, type_expr=kind)

    def _assert_given(self, name, x, out):
        """Records that an argument has the value that it has been given."""
        if type(x) is bool or (type(x) in base_types and type(x) is not Tensor):
            text = (
                f"{name} has been specialized to have value {x} but got another value"
            )
            _assert(out == x, text)
        elif x is None:
            text = (
                f"{name} has been specialized to have value None but got another value"
            )
            self.create_proxy("call_function", _assert_is_none, (out, text), {})
        else:
            warnings.warn(
                f"Was not able to add assertion to guarantee correct input {name} to "
                "specialized function. It is up to the user to make sure that your inputs "
                "match the inputs you specialized the function with.",
                stacklevel=2,
            )

    def create_args_for_root(self, root_fn, is_module, concrete_args=None):
        """The function to run, and the proxies to run it with.

        Args:
            root_fn: the function.
            is_module: whether its first argument is the root module.
            concrete_args: values of some arguments, by name or in order.

        Raises:
            RuntimeError: the module is part of ``*args``, or the values do not fit.
            AttributeError: the root is no function written in Python.
        """
        analysed = inspect.unwrap(root_fn)
        if not hasattr(analysed, "__code__"):
            raise AttributeError(
                f"'{type(analysed).__name__}' object has no attribute '__code__'\n"
                "  symbolic_trace follows modules and functions written in Python\n"
                "  remedy: wrap the call in a function, or in a module's forward"
            )
        code = analysed.__code__
        total = code.co_argcount + code.co_kwonlyargcount
        names = list(code.co_varnames)
        args: list[Any] = []
        skip = 0
        if is_module:
            if total == 0:
                raise RuntimeError(
                    "``self`` argument cannot be part of *args expansion!"
                )
            skip = 1
            args.append(self.root)
        sig = inspect.signature(analysed)
        given = names[skip:total]
        if isinstance(concrete_args, tuple):
            if len(given) != len(concrete_args):
                raise RuntimeError(
                    f"Tracing expected {len(given)} arguments but got "
                    f"{len(concrete_args)} concrete arguments"
                )
            concrete_args = dict(zip(given, concrete_args, strict=True))

        def stand_for(name):
            return self._proxy_placeholder(name, concrete_args, sig, analysed)

        args += [stand_for(name) for name in given]
        rest = iter(names[total:])
        if code.co_kwonlyargcount > 0 or code.co_flags & HAS_VARSTUFF:
            if code.co_flags & inspect.CO_VARARGS:
                args.append(stand_for("*" + next(rest)))
            if code.co_flags & inspect.CO_VARKEYWORDS:
                args.append(stand_for("**" + next(rest)))
            root_fn = _patch_function(root_fn, len(args))
        flat, in_spec = pytree.tree_flatten(tuple(args))
        if all(child.is_leaf() for child in in_spec.children()):
            return root_fn, args
        codegen = _PyTreeCodeGen(_PyTreeInfo(names[:total], in_spec, None))
        self.graph._codegen = codegen

        def flatten_fn(*leaves):
            result = root_fn(*pytree.tree_unflatten(list(leaves), in_spec))
            out, out_spec = pytree.tree_flatten(result)
            codegen.pytree_info = codegen.pytree_info._replace(out_spec=out_spec)
            return out

        return flatten_fn, flat

    def trace(self, root, concrete_args=None):
        """Runs a program with proxies for its arguments and gives the graph of its steps.

        Args:
            root: a module, or a function.
            concrete_args: arguments that have values: what depends on them is decided.

        Raises:
            TraceError: the program needs the value of what is not known.
        """
        global _is_fx_tracing_flag
        before, _is_fx_tracing_flag = _is_fx_tracing_flag, True
        try:
            fn = self._begin(root)
            self.graph = Graph(tracer_cls=getattr(self, "__class__", None))
            if hasattr(fn, "__code__"):
                code = fn.__code__
                self.graph._co_fields = {
                    "co_name": code.co_name,
                    "co_filename": code.co_filename,
                    "co_firstlineno": code.co_firstlineno,
                }
            self._collect_tensors(self.root, [])
            is_module = isinstance(root, Module)
            original = fn
            fn, args = self.create_args_for_root(fn, is_module, concrete_args)
            if not isinstance(original, FunctionType):
                raise AssertionError(f"Expected FunctionType, got {type(original)}")
            with self._patched(original):
                result = self.create_arg(fn(*args))
            returns = _annotations(original).get("return")
            self.create_node("output", "output", (result,), {}, type_expr=returns)
            self.submodule_paths = None
        finally:
            _is_fx_tracing_flag = before
        return self.graph

    def _begin(self, root):
        """Notes what is recorded, and gives the function to run."""
        self._kept: list[Any] = []  # keeps identities from being used again
        self.tensor_attrs: dict[int, str] = {}
        if not isinstance(root, Module):
            self.root = Module()
            return root
        if not hasattr(type(root), self.traced_func_name):
            raise AssertionError(
                f"traced_func_name={self.traced_func_name} doesn't exist in "
                f"{type(root).__name__}"
            )
        self.root = root
        self.root_module_name = root._get_name()
        self.submodule_paths = {mod: name for name, mod in root.named_modules()}
        return getattr(type(root), self.traced_func_name)

    def _collect_tensors(self, module, path):
        """Notes the tensors that modules have as plain attributes."""
        for name, value in module.__dict__.items():
            if isinstance(value, Tensor):
                self.tensor_attrs[id(value)] = ".".join([*path, name])
        for name, inner in module.named_children():
            self._collect_tensors(inner, [*path, name])

    @contextlib.contextmanager
    def _patched(self, fn):
        """A block in which modules and wrapped functions tell the tracer of their use."""
        cache: dict[str, Proxy] = {}

        @functools.wraps(_orig_module_getattr)
        def read(mod, attr):
            value = _orig_module_getattr(mod, attr)
            return self.getattr(attr, value, cache)

        @functools.wraps(_orig_module_call)
        def call(mod, *args, **kwargs):
            def forward(*args, **kwargs):
                return _orig_module_call(mod, *args, **kwargs)

            names = getattr(getattr(mod, "forward", mod), "__globals__", {})
            _autowrap_check(patcher, names, self._autowrap_function_ids)
            return self.call_module(mod, forward, args, kwargs)

        with _Patcher() as patcher:
            patcher.patch_method(Module, "__getattr__", read)
            patcher.patch_method(Module, "__call__", call)
            _patch_wrapped_functions(patcher)
            _autowrap_check(patcher, fn.__globals__, self._autowrap_function_ids)
            for module in self._autowrap_search:
                _autowrap_check(patcher, vars(module), self._autowrap_function_ids)
            yield

    def __deepcopy__(self, memo):
        made = type(self).__new__(type(self))
        for key, value in self.__dict__.items():
            # what is searched are modules, which cannot be copied
            same = key == "_autowrap_search"
            made.__dict__[key] = (
                copy.copy(value) if same else copy.deepcopy(value, memo)
            )
        return made


def _parameter_proxy(tracer, name, value, node):
    return ParameterProxy(tracer, node, name, value)


def _annotations(fn):
    """The types that a function's head names, resolved where they are text."""
    found = getattr(fn, "__annotations__", {})
    if any(isinstance(kind, str) for kind in found.values()):
        with contextlib.suppress(Exception):
            return {**found, **inspect.get_annotations(fn, eval_str=True)}
    return found


# Functions to patch while recording: the names they are in, and their name.
_wrapped_fns_to_patch: dict[tuple[int, str], dict[str, Any]] = {}
_wrapped_methods_to_patch: list[tuple[type, str]] = []
# PyTorch's switch for recording `t[proxy]`.
if os.environ.get("FX_PATCH_GETITEM") == "1":
    _wrapped_methods_to_patch.append((Tensor, "__getitem__"))


def _find_proxy(*nests):
    """A proxy among arguments; None where there is none."""
    found: list[Proxy] = []

    def look(leaf):
        if isinstance(leaf, Proxy):
            found.append(leaf)

    map_aggregate(nests, look)
    return found[0] if found else None


def _create_wrapped_func(orig_fn):
    """The function, but that a call with a proxy becomes a step."""

    @functools.wraps(orig_fn)
    def wrapped(*args, **kwargs):
        proxy = _find_proxy(args, kwargs)
        if proxy is None:
            return orig_fn(*args, **kwargs)
        made = proxy.tracer.create_proxy("call_function", orig_fn, args, kwargs)
        made.node.meta["is_wrapped"] = True
        return made

    return wrapped


def _create_wrapped_method(cls, name):
    """The method, but that a call with a proxy becomes a step."""
    orig_fn = getattr(cls, name)

    @functools.wraps(orig_fn)
    def wrapped(*args, **kwargs):
        proxy = _find_proxy(args, kwargs)
        if proxy is None:
            return orig_fn(*args, **kwargs)
        return proxy.tracer.create_proxy("call_method", name, args, kwargs)

    return wrapped


class _Patcher:
    """Puts functions in the place of others, and puts those back at the end."""

    def __init__(self):
        self._undo: list[Any] = []
        self.visited: set[int] = set()

    def patch(self, frame_dict, name, new_fn, deduplicate=True):
        """Replaces an entry of a dict of names."""
        new_fn.__fx_already_patched = deduplicate
        absent = name not in frame_dict
        old = frame_dict.get(name)
        if old is not None and getattr(old, "__fx_already_patched", False):
            return

        def undo():
            if absent:
                frame_dict.pop(name, None)
            else:
                frame_dict[name] = old

        self._undo.append(undo)
        frame_dict[name] = new_fn

    def patch_method(self, cls, name, new_fn, deduplicate=False):
        """Replaces an attribute of a class."""
        new_fn.__fx_already_patched = deduplicate
        own = name in vars(cls)
        old = getattr(cls, name)
        if getattr(old, "__fx_already_patched", False):
            return
        self._undo.append(
            lambda: setattr(cls, name, old) if own else delattr(cls, name)
        )
        setattr(cls, name, new_fn)

    def visit_once(self, thing):
        """Whether a thing is seen for the first time."""
        seen = id(thing) in self.visited
        self.visited.add(id(thing))
        return not seen

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        while self._undo:
            self._undo.pop()()
        self.visited.clear()


def _patch_wrapped_functions(patcher):
    for (_, name), frame_dict in list(_wrapped_fns_to_patch.items()):
        if name in frame_dict:
            orig_fn = frame_dict[name]
        else:
            orig_fn = getattr(builtins, name, None)
        if orig_fn is not None:
            patcher.patch(frame_dict, name, _create_wrapped_func(orig_fn))
    for cls, name in _wrapped_methods_to_patch:
        patcher.patch_method(cls, name, _create_wrapped_method(cls, name))


def _autowrap_check(patcher, frame_dict, function_ids):
    """Replaces the functions of a dict of names that are to become steps."""
    if not patcher.visit_once(frame_dict):
        return
    for name, value in list(frame_dict.items()):
        if id(value) in function_ids and not name.startswith("_") and callable(value):
            patcher.patch(frame_dict, name, _create_wrapped_func(value))


def wrap(fn_or_name):
    """Has a function of the calling module become one step, where it gets a proxy.

    Args:
        fn_or_name: the function, as by a decorator, or its name.

    Raises:
        RuntimeError: it is neither.
        NotImplementedError: the call is not at the top of a module.

    >>> import pytest
    >>> def inside():
    ...     wrap("len")
    >>> with pytest.raises(NotImplementedError):
    ...     inside()
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(
            "Unsupported type for global function! Must be either a callable or string name"
        )
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = inspect.currentframe().f_back
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    names = frame.f_globals
    _wrapped_fns_to_patch[id(names), name] = names
    return fn_or_name


def symbolic_trace(root, concrete_args=None):
    """Records a module or a function as a module made of a graph.

    Args:
        root: the module or function.
        concrete_args: values for some arguments, by name: what the program does with
            them is done now. A nest may keep arguments, marked by ``fx.PH``.

    Raises:
        TraceError: the program needs the value of what is not known.

    >>> import rushlight as rl
    >>> from rushlight import fx
    >>> def smooth(x, rounds):
    ...     for _ in range(rounds):
    ...         x = rl.tanh(x) + 1
    ...     return x
    >>> print(fx.symbolic_trace(smooth, {"rounds": 2}).graph.find_nodes(
    ...     op="call_function", target=rl.tanh))
    [tanh, tanh_1]
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = root.__class__.__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)


def _assert_is_none(value, msg):
    if value is not None:
        raise AssertionError(msg)
