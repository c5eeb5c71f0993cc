"""A path as an ``fx`` graph: for backends that are functions, and for reading."""

import operator
from math import prod

from rushlight import fx
from rushlight._dynamo.exc import BackendCompilerFailed, FailOnRecompileLimitHit
from rushlight.core import logs
from rushlight.core.dtype import all_dtypes
from rushlight.core.state import excluded_keys, included_keys, set_keys
from rushlight.core.storage import UntypedStorage
from rushlight.core.window import make_tensor
from rushlight.dispatch.named_overload import written_arguments, written_as
from rushlight.fx.experimental.pre_dispatch import user_stack
from rushlight.graph.graph_numbers import LiftedNumbers, groups_of, is_same
from rushlight.graph.steps import FRESH, NUMBER, TENSOR, TENSORS, WINDOW, Graph, window
from rushlight.graph.tape import Value, hold
from rushlight.nn.modules.module import Module
from rushlight.operators import call as ops


class Exported:
    """A path's graph, and which storages its inputs and outputs are windows of.

    Attributes:
        module: the `GraphModule`; it gives a tuple.
        inputs: the windows that are passed.
        outputs: the windows that come back: what the path makes and somebody wants.

    Args:
        leaf: the last call of the path.
        wanted: what is wanted of each storage.
        storages: by number, where views are known by them.
        views: how windows were made (`Tape.views`).
        numbers: the path's parameters, which are constants of the graph.
        lifted: which numbers of its calls are arguments of the graph; see
            `rushlight.graph.graph_numbers`.
    """

    def __init__(self, leaf, wanted, storages=(), views=None, numbers=(), lifted=None):
        self.numbers = numbers
        self.lifted = lifted or LiftedNumbers()
        self.graph = fx.Graph()
        self.wanted = wanted
        self.nodes: dict = {}  # slot -> the node of its first window, and the window
        self.windows: dict = {}  # slot and look -> node
        self.split: dict = {}  # a view of several results -> its node
        self.views = views or {}
        self.storages = {n: ("new", id(s)) for n, s in enumerate(storages) if s}
        self.inputs: list = []
        path = leaf.path
        self.lifted.begin(self.graph)
        self._place_inputs(path)
        for call in path:
            self._add(call)
        outputs = [
            slot for slot, kind in enumerate(wanted) if kind == 2 and slot in self.nodes
        ]
        self.outputs = [self.nodes[slot][1] for slot in outputs]
        self.graph.output(tuple(self.nodes[slot][0] for slot in outputs))
        self.module = fx.GraphModule(Module(), self.graph)

    def _place_inputs(self, path):
        """A placeholder for each storage that was there: what its windows are views of.

        Of windows that are no views of one known the widest type's: a complex tensor's parts
        have no memory for the other.
        """
        bases: dict = {}
        for call in path:
            for value in _windows(call):
                if not self.wanted[value.slot]:
                    value = self._base(value)
                    first = bases.setdefault(value.slot, value)
                    if value.dtype.itemsize > first.dtype.itemsize:
                        bases[value.slot] = value
        for value in bases.values():
            node = self.graph.placeholder(f"arg{len(self.inputs)}")
            node.meta["value"] = value
            self._keep(value, node)
            self.inputs.append(value)

    def _keep(self, value, node):
        """Has a node be the first window on a storage."""
        self.nodes[value.slot] = node, value
        self.windows[value.slot, value.look] = node

    def _made(self, slot, look):
        """How a window was made, or None."""
        found = self.views.get((slot, look))
        return found or self.views.get((self.storages.get(slot), look))

    def _base(self, value):
        """What a window on an input is a view of, as far as it is known."""
        look, seen = value.look, set()
        while look not in seen:
            seen.add(look)
            made = self._made(value.slot, look)
            if made is None:
                break
            look = next(one[1] for one in made[0][1] if is_window(one))
        return value if look == value.look else Base(value, look)

    def _window(self, value):
        """The node of a window on a storage."""
        node, first = self.nodes[value.slot]
        if value.plain:
            found = self._view(value.slot, value.look, set())
            if found is not None:
                return found
        if value.dtype is not first.dtype:
            node = self._call(ops.view.overloads[1], (node, value.dtype))
        strided = ops.as_strided.overloads[0]
        args = [node, list(value.sizes), list(value.strides), value.offset]
        return self._call(strided, tuple(self.lifted.arguments(strided, args)))

    def _call(self, op, args, kwargs=None):
        """A node that is named after an operator without its overload."""
        return self.graph.create_node(
            "call_function", op, args, kwargs, name=op._opname
        )

    def _view(self, slot, look, seen):
        """The node of a window by the views that made it; None where they are not known."""
        key = slot, look
        if key in self.windows or key in seen:
            return self.windows.get(key)
        seen.add(key)
        found = self._made(slot, look)
        if found is None:
            return None
        made, number = found
        op, args, several = made
        node = self.split.get(id(made))
        if node is None:
            args = [
                self._view(slot, one[1], seen) if is_window(one) else one
                for one in args
            ]
            if any(one is None and is_window(was) for one, was in zip(args, made[1])):
                return None
            args = self.lifted.arguments(op, args)
            node = self._call(op, *arguments_of(op, args))
            if several:
                self.split[id(made)] = node
        if several:
            node = self.graph.call_function(operator.getitem, (node, number))
        self.windows[key] = node
        return node

    def _argument(self, call, i, value):
        kind = call.kind(i)
        if kind == TENSOR:
            return self._window(value)
        if kind == TENSORS:
            made = [
                self._window(one) if isinstance(one, Value) else one for one in value
            ]
            return made if isinstance(value, list) else tuple(made)
        if kind == NUMBER and self.numbers:
            return self.numbers[value]
        return value

    def _add(self, call):
        made = [self._argument(call, i, value) for i, value in enumerate(call.values)]
        made = self.lifted.arguments(call.op, made)
        shown = written_as(call.op, call.values, _is_value, whole=False)
        args, kwargs = arguments_of(call.op, made)
        node = self._call(shown, written_arguments(shown, args), kwargs)
        if call.notes is not None:
            node.meta["stack_trace"] = user_stack([call.notes])
        for number, (kind, value) in enumerate(call.results):
            if kind not in (FRESH, WINDOW) or (value.slot, value.look) in self.windows:
                continue
            one = node
            if call.shape is not None:
                one = self.graph.call_function(operator.getitem, (node, number))
            if value.slot in self.nodes:
                self.windows[value.slot, value.look] = one
            else:
                self._keep(value, one)


