"""Recording a module for export: what `export` does."""

import functools
import inspect
import warnings

from rushlight._dynamo.exc import UserError, UserErrorType
from rushlight._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from rushlight.core import naming
from rushlight.core.progress import Progress
from rushlight.core.tensor import Tensor
from rushlight.dispatch import python_key
from rushlight.export._grad_mode import wrap_grad_mode
from rushlight.export._results import argument_of
from rushlight.export._sizes import OpenSizes
from rushlight.export.dynamic_shapes import (
    AdditionalInputs,
    ShapesCollection,
    argument_paths,
    combined_args,
    wanted_sizes,
)
from rushlight.export.exported_program import (
    ExportedProgram,
    ModuleCallEntry,
    ModuleCallSignature,
)
from rushlight.export.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymIntArgument,
    TensorArgument,
)
from rushlight.fx.experimental.pre_dispatch import (
    PreDispatchTracer,
    placeholder,
    user_frames,
    user_stack,
)
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.graph.export_state import exporting
from rushlight.ir.symbolic import GuardError, SymInt
from rushlight.ir.truths import SymBool
from rushlight.ir.unbacked import (
    GuardOnDataDependentSymNode,
    MustBeEqual,
    SymFloat,
)
from rushlight.nn.modules.module import (
    Module,
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from rushlight.operators import call
from rushlight.utils._pytree import tree_flatten, tree_flatten_with_path, tree_unflatten

_NUMBERS = (SymInt, SymFloat, SymBool)
_CONSTANTS = (int, float, bool, str, type(None), complex)


def export(
    mod,
    args,
    kwargs=None,
    *,
    dynamic_shapes=None,
    strict=False,
    preserve_module_call_signature=(),
    prefer_deferred_runtime_asserts_over_guards=False,
):
    """A module as a program that stands by itself: a graph of operators and its state.

    The module runs once, on tensors without elements; what it does with sizes, numbers
    and Python's own objects becomes part of the program. Control flow that depends on
    elements is written with `cond`, `while_loop`, `scan` or `map`.

    Args:
        mod: the module.
        args: example arguments, a tuple; ``kwargs`` too.
        dynamic_shapes: which sizes stay open: for each argument None, or for a tensor a
            dict from dimensions to `Dim`, or a tuple; for a container a like one. It is
            a dict by the names of arguments, a tuple, or a `ShapesCollection`.
        strict: kept for PyTorch's programs; the module runs as Python in any case.
        preserve_module_call_signature: paths of modules inside, whose arguments and
            results are noted for `unflatten`.
        prefer_deferred_runtime_asserts_over_guards: kept for PyTorch's programs.

    Raises:
        UserError: the arguments, or what is said of their sizes, cannot be.
        GuardOnDataDependentSymNode: the module asks for elements of a tensor.
        ValueError: ``mod`` is no module.

    >>> import rushlight as rl
    >>> class Double(rl.nn.Module):
    ...     def forward(self, x):
    ...         return {"out": x * 2}
    >>> shapes = ({0: rl.export.Dim("n")},)
    >>> program = export(Double(), (rl.ones(3),), dynamic_shapes=shapes)
    >>> program.module()(rl.ones(2))
    {'out': tensor([2., 2.])}
    """
    noted = preserve_module_call_signature
    return recorded(Recording, mod, args, kwargs, dynamic_shapes, noted)[0]


def recorded(kind, mod, args, kwargs, dynamic_shapes, noted):
    """A module's program, and the `OpenSizes` of its recording.

    Args:
        kind: `Recording`, or a class like it.
        noted: paths of modules whose arguments and results are noted.
        mod, args, kwargs, dynamic_shapes: as `export` has them.
    """
    if not isinstance(mod, Module):
        raise ValueError(
            f"Expected `mod` to be an instance of `torch.nn.Module`, got {type(mod)}."
        )
    if not isinstance(args, tuple):
        raise UserError(
            UserErrorType.INVALID_INPUT,
            "Expecting `args` to be a tuple of example positional inputs, got "
            f"{type(args)}",
        )
    kwargs = dict(kwargs or {})
    if isinstance(dynamic_shapes, (ShapesCollection, AdditionalInputs)):
        dynamic_shapes = dynamic_shapes.dynamic_shapes(mod, args, kwargs)
    wanted = wanted_sizes(combined_args(mod, args, kwargs), dynamic_shapes)
    for one in tree_flatten((args, kwargs))[0]:
        if not isinstance(one, (Tensor, *_CONSTANTS)) and not _is_plain(one):
            raise ValueError(
                f"Unsupported input type {type(one)}. Export only supports pytree "
                "containers of basic types (Tensor, int, float, ...) as input. To "
                "register a custom dataclass, use torch.export.register_dataclass. To "
                "register a custom container type, use "
                "torch.utils._pytree.register_pytree_node."
            )
    sizes = OpenSizes(wanted)
    while True:
        recording = kind(mod, args, kwargs, sizes.start())
        try:
            program = recording.program(noted)
        except MustBeEqual as error:
            sizes.equal[error.index] = error.expr
            continue
        except GuardError as error:
            if not sizes.give_way(error):
                raise sizes.refusal(error) from error
            continue
        if sizes.holds():
            sizes.finish(program)
            return program, sizes


def _is_plain(value):
    return naming.is_own(type(value).__module__)


def _argument_names(mod, args, kwargs):
    """A name for each argument of a call."""
    names = []
    try:
        parameters = list(inspect.signature(mod.forward).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    plain = [
        one.name
        for one in parameters
        if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]
    rest = next(
        (one.name for one in parameters if one.kind is one.VAR_POSITIONAL), "arg"
    )
    for at in range(len(args)):
        over = at - len(plain)
        names.append(plain[at] if over < 0 else f"{rest}_{over}")
    return names + list(kwargs)


class Recording:
    """One run of a module that is written down.

    Args:
        mod: the module.
        args: its arguments; ``kwargs`` too.
        sizes: which sizes of them stay open: an `OpenSizes` that has begun.
    """

    tracer_type = PreDispatchTracer

    def __init__(self, mod, args, kwargs, sizes):
        self.mod, self.args, self.kwargs, self.sizes = mod, args, kwargs, sizes
        self.fake = FakeTensorMode(
            allow_non_fake_inputs=True, shape_env=sizes.env, static_shapes=True
        )
        self.graph = Graph()
        self.tracer = self.tracer_type(self.graph, Module(), self.fake)
        self.inputs: list = []  # InputSpec of the state
        self.users: list = []
        self.state: dict = {}
        self.kept: dict = {}  # constants by path
        self.calls: dict = {}  # path -> (args, kwargs, result) of modules to be noted

    # -- before ------------------------------------------------------------------------

    def _placeholder(self, name, tensor, fake):
        node = placeholder(self.graph, name)
        node.meta["val"] = fake
        if isinstance(fake, Tensor):
            self.tracer.track(fake, node)
            self.tracer._nodes[id(tensor)] = tensor, node
        return node

    def _lift_state(self):
        """Parameters and buffers become arguments, and fake tensors in the module."""
        made: dict = {}
        self.swapped: list = []
        hidden = {
            f"{path}.{name}" if path else name
            for path, module in self.mod.named_modules(remove_duplicate=False)
            for name in module._non_persistent_buffers_set
        }
        for path, module in self.mod.named_modules():
            for own, tensor in vars(module).items():
                if isinstance(tensor, Tensor):
                    whole = f"{path}.{own}" if path else own
                    self.tracer.names.setdefault(id(tensor), whole)
                    self._fake_attribute(vars(module), own, tensor)
        groups = (
            (InputKind.PARAMETER, "p_", "_parameters"),
            (InputKind.BUFFER, "b_", "_buffers"),
        )
        for kind, prefix, place in groups:
            for path, module in self.mod.named_modules(remove_duplicate=False):
                home = getattr(module, place)
                for own, tensor in list(home.items()):
                    if tensor is None:
                        continue
                    name = f"{path}.{own}" if path else own
                    original = self._original(tensor)
                    fake = made.get(id(original))
                    if fake is None:
                        made[id(original)] = fake = self.fake.from_tensor(original)
                    node = self._placeholder(
                        _identifier(prefix + name.removeprefix("self_")), original, fake
                    )
                    persistent = (
                        None if kind is InputKind.PARAMETER else name not in hidden
                    )
                    spec = InputSpec(kind, TensorArgument(node.name), name, persistent)
                    self.inputs.append(spec)
                    if persistent is False:
                        self.kept[name] = original
                    else:
                        self.state[name] = original
                    if tensor is original:
                        self.swapped.append((home, own, original, fake, node))
                        home[own] = fake

    def _fake_attribute(self, home, own, tensor):
        """A tensor that is neither parameter nor buffer is fake during the recording."""
        if isinstance(tensor, FakeTensor):
            return
        home[own] = fake = self.fake.from_tensor(tensor)
        self.tracer.originals[id(fake)] = tensor
        self.attributes.append((home, own, tensor, fake))

    def _original(self, tensor):
        """The tensor of a module that is met once more, by its second path."""
        for _, _, original, fake, _ in self.swapped:
            if tensor is fake:
                return original
        return tensor

    def _restore_state(self):
        for home, own, original, _, _ in self.swapped:
            home[own] = original
        for home, own, tensor, fake in self.attributes:
            if home.get(own) is fake:
                home[own] = tensor

    def _written_buffers(self):
        """Buffers that the module has set anew get the new values at the end."""
        for home, own, _, fake, node in self.swapped:
            now = home.get(own)
            if now is not fake and isinstance(now, Tensor):
                made = self.graph.create_node(
                    "call_function",
                    call.copy_.overloads[0],
                    (node, self.tracer.node_of(now)),
                    name="copy__default",
                )
                made.meta["val"] = fake

    def _arguments(self):
        """Fake arguments, nested as the real ones, and their placeholders."""
        names = _argument_names(self.mod, self.args, self.kwargs)
        leaves, self.in_spec = tree_flatten_with_path((self.args, self.kwargs))
        self.names = names
        paths = argument_paths(self.mod, self.args, self.kwargs)
        made = []
        for path, value in leaves:
            part, key, *rest = path
            top = names[key.idx] if part.idx == 0 else key.key
            name = "_".join([top, *(_step_name(one) for one in rest)])
            node = placeholder(self.graph, _identifier(name))
            whole = (*_argument_path(paths, part, key), *rest)
            if isinstance(value, Tensor):
                fake = self.sizes.fake_of(self.fake, value, whole)
                node.meta["val"] = fake
                self.tracer.track(fake, node)
                argument = TensorArgument(node.name)
                made.append(fake)
            else:
                value = self.sizes.number_of(value, whole)
                node.meta["val"] = value
                argument = ConstantArgument(node.name, _plain(value))
                if isinstance(value, SymInt):
                    argument = SymIntArgument(node.name)
                    self.tracer._sizes.setdefault(value.expr, node)
                made.append(value)
            self.users.append((InputSpec(InputKind.USER_INPUT, argument, None), node))
        return tree_unflatten(made, self.in_spec)

    # -- the run -----------------------------------------------------------------------

    def _recorded(self, args, kwargs):
        """Runs the module; the name tells where the program's own frames begin."""
        with exporting(), self.sizes.env.elements.asked_by(True):
            return self.mod(*args, **kwargs)

    def _run(self, args, kwargs, noted):
        paths = {id(module): path for path, module in self.mod.named_modules()}
        blocks = []

        def before(module, given):
            path = paths.get(id(module))
            block = self.tracer.module_call(path or "", module)
            block.__enter__()
            blocks.append(block)

        def after(module, given, result):
            blocks.pop().__exit__(None, None, None)

        hooks = [
            register_module_forward_pre_hook(before),
            register_module_forward_hook(after, always_call=True),
        ]
        for path, module in self.mod.named_modules():
            if path in noted:
                note = functools.partial(self._note_call, path)
                hooks.append(module.register_forward_hook(note, with_kwargs=True))
        python_key.push_tracer(self.tracer)
        try:
            with self.fake:
                self.tracer.note_grad_mode()
                return self._recorded(args, kwargs)
        finally:
            python_key.pop_tracer()
            for hook in hooks:
                hook.remove()

    def _note_call(self, path, _module, args, kwargs, result):
        """Keeps what a module was given and gave; further calls are numbered."""
        count = sum(one.partition("@")[0] == path for one in self.calls)
        self.calls[f"{path}@{count}" if count else path] = args, kwargs, result

    def program(self, noted=()):
        """The program of one run.

        Args:
            noted: paths of modules whose arguments and results are noted.
        """
        before = [(module, dict(vars(module))) for module in self.mod.modules()]
        self.swapped = []
        self.attributes: list = []
        try:
            self._lift_state()
            args, kwargs = self._arguments()
            self.sizes.name_sizes(self.tracer)
            self.tracer.progress = Progress("export", unit="steps", after=1.0)
            try:
                result = self._run(args, kwargs, noted)
            except (DataDependentOutputException, DynamicOutputShapeException) as error:
                raise _data_dependent(error) from error
            except GuardOnDataDependentSymNode as error:
                raise _not_known(error) from error
            except GuardError as error:
                error.frames = _frames_of(error)
                raise
            self._written_buffers()
            return self._finished(result)
        finally:
            if self.tracer.progress is not None:
                self.tracer.progress.erase()
            self._restore_state()
            _restore_attributes(before)

    # -- after -------------------------------------------------------------------------

    def _finished(self, result):
        leaves, out_spec = tree_flatten(result)
        outputs = []
        for one in leaves:
            if not isinstance(one, (Tensor, *_NUMBERS, *_CONSTANTS)):
                raise UserError(
                    UserErrorType.INVALID_OUTPUT,
                    f"It looks like one of the outputs with type `{type(one)}` is not "
                    "supported or pytree-flattenable. \nExported graphs outputs can only "
                    "contain the following types: tensors, int, float, bool, str, "
                    "complex, None and containers of these",
                )
            outputs.append(self.tracer.node_of(one))
        self.graph.output(tuple(outputs))
        self.tracer.write_checks()
        _drop_unused(self.graph)
        inputs = [*self.inputs, *self._constants(), *(spec for spec, _ in self.users)]
        self._order([one.arg.name for one in inputs])
        module = GraphModule(self.tracer.root, self.graph)
        wrap_grad_mode(module)
        specs = [
            OutputSpec(OutputKind.USER_OUTPUT, argument_of(one), None)
            for one in self.graph.output_node().args[0]
        ]
        return ExportedProgram(
            module,
            self.graph,
            ExportGraphSignature(inputs, specs),
            self.state,
            {},
            self._module_calls(out_spec),
            (self.args, self.kwargs),
            self.kept,
        )

    def _constants(self):
        """The tensors that the program's steps read from nowhere else."""
        found = []
        for tensor, name, node in self.tracer._constants.values():
            if not node.users:
                self.graph.erase_node(node)
                continue
            self.kept[name] = tensor
            argument = TensorArgument(node.name)
            found.append(InputSpec(InputKind.CONSTANT_TENSOR, argument, name))
        return found

    def _order(self, names):
        """Puts the placeholders into the order of the signature."""
        nodes = {one.name: one for one in self.graph.nodes if one.op == "placeholder"}
        first = self.tracer.first_step()
        for name in names:
            first.prepend(nodes[name])

    def _module_calls(self, out_spec):
        top = ModuleCallSignature([], [], self.in_spec, out_spec, self.names)
        entries = [ModuleCallEntry("", top)]
        for path, _ in self.mod.named_modules(remove_duplicate=False):
            if not path:
                continue
            noted = self.calls.get(path)
            entries.append(ModuleCallEntry(path, noted and self._noted(*noted)))
        for path, noted in self.calls.items():
            if "@" in path:
                entries.append(ModuleCallEntry(path, self._noted(*noted)))
        return entries

    def _noted(self, args, kwargs, result):
        """What a module inside of the program took and gave."""
        given, in_spec = tree_flatten((tuple(args), dict(kwargs)))
        made, out_spec = tree_flatten(result)

        def shown(one):
            if isinstance(one, Tensor):
                return TensorArgument(self.tracer.node_of(one).name)
            return ConstantArgument("", one)

        return ModuleCallSignature(
            [shown(one) for one in given],
            [shown(one) for one in made],
            in_spec,
            out_spec,
        )


def _drop_unused(graph):
    """Takes out what the recording has asked for by itself: sizes, views, constants."""
    silent = {
        call.sym_size.overloads[0], call.as_strided.overloads[0], call.item.overloads[0],
        call.lift_fresh_copy.overloads[0],
    }  # fmt: skip
    for node in reversed(list(graph.nodes)):
        if node.op == "call_function" and not node.users and node.target in silent:
            graph.erase_node(node)


def _restore_attributes(before):
    """Gives a module its attributes back; says so of tensors."""
    for module, attributes in before:
        now = vars(module)
        now.update(
            (name, value)
            for name, value in attributes.items()
            if name in now and not isinstance(now[name], Tensor)
        )
        for name in [*now]:
            if isinstance(now[name], FakeTensor) and now[name] is not attributes.get(
                name
            ):
                warnings.warn(
                    f"The tensor attribute self.{name} was assigned during export. Such "
                    "attributes must be registered as buffers using the "
                    "`register_buffer` API, and keep the value that they had.",
                    stacklevel=4,
                )
                if name in attributes:
                    now[name] = attributes[name]
                else:
                    del now[name]


def _step_name(key):
    return str(getattr(key, "idx", getattr(key, "key", getattr(key, "name", key))))


def _argument_path(paths, part, key):
    """Where an argument is among those of `combined_args`."""
    at = key.idx if part.idx == 0 else key.key
    return paths[at]


def _identifier(name):
    made = "".join(one if one.isalnum() else "_" for one in name)
    return made if made[:1].isalpha() or made[:1] == "_" else f"_{made}"


def _plain(value):
    return value if isinstance(value, _CONSTANTS) else None


def _frames_of(error):
    """The program's own places where an error came from."""
    trace, found = error.__traceback__, []
    while trace is not None:
        last = trace.tb_frame
        trace = trace.tb_next
        found = [last, trace.tb_lineno if trace else None]
    return user_stack(user_frames(found[0])) if found else ""


_REMEDIES = (
    "torch.cond for `if`, torch.while_loop for `while`, torch.where for a choice "
    "of elements; torch._check(condition) for what always holds"
)


def _not_known(error):
    """What is said of a program that decides by a number that it has read."""
    return GuardOnDataDependentSymNode(
        f"{error}\nThe following call raised this error:\n{_frames_of(error)}"
        f"  remedy: {_REMEDIES}"
    )


def _data_dependent(error):
    """What is said of a program that looks at elements."""
    where = _frames_of(error)
    what = f"{error.func}"
    if isinstance(error, DynamicOutputShapeException):
        fact = f"the sizes of the result of {what} depend on the elements of a tensor"
        remedy = "torch.where, or masks, which keep sizes"
    else:
        fact = f"the program asks for a number out of a tensor ({what})"
        remedy = (
            "torch.cond for `if`, torch.while_loop for `while`, torch.where for a choice "
            "of elements; a number that is the same in each run can be an argument"
        )
    return GuardOnDataDependentSymNode(
        f"Could not guard on data-dependent expression: {fact}\n"
        f"The following call raised this error:\n{where}  remedy: {remedy}"
    )
