"""Programs recorded with their compositions whole: what `export` writes down.

A tracer is asked before autograd, and before a composition is taken apart, so that the
record has the operators that the program has called; it can be differentiated.
"""

import contextlib
import linecache
import os
import sys

from rushlight._subclasses.fake_tensor import FakeTensor
from rushlight.core.state import is_grad_enabled, set_grad_enabled
from rushlight.core.tensor import Tensor
from rushlight.dispatch import named_overload, python_key
from rushlight.fx.experimental.as_called import decomposition_of, without_elements
from rushlight.fx.experimental.proxy_tensor import ProxyTorchDispatchMode
from rushlight.fx.graph import Graph
from rushlight.fx.passes.shape_prop import _extract_tensor_metadata
from rushlight.nn.modules.module import Module
from rushlight.operators import call
from rushlight.utils._pytree import tree_leaves

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_MODULES = os.path.join(_PACKAGE, "nn", "modules")
_FOREVER = 9223372036854775807
# Questions that have an answer without running anything.
_SILENT = frozenset(("sym_size", "sym_stride", "sym_numel", "sym_storage_offset"))


def user_frames(start=None):
    """The places where the program is now, outermost first: its own and its modules'."""
    frame = start or sys._getframe(1)
    found: list = []
    while frame is not None:
        code = frame.f_code
        if code.co_name == "_recorded" and code.co_filename.startswith(_PACKAGE):
            break
        name = code.co_filename
        if not name.startswith(_PACKAGE) or (
            name.startswith(_MODULES)
            and not code.co_name.startswith("_")
            and not os.path.basename(name).startswith("_")
        ):
            found.append((name, frame.f_lineno, code.co_name))
        frame = frame.f_back
    return found[::-1]


def user_stack(frames):
    """Places as a traceback shows them."""
    rows = []
    for name, line, function in frames:
        try:
            text = linecache.getline(name, line).strip()
        except IndexError:  # a source that changes while it runs, as examples do
            text = ""
        rows.append(f'  File "{name}", line {line}, in {function}')
        if text:
            rows.append(f"    {text}")
    return "\n".join(rows) + "\n" if rows else ""


def _is_default(value, row):
    """Whether an argument is what it would be if it were left out."""
    default = row[2]
    if default is ...:
        return False
    if isinstance(value, (list, tuple)):
        if isinstance(default, (list, tuple)):
            return list(value) == list(default)
        if type(default) is int and row[4]:
            return all(type(one) is int and one == default for one in value)
        return False
    return (
        type(value) is type(default)
        and not isinstance(value, Tensor)
        and (value == default)
    )


def written_arguments(op, args, kwargs):
    """A call's arguments as PyTorch writes them: defaults at the end are left out."""
    rows = op.signature.rows
    args = list(args)
    while args and _is_default(args[-1], rows[len(args) - 1]):
        args.pop()
    if op._opname == "slice" and len(args) > 2:  # as indexing has it
        args = [*args, None][: max(len(args), 4)]
        args[2] = 0 if args[2] is None else args[2]
        args[3] = _FOREVER if args[3] is None else args[3]
    args = [list(one) if type(one) is tuple else one for one in args]
    kept = {
        row[0]: kwargs[row[0]]
        for row in rows
        if row[0] in kwargs and not _is_default(kwargs[row[0]], row)
    }
    return args, kept


def placeholder(graph, name):
    """An argument of a graph, by a name that may also be one of Python's functions.

    Args:
        graph: the graph.
        name: the name; others have a number after it where it is taken.
    """
    node = graph.placeholder(name)
    if node.name != name and all(one.name != name for one in graph.nodes):
        node.name = node.target = name
    return node


def _on_level(value):
    """Whether a value is a tensor of `vmap`, `grad` or another transform."""
    return isinstance(value, Tensor) and value._stand is not None