def _is_value(one):
    return isinstance(one, Value)


def arguments_of(op, values):
    """An operator's arguments, those that have names apart; those left out are left out."""
    args, kwargs, needed = [], {}, 0
    for row, value in zip(op.signature.rows, values, strict=True):
        is_default = type(value) is type(row[2]) and value == row[2]
        if isinstance(value, tuple) and all(type(one) is int for one in value):
            value = list(value)
        if not row[3]:
            args.append(value)
            needed = needed if is_default else len(args)
        elif not is_default:
            kwargs[row[0]] = value
    return tuple(args[:needed]), kwargs


def is_window(one):
    """Whether an argument of a view is a window: where it lies, and its look."""
    return (
        type(one) is tuple
        and len(one) == 2
        and type(one[1]) is tuple
        and len(one[1]) == 4
        and type(one[1][3]) is str
    )


class Base:
    """What a window of an input is a view of."""

    def __init__(self, value, look):
        self.slot, self.device, self.look = value.slot, value.device, look
        self.sizes, self.strides, self.offset, name = look
        self.dtype = all_dtypes()[name]
        self.count, self.plain = prod(self.sizes), True


def _windows(call):
    for i, value in enumerate(call.values):
        if call.kind(i) == TENSOR:
            yield value
        elif call.kind(i) == TENSORS:
            yield from (one for one in value if isinstance(one, Value))
    for kind, value in call.results:
        if kind == WINDOW:
            yield value


