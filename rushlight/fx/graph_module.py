"""Modules made of graphs: the graph is written as Python, and that runs."""

from __future__ import annotations

import contextlib
import copy
import itertools
import linecache
import os
import re
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

from rushlight.core import naming
from rushlight.core.tensor import Tensor
from rushlight.fx import _names
from rushlight.fx.graph import Graph, _PyTreeCodeGen
from rushlight.nn.modules.module import Module, _addindent
from rushlight.nn.parameter import Parameter

__all__ = ["GraphModule", "reduce_graph_module"]

_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"
FX_GRAPH_MODULE_FILE_PREFIX = "fx_generated_"


class _EvalCacheLoader:
    """Keeps the text of generated code, for tracebacks and for debuggers."""

    def __init__(self):
        self.eval_cache: dict[str, str] = {}
        self.numbers = itertools.count()

    def cache(self, src, globals, co_fields=None):
        """Notes code under a file name that is not there.

        Args:
            src: the code.
            globals: its names; the loader puts itself among them.
            co_fields: the place of the program that it was made from.
        """
        origin = ""
        if co_fields:
            place = f"{co_fields['co_filename']}:{co_fields['co_firstlineno']}"
            # a name that ends like one in brackets would not be looked up
            origin = f" from {place} in {co_fields['co_name'].strip('<>')}"
        key = f"<eval_with_key>.{next(self.numbers)}{origin}"
        while key in linecache.cache:  # PyTorch, in one process, counts the same way
            key = f"<eval_with_key>.{next(self.numbers)}{origin}"
        self.eval_cache[key] = src
        globals.update(__file__=key, __name__=key, __loader__=self)
        linecache.lazycache(key, globals)
        return key

    def get_source(self, module_name):
        """The code of that name; None where there is none."""
        return self.eval_cache.get(module_name)


_loader = _EvalCacheLoader()


def _method_from_src(name, src, globals, co_fields=None):
    """A function that a text defines."""
    names = dict(globals)
    key = _loader.cache(src, names, co_fields)
    exec(compile(src, key, "exec", dont_inherit=True), names)
    return names.pop(name)


def _forward_from_src(src, globals, co_fields=None):
    return _method_from_src("forward", src, globals, co_fields)


def _import_line(name, thing):
    """The line that gives a file a name that generated code needs.

    Raises:
        RuntimeError: nothing can be imported by that name.
    """
    custom = _names.custom_builtins().get(name)
    if custom is not None:
        return custom.import_str
    if _names.is_from_package(thing):
        return "import torch"
    module, found = getattr(thing, "__module__", None), getattr(thing, "__name__", None)
    if module is None or found is None:
        origin = getattr(thing, "_name", None)  # ``typing``'s own
        if origin is None:
            raise RuntimeError(f"cannot import {thing!r}, which the code calls {name}")
        return f"from typing import {origin} as {name}"
    return f"from {module} import {found} as {name}"


def _format_import_block(globals, importer=None):
    return "\n".join(sorted({_import_line(name, t) for name, t in globals.items()}))


def _in_this_process(lines):
    """Import lines as they must be where ``torch`` is no name of Rushlight's."""
    if naming.package == "torch":
        return lines
    lines = re.sub(r"\bimport torch$", "import rushlight as torch", lines, flags=re.M)
    return re.sub(r"^(from|import) torch\b", r"\1 rushlight", lines, flags=re.M)


def reduce_graph_module(body, import_block):
    """The module that a pickle told of: its code is read and traced again.

    Args:
        body: the module's attributes, its code among them.
        import_block: the lines that give the code its names.
    """
    fn_src = body.get("_code") or body["code"]
    names: dict[str, Any] = {}
    exec(_in_this_process(import_block + "\n"), names)
    names.pop("__builtins__", None)
    forward = _forward_from_src(fn_src, names)
    return _deserialize_graph_module(forward, body)


class _CodeOnlyModule(Module):
    """A module of given attributes, to trace code in."""

    def __init__(self, body):
        super().__init__()
        self.__dict__ = body