class PreDispatchTracer(ProxyTorchDispatchMode):
    """Writes the operators that a program calls into a graph, compositions whole.

    Args:
        graph: what is written.
        root: the module that gets the tensors which the program finds elsewhere.
        fake: the mode of the fake tensors that the program runs on.
        parent: the tracer of the program around this one, which has its outer tensors.
    """

    def __init__(self, graph, root, fake, parent=None):
        super().__init__(graph, root, "fake", parent=parent)
        self.fake = fake
        self.shape_env = fake.shape_env
        self.names: dict = {}  # id of a constant -> the path that it has in the module
        self.originals: dict = {}  # id of a fake constant -> the real one
        self.module_calls: dict = {}  # path -> number of its last call
        self.stack: list = []  # the modules that are being called: (path, type)
        self.grad_mode = self.progress = None
        if parent is not None:
            self.names, self.stack = parent.names, parent.stack
            self.module_calls = parent.module_calls
            self.originals = parent.originals

    # -- operators ---------------------------------------------------------------------

    def __call__(self, op, args, kwargs):
        """Records an operator and runs it, on fake tensors."""
        if self.elements is None:
            return self._recorded_call(op, args, kwargs)
        with self.elements.asked_by(False):
            return self._recorded_call(op, args, kwargs)

    def _recorded_call(self, op, args, kwargs):
        if op._opname in _SILENT:
            return op(*args, **kwargs)
        if op._opname in ("lift_fresh", "lift_fresh_copy"):
            return self._lift(op, args)
        if any(_on_level(one) for one in tree_leaves((args, kwargs))):
            return self.run(op, args, kwargs)  # the transform calls what is recorded
        decomposition = decomposition_of(op)
        if decomposition is not None:
            result = None
            with python_key.traced_again():
                result = decomposition(*args, **kwargs)
            if result is not NotImplemented:
                return result
        casts = python_key.casts()
        if casts is not None:
            with python_key.traced_again():
                result = casts(op, args, kwargs)
            if result is not NotImplemented:
                return result
        given, kept = written_arguments(op, args, kwargs)
        self.note_grad_mode()
        shown = named_overload.written_as(op, given)
        given = list(named_overload.written_arguments(shown, given))
        node = self.create(shown, *self.nodes_of((given, kept)), op._opname)
        result = self.run(op, args, kwargs)
        if isinstance(result, Tensor) or isinstance(result, (list, tuple)):
            self._track_all(result, node)
        else:
            node.meta["val"] = result
        self.bind(node, result)
        return result

    def run(self, op, args, kwargs):
        """What an operator gives of fake tensors."""
        return without_elements(op)(*args, **kwargs)

    def create(self, target, args, kwargs=None, name=None):
        """One more step, with notes of where the program is."""
        if self.progress is not None:
            self.progress.add(1)
        node = self.graph.create_node(
            "call_function", target, tuple(args), kwargs or {}, name=name
        )
        frames = user_frames(sys._getframe(1))
        if frames:
            node.meta["stack_trace"] = user_stack(frames)
        if self.stack:
            node.meta["nn_module_stack"] = {key: value for key, value in self.stack}
        node.meta["torch_fn"] = (f"{name}_1", f"OpOverload.{target}")
        return node

    def track(self, tensor, node):
        super().track(tensor, node)
        if isinstance(tensor, FakeTensor):
            node.meta["tensor_meta"] = _extract_tensor_metadata(tensor)

    def _track_all(self, result, node):
        if not isinstance(result, Tensor):
            node.meta["val"] = result
        super()._track_all(result, node)

    def _lift(self, op, args):
        """Numbers that the program has written down are a constant of the module."""
        tensor = args[0]
        if self.find(tensor) is not None:
            return op(tensor)
        node = self._constant(tensor)
        lifted = self.create(
            call.lift_fresh_copy.overloads[0], (node,), name="lift_fresh_copy"
        )
        fake = op(tensor)
        node.meta["val"] = fake
        self._keep(fake, lifted)
        return fake

    def _keep(self, tensor, node):
        self._nodes[id(tensor)] = tensor, node
        node.meta["val"] = tensor
        node.meta["tensor_meta"] = _extract_tensor_metadata(tensor)

    def note_grad_mode(self):
        """A step where the program has switched gradients on or off."""
        now = is_grad_enabled()
        if self.grad_mode is not None and now != self.grad_mode:
            self.graph.create_node("call_function", set_grad_enabled, (now,))
        self.grad_mode = now

    def record_function(self, function, operands):
        """The program of a function that is an argument, with its own checks."""
        with self.elements.asked_by(True):
            child, result = super().record_function(function, operands)
        child.write_checks()
        return child, result

    # -- tensors from elsewhere --------------------------------------------------------

    def _constant(self, tensor):
        """A tensor that is no argument: from the program around, or the module's own."""
        if self.parent is not None:
            return super()._constant(tensor)
        tensor = self.originals.get(id(tensor), tensor)
        known = self._constants.get(id(tensor))
        if known is None:
            if isinstance(tensor, FakeTensor):
                raise RuntimeError(
                    "a tensor of the recording reaches the program by a way that is "
                    "not recorded: an attribute set by an earlier call, or a list that "
                    "outlives the program\n"
                    f"{user_stack(user_frames())}"
                    "  remedy: pass it as an argument, or register it as a buffer"
                )
            name = self.names.get(id(tensor))
            if name is None:
                taken = {one for _, one, _ in self._constants.values()}
                number = 0
                while f"lifted_tensor_{number}" in taken:
                    number += 1
                name = f"lifted_tensor_{number}"
            node = self.constant_placeholder(name)
            node.meta["val"] = self.fake.from_tensor(tensor)
            self._constants[id(tensor)] = known = tensor, name, node
        return known[2]

    def constant_placeholder(self, name):
        """The argument that passes a constant; before all steps."""
        with self.graph.inserting_before(self.first_step()):
            return placeholder(self.graph, f"c_{name.replace('.', '_')}")

    def child(self):
        made = PreDispatchTracer(Graph(), Module(), self.fake, self)
        made.grad_mode = self.grad_mode
        return made

    @contextlib.contextmanager
    def running(self):
        python_key.push_tracer(self)
        try:
            yield
        finally:
            python_key.pop_tracer()

    @contextlib.contextmanager
    def module_call(self, path, module):
        """A block that is the call of a module: its steps say so."""
        kind = type(module)
        whole = f"{kind.__module__}.{kind.__qualname__}"
        count = self.module_calls[path] = self.module_calls.get(path, -1) + 1
        key = f"L__self__{path}" + (f"@{count}" if count else "")
        depth = len(self.stack)
        try:
            self.stack.append((key, (path, whole)))
            yield
        finally:
            del self.stack[depth:]