def example_of(tape, value):
    """A tensor like a window; of zeros where its storage is gone already."""
    storage = tape.slots[value.slot]
    if storage is not None and fits(storage, value):
        return window(tape, value)
    pairs = zip(value.sizes, value.strides, strict=True)
    last = value.offset + sum((size - 1) * step for size, step in pairs)
    needed = (last + 1) * value.dtype.itemsize if value.count else 0
    storage = UntypedStorage(needed, device=value.device)
    return make_tensor(
        storage, value.sizes, value.strides, value.offset, value.dtype
    ).zero_()


def fits(storage, value):
    """Whether a window is on a storage as far as it goes."""
    pairs = zip(value.sizes, value.strides, strict=True)
    last = value.offset + sum((size - 1) * step for size, step in pairs)
    return not value.count or storage.nbytes() >= (last + 1) * value.dtype.itemsize


class Lent:
    """A program that is another's: a function of the graph's inputs.

    Args:
        numbers: what the path has where the graph has arguments that are numbers.
        again: gives the program for what the path reads alone. The path may lead here from
            another view of less memory than the one that was seen.
    """

    def __init__(self, exported, function, graph, numbers=(), again=None):
        self.exported, self.function, self.graph = exported, function, graph
        self.numbers, self.again, self.narrow = numbers, again, None

    def __call__(self, tape):
        values = self.exported.inputs
        if self.again and not all(fits(tape.slots[one.slot], one) for one in values):
            self.narrow = self.narrow or self.again(tape.slots)
            return self.narrow(tape)
        for value, result in self.results(tape):
            hold(tape, value, result)

    def results(self, tape):
        """The windows that come back, each with what the function gives for it.

        Raises:
            IndexError: it gives too little.
        """
        given = [window(tape, value) for value in self.exported.inputs]
        made = self.function(*self.numbers, *given)
        return [(value, made[n]) for n, value in enumerate(self.exported.outputs)]

    def give_again(self, storages):
        """Has the call that was noted, which ran as it is, give the function's results.

        Not where what it was given is gone since.
        """
        for one in self.exported.inputs:
            if storages[one.slot] is None or not fits(storages[one.slot], one):
                return

        class Tape:
            slots = storages

        keys = included_keys(), excluded_keys()
        try:
            set_keys(0, keys[1])
            for value, result in self.results(Tape):
                storage = storages[value.slot]
                version = storage.version
                window(Tape, value).copy_(result)
                storage.version = version  # nobody has seen what was there before
        finally:
            set_keys(*keys)


def program(runner, leaf, wanted, examples, views=None):
    """What a backend makes of a path's graph.

    It is called once for a graph, as PyTorch does: for the first sizes and numbers, and where
    others come and the graph is the same but for them, a second time with sizes that are
    marked as dynamic and with numbers as arguments. That function is for all others.

    Args:
        runner: the function's; its ``backend`` is called.
        leaf: the last call of the path.
        wanted: what is wanted of each storage.
        examples: storages by number, for the example inputs.
        views: how windows were made (`Tape.views`).
    """
    given = leaf, wanted, examples, views
    whole = Exported(*given, lifted=LiftedNumbers(everywhere=True))
    found = whole.lifted.found
    looks = tuple([(v.dtype.name, len(v.sizes)) for v in whole.inputs])
    sizes = [tuple(v.sizes) for v in whole.inputs]
    key = whole.module.code, looks, wanted, tuple(map(type, found))
    lenders = runner.lent.setdefault(key, [])
    graph = Graph.of(leaf, wanted)
    again = views and (lambda slots: program(runner, leaf, wanted, slots))
    for one in lenders:
        if one.is_for(sizes, found):
            return Lent(whole, one.function, graph, one.numbers_of(found, sizes), again)
    before = [(one.sizes, one.found) for one in lenders] if runner.opens_sizes() else []
    groups = groups_of(found, [one[1] for one in before], runner.open_numbers(sizes))
    open_dims = opened(runner, whole, examples, [one[0] for one in before])
    lender = Lender(sizes, found, groups, open_dims)
    lifted = LiftedNumbers(groups, sizes=len(lender.positions))
    exported = Exported(*given, lifted=lifted)
    if logs.graph.active:
        logs.graph.say(f"{runner.name}:\n{exported.module.code}")
    if lenders:
        runner.recompiles()
    if len(lenders) < runner.limits.recompile_limit:
        lender.function = compiled(runner, exported, examples, lender)
        runner.counted(len(leaf.path))
    elif runner.fullgraph:
        raise FailOnRecompileLimitHit("Hard failure due to fullgraph=True")
    else:
        lender.function = exported.module.forward
    lenders.append(lender)
    numbers = lender.numbers_of(found, sizes)
    return Lent(exported, lender.function, graph, numbers, again)