def _deserialize_graph_module(forward, body, graph_module_cls=None):
    from rushlight.fx._symbolic_trace import Tracer

    _CodeOnlyModule.forward = forward
    tracer_cls = body.get("_tracer_cls") or Tracer
    extras = body.get("_tracer_extras") or {}

    class KeepModules(tracer_cls):
        # all modules are called, as the code calls them
        def is_leaf_module(self, _, __):
            return True

    root = _CodeOnlyModule(body)
    graph = KeepModules().trace(root, **extras)
    graph._tracer_cls = tracer_cls
    made = (graph_module_cls or GraphModule)(root, graph)
    for key, value in body.items():
        if key not in made.__dict__:
            made.__dict__[key] = value
    return made


def _attr_home(module, target):
    """The module that holds the last item of a path, and that item."""
    *path, name = target.split(".")
    for item in path:
        module = getattr(module, item)
    return module, name


def _copy_attr(from_module, to_module, target):
    """Gives a module what another holds at a path, with the modules on the way."""
    *path, name = target.split(".")
    for item in path:
        inner = getattr(from_module, item)
        if getattr(to_module, item, None) is inner:
            return
        if not hasattr(to_module, item):
            setattr(to_module, item, Module())
        from_module, to_module = inner, getattr(to_module, item)
    value = getattr(from_module, name)
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        to_module.register_buffer(name, value)
    else:
        setattr(to_module, name, value)


def _assign_attr(value, to_module, target):
    """Puts a value at a path, with empty modules on the way where there are none."""
    *path, name = target.split(".")
    for item in path:
        inner = getattr(to_module, item, None)
        if inner is None:
            inner = Module()
            setattr(to_module, item, inner)
        to_module = inner
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        to_module.register_buffer(name, value)
    else:
        setattr(to_module, name, value)


def _get_attr(model, attr_name):
    return getattr(*_attr_home(model, attr_name))


def _del_attr(model, attr_name):
    delattr(*_attr_home(model, attr_name))


def _has_attr(model, attr_name):
    try:
        _get_attr(model, attr_name)
    except AttributeError:
        return False
    return True


def _failed_line(error):
    """The frame of generated code whose own call failed; None where another's did."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if "eval_with_key" in frame.filename:
            return frame
        path = frame.filename.removeprefix(package).removeprefix("rushlight")
        if path == frame.filename or path.startswith(("/nn", "/fx")):
            return None
    return None


class _WrappedCall:
    """Runs a graph's module, and shows the step where an error came from."""

    def __init__(self, cls, cls_call):
        self.cls, self.cls_call = cls, cls_call

    @staticmethod
    def _generate_error_message(frame_summary):
        """The lines of generated code around one, with that marked."""
        number = frame_summary.lineno
        lines = linecache.getlines(frame_summary.filename)
        width = len(frame_summary.line or "")
        before = "".join(lines[max(number - 2, 0) : number])
        after = "".join(lines[number : number + 2])
        return (
            f"Call using an FX-traced Module, line {number} of the traced Module's "
            f"generated forward function:\n{before}\n{'~' * width} <--- HERE\n{after}\n"
        )

    def __call__(self, obj, *args, **kwargs):
        try:
            if self.cls_call is not None:
                return self.cls_call(obj, *args, **kwargs)
            return super(self.cls, obj).__call__(*args, **kwargs)
        except Exception as error:
            if not error.__traceback__:
                raise
            frame = _failed_line(error)
            if frame is None:
                raise
            print("".join(traceback.format_exception(error)), file=sys.stderr)
            print(self._generate_error_message(frame), file=sys.stderr)
            raise error.with_traceback(None)  # noqa: B904