def opened(runner, exported, examples, before):
    """Which dimensions of each input are open: the backend's function is for any size there.

    Args:
        before: the sizes that the inputs had in other calls.
    """
    found = []
    for n, value in enumerate(exported.inputs):
        dims = {d for d, size in enumerate(value.sizes) if runner.dynamic and size > 1}
        for one in before:
            dims |= {d for d, size in enumerate(value.sizes) if one[n][d] != size}
        wanted, fixed = runner.marks.get(
            (id(examples[value.slot]), tuple(value.sizes)), ((), ())
        )
        found.append(((dims | {*wanted}) - {*fixed}) & {*range(len(value.sizes))})
    return found


class Lender:
    """A backend's function, and which calls it is for.

    Args:
        sizes: of the inputs that it was made with.
        found: the numbers at all places.
        groups: which argument each place is; None for a constant.
        open_dims: the dimensions of each input that may have any size.

    Attributes:
        places: an input and its dimension for each open size that is no number of a call.
    """

    def __init__(self, sizes, found, groups, open_dims):
        self.sizes, self.found, self.groups = sizes, found, groups
        self.open_dims, self.function = open_dims, None
        numbers, self.positions = set(self.numbers_of(found)), []
        for n, dims in enumerate(open_dims):
            for d in sorted(dims):
                if sizes[n][d] not in numbers:
                    numbers.add(sizes[n][d])
                    self.positions.append((n, d))

    def is_for(self, sizes, found):
        """Whether it is for a call's sizes and numbers."""
        for one, was, dims in zip(sizes, self.sizes, self.open_dims, strict=True):
            if any(a != b and d not in dims for d, (a, b) in enumerate(zip(one, was))):
                return False
        given: dict = {}
        return all(
            is_same(number, was if group is None else given.setdefault(group, number))
            for number, was, group in zip(found, self.found, self.groups, strict=True)
        )

    def numbers_of(self, found, sizes=None):
        """The arguments that are numbers, in the graph's order."""
        given: dict = {}
        for number, group in zip(found, self.groups, strict=True):
            if group is not None:
                given.setdefault(group, number)
        if sizes is None:
            return tuple(given.values())
        return *given.values(), *[sizes[n][d] for n, d in self.positions]


def compiled(runner, exported, examples, lender):
    """What a backend makes of a graph.

    Args:
        lender: has the dimensions that are open, and the numbers that are arguments.
    """

    class Tape:
        slots = examples

    inputs = [example_of(Tape, value) for value in exported.inputs]
    for one, dims in zip(inputs, lender.open_dims, strict=True):
        if dims:
            one._dynamo_dynamic_indices = dims
    numbers = lender.numbers_of(lender.found, lender.sizes)
    inputs = [*exported.lifted.examples(numbers), *inputs]
    # the backend's own operators are nobody's path
    keys = included_keys(), excluded_keys()
    try:
        set_keys(0, keys[1])
        function = runner.backend(exported.module, inputs)
        if not callable(function):
            raise TypeError(
                f"the backend {runner.backend!r} gave {function!r}, which is no function"
            )
    except Exception as error:
        failure = BackendCompilerFailed(runner.backend, error)
        if not runner.limits.suppress_errors:
            raise failure from error
        logs.graph_breaks.warn(f"{failure}\n  torch._dynamo.config.suppress_errors")
        function = exported.module.forward
    finally:
        set_keys(*keys)
    return function