class GraphModule(Module):
    """A module whose ``forward`` is a graph, written as Python.

    What the graph refers to is copied from another module, or from a dict by paths.
    After a change of the graph, ``recompile`` writes and reads the code again.

    Args:
        root: the module, or a dict from paths to what is there.
        graph: the steps.
        class_name: what the module is called in print.

    Raises:
        RuntimeError: ``root`` is neither, or lacks something that the graph refers to.

    >>> from rushlight import fx
    >>> gm = fx.symbolic_trace(lambda x: x + 1)
    >>> [add] = gm.graph.find_nodes(op="call_function", target=__import__("operator").add)
    >>> add.update_arg(1, 10)
    >>> _ = gm.recompile()
    >>> gm(1)
    11
    """

    _graph: Graph
    _code: str
    _lineno_map: dict[int, int | None] | None
    meta: dict[str, Any]

    def __new__(cls, *args, **kwargs):
        # Each instance has a class of its own, as each has a ``forward`` of its own.
        for kind in cls.__mro__:
            if not kind.__qualname__.endswith(".GraphModuleImpl"):
                cls = kind
                break

        class GraphModuleImpl(cls):
            pass

        return super().__new__(GraphModuleImpl)

    def __init__(self, root, graph, class_name="GraphModule"):
        super().__init__()
        self.__class__.__name__ = class_name
        if isinstance(root, Module):
            if hasattr(root, "training"):
                self.training = root.training
            targets = [
                n.target for n in graph.nodes if n.op in ("get_attr", "call_module")
            ]
            if isinstance(root, _CodeOnlyModule):  # a copy has what no step reads, too
                own = root._modules | root._buffers | root._parameters
                targets = [key for key, v in own.items() if v is not None] + targets
            for target in targets:
                _copy_attr(root, self, target)
        elif isinstance(root, dict):
            self._copy_from_dict(root, graph)
        else:
            raise RuntimeError(f"Unsupported type {root} passed for root!")
        self._replace_hooks: list[Any] = []
        self._create_node_hooks: list[Any] = []
        self._erase_node_hooks: list[Any] = []
        self._deepcopy_hooks: list[Any] = []
        self.shape_env = None
        self.graph = graph
        self._tracer_cls = None
        if graph._tracer_cls and "<locals>" not in graph._tracer_cls.__qualname__:
            self._tracer_cls = graph._tracer_cls
        self._tracer_extras = graph._tracer_extras or {}
        self.meta = {}

    def _copy_from_dict(self, root, graph):
        targets = []
        for node in graph.nodes:
            if node.op in ("get_attr", "call_module"):
                if node.target not in root:
                    raise RuntimeError(
                        f"Node {node} referenced target {node.target} but that target "
                        "was not provided in ``root``!"
                    )
                targets.append(node.target)
        # What holds others comes before them.
        for target in sorted(targets, key=lambda path: path.count(".")):
            _assign_attr(root[target], self, target)

    @property
    def graph(self):
        """The steps; a new graph in its place is written as code at once."""
        return self._graph

    @graph.setter
    def graph(self, g):
        if not isinstance(g, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(g)}")
        self._graph = g
        g.owning_module = self
        self.recompile()

    @property
    def code(self):
        """The Python that runs, as it was last written."""
        if not hasattr(self, "_code"):
            raise RuntimeError(
                "Code has not been generated! Please report a bug to PyTorch: recompile "
                "writes it"
            )
        return self._code

    def recompile(self):
        """Writes the graph as Python and takes that for ``forward``.

        Raises:
            SyntaxError: the graph makes no program; the code and the step are told.
        """
        codegen = self._graph._codegen
        if isinstance(codegen, _PyTreeCodeGen):
            self._in_spec = codegen.pytree_info.in_spec
            self._out_spec = codegen.pytree_info.out_spec
        written = self._graph.python_code(root_module="self")
        self._code = written.src
        self._lineno_map = written._lineno_map
        self._prologue_start = written._prologue_start
        cls = type(self)
        fields = getattr(self._graph, "_co_fields", {})
        try:
            cls.forward = _forward_from_src(self._code, written.globals, fields)
        except SyntaxError as error:
            raise _named_fault(error, self._graph, written) from error
        cls_call = cls.__call__ if "__call__" in vars(cls) else None
        if "_wrapped_call" not in vars(cls):
            cls._wrapped_call = _WrappedCall(cls, cls_call)

        def call_wrapped(self, *args, **kwargs):
            return self._wrapped_call(self, *args, **kwargs)

        cls.__call__ = call_wrapped
        return written

    def _recompile_submodules(self):
        results = []
        for module in self.modules():
            if isinstance(module, GraphModule):
                results.append(module.recompile())
        return results

    def add_submodule(self, target, m):
        """Puts a module at a path, with empty modules on the way.

        Args:
            target: the path.
            m: the module.

        Returns:
            Whether it was put there: False where the path leads through no module.
        """
        *path, name = target.split(".")
        home: Any = self
        for item in path:
            inner = getattr(home, item, None)
            if inner is None:
                inner = Module()
                setattr(home, item, inner)
            if not isinstance(inner, Module):
                return False
            home = inner
        home.add_module(name, m)
        return True

    def delete_submodule(self, target):
        """Takes the module at a path away.

        Returns:
            Whether there was one.
        """
        *path, name = target.split(".")
        home: Any = self
        for item in path:
            home = getattr(home, item, None)
            if not isinstance(home, Module):
                return False
        if not isinstance(getattr(home, name, None), Module):
            return False
        delattr(home, name)
        return True

    def delete_all_unused_submodules(self):
        """Takes away the modules that no step calls or reads from."""
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op not in ("call_module", "get_attr"):
                continue
            items = node.target.split(".")
            used.update(".".join(items[:end]) for end in range(1, len(items) + 1))
            if node.op == "call_module":
                # what a called module holds is used by it
                with contextlib.suppress(AttributeError):
                    inner = self.get_submodule(node.target)
                    used.update(
                        f"{node.target}.{name}" for name, _ in inner.named_modules()
                    )
        for name in [name for name, _ in self.named_modules() if name]:
            if name not in used:
                self.delete_submodule(name)

    def to_folder(self, folder, module_name="FxModule"):
        """Writes the module as a package of Python and of files with its tensors.

        Args:
            folder: where; it is made.
            module_name: the name of the class.
        """
        from rushlight import save

        folder = Path(folder)
        folder.mkdir(exist_ok=True)
        save(self.state_dict(), folder / "state_dict.pt")
        tab = " " * 4
        lines, unwritten = [], []
        for name, module in self.named_children():
            text = _constructor_text(module)
            if text is None:
                unwritten.append(name)
                save(module, folder / f"{name}.pt")
                shown = " ".join(repr(module).split("\n"))
                text = f"torch.load(r'{folder / f'{name}.pt'}', weights_only=False) # {shown}"
            lines.append(f"setattr(self, {name!r}, {text})")
        for name, buffer in self._buffers.items():
            if buffer is not None:
                kept = name not in self._non_persistent_buffers_set
                lines.append(
                    f"self.register_buffer({name!r}, {_empty_text(buffer)}"
                    f"{'' if kept else ', persistent=False'})"
                )
        for name, parameter in self._parameters.items():
            if parameter is not None:
                lines.append(
                    f"setattr(self, {name!r}, torch.nn.Parameter({_empty_text(parameter)}))"
                )
        lines.append(f"self.load_state_dict(torch.load(r'{folder / 'state_dict.pt'}'))")
        written = self._graph.python_code(root_module="self")
        imports = _format_import_block(written.globals) + "\n"
        # before the launcher has made ``torch`` a name, the file must ask for it
        head = "import torch\n" + "from torch.nn import *\n"
        text = _in_this_process(f"{imports}{head}")
        text += f"\nclass {module_name}(torch.nn.Module):\n"
        text += f"{tab}def __init__(self):\n{tab * 2}super().__init__()\n"
        text += "".join(f"{tab * 2}{line}\n" for line in lines)
        text += _addindent(written.src, 4) + "\n"
        (folder / "module.py").write_text(text)
        (folder / "__init__.py").write_text("from .module import *\n")
        if unwritten:
            warnings.warn(
                "Was not able to save the following children modules as reprs -saved as "
                f"pickled files instead: {unwritten}",
                stacklevel=2,
            )

    def print_readable(
        self, print_output=True, include_stride=False, include_device=False,
        colored=False, *, fast_sympy_print=False, expanded_def=False,
        additional_meta=None,
    ):  # fmt: skip
        """Prints the module as a class, with the places that its steps come from.

        Args:
            print_output: whether it is printed; it is returned in any case.
            include_stride: whether noted strides are shown; ``include_device`` too.
            colored: whether comments are dimmed.
            fast_sympy_print: for PyTorch's sake.
            expanded_def: whether each argument has a line of its own.
            additional_meta: names of further notes to show.
        """
        written = self._graph.python_code(
            "self",
            verbose=True,
            include_stride=include_stride,
            include_device=include_device,
            colored=colored,
            expanded_def=expanded_def,
            additional_meta=additional_meta,
        )
        code = written.src.lstrip("\n").rstrip(" ")
        body = "\n".join(
            f"    {line}" if line else line for line in code.rstrip("\n").split("\n")
        )
        text = f"class {self._get_name()}(torch.nn.Module):\n{body}\n"
        for name, module in self.named_children():
            if isinstance(module, GraphModule):
                inner = module.print_readable(
                    print_output=False,
                    include_stride=include_stride,
                    include_device=include_device,
                    colored=colored,
                )
                inner = inner.replace(
                    f"class {module._get_name()}(", f"class {name}(", 1
                )
                shifted = "\n".join(
                    f"    {line}" if line else line
                    for line in inner.rstrip("\n").split("\n")
                )
                text += f"\n{shifted}\n"
        if print_output:
            print(text)
        return text

    def __str__(self):
        text = super().__str__()
        note = "# To see more debug info, please use `graph_module.print_readable()`"
        return f"{text}\n{self._code}\n{note}"

    def __reduce__(self):
        body = self.__dict__.copy()
        written = self._graph.python_code(root_module="self")
        imports = _format_import_block(written.globals)
        del body["_graph"]
        if body.get("_tracer_cls") is None:
            body.pop("_tracer_cls", None)
        return reduce_graph_module, (body, imports)

    def _deepcopy_init(self):
        return GraphModule.__init__

    def __deepcopy__(self, memo):
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        root = _CodeOnlyModule(copy.deepcopy(self.__dict__, memo))
        type(self)._deepcopy_init(self)(made, root, root.__dict__["_graph"])
        for name in (
            "_state_dict_hooks", "_load_state_dict_pre_hooks",
            "_load_state_dict_post_hooks", "_replace_hooks", "_create_node_hooks",
            "_erase_node_hooks", "_deepcopy_hooks",
        ):  # fmt: skip
            if name in self.__dict__:
                made.__dict__[name] = root.__dict__[name]
        made.meta = root.__dict__["meta"]
        for name, value in made.meta.get(_USER_PRESERVED_ATTRIBUTES_KEY, {}).items():
            setattr(made, name, value)
        for hook in self._deepcopy_hooks:
            hook(made)
        return made

    def __copy__(self):
        made = GraphModule(self, self.graph)
        made.meta = self.meta
        return made

    def _register(self, hooks, f):
        if not callable(f):
            raise AssertionError("the hook must be a callable.")
        hooks.append(f)

    def _register_replace_node_hook(self, f):
        self._register(self._replace_hooks, f)

    def _unregister_replace_node_hook(self, f):
        self._replace_hooks.remove(f)

    def _register_create_node_hook(self, f):
        self._register(self._create_node_hooks, f)

    def _unregister_create_node_hook(self, f):
        self._create_node_hooks.remove(f)

    def _register_erase_node_hook(self, f):
        self._register(self._erase_node_hooks, f)

    def _unregister_erase_node_hook(self, f):
        self._erase_node_hooks.remove(f)

    def _register_deepcopy_hook(self, f):
        self._register(self._deepcopy_hooks, f)

    def _unregister_deepcopy_hook(self, f):
        self._deepcopy_hooks.remove(f)

    @contextlib.contextmanager
    def _set_replace_hook(self, f):
        self._register_replace_node_hook(f)
        try:
            yield
        finally:
            self._unregister_replace_node_hook(f)


def _named_fault(error, graph, written):
    """A SyntaxError of generated code that names the step it comes from."""
    line = (error.lineno or 0) - written._prologue_start
    number = written._lineno_map.get(line)
    nodes = list(graph.nodes)
    location = ""
    if number is not None and 0 <= number < len(nodes):
        location = f"\n  at {nodes[number].format_node()}"
    elif line <= 0:
        arguments = [node.name for node in nodes if node.op == "placeholder"]
        location = f"\n  in the line of the arguments, {', '.join(arguments)}"
    made = type(error)(f"{error.msg}{location}\n{written.src}")
    made.filename, made.lineno, made.text = error.filename, error.lineno, error.text
    return made


_WRITTEN_AS_REPR = (
    "Linear", "Conv1d", "Conv2d", "Conv3d", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d",
)  # fmt: skip


def _constructor_text(module):
    """A call that makes a module like this one; None where its text is not that."""
    home = _names.in_package(type(module).__module__)
    ours = home.startswith("torch.nn.modules.")
    return repr(module) if ours and type(module).__name__ in _WRITTEN_AS_REPR else None


def _empty_text(tensor):
    kind = _names.in_package(str(tensor.dtype))
    return f"torch.empty({list(tensor.shape)}, dtype={kind})"
