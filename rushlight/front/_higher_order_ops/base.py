"""Operators whose arguments are functions: how they run, and how they are recorded."""

import contextlib

from rushlight.core.state import excluded_keys
from rushlight.core.tensor import Tensor
from rushlight.dispatch import python_key
from rushlight.dispatch.guard import Guard
from rushlight.dispatch.keys import DispatchKey, KeySet

OPERATORS: dict = {}


def recorder():
    """Who writes down this thread's operators, or None."""
    from rushlight.fx.experimental.proxy_tensor import get_proxy_mode

    tracers = python_key.tracers()
    unheard = excluded_keys() >> DispatchKey.PreDispatch & 1
    if tracers and not unheard:
        return tracers[-1]
    return get_proxy_mode()


@contextlib.contextmanager
def unrecorded():
    """A block that nobody writes down; fake tensors stay fake."""
    from rushlight.fx.experimental.proxy_tensor import disable_proxy_modes_tracing

    with Guard(exclude=KeySet.of(DispatchKey.PreDispatch)):
        with disable_proxy_modes_tracing():
            yield


class HigherOrderOperator:
    """An operator some of whose arguments are graph modules.

    Args:
        name: its name in ``ops.higher_order``.
        run: what it does.
        record: how it is written down: it is called with who writes, and the arguments.
    """

    namespace = "higher_order"

    def __init__(self, name, run, record):
        self.__name__ = self.__qualname__ = self._name = name
        self.__module__ = "rushlight.ops.higher_order"
        self._run, self._record = run, record
        OPERATORS[name] = self

    def __call__(self, *args, **kwargs):
        """Runs the operator, or writes it down where somebody does."""
        tracer = recorder()
        if tracer is not None:
            return self._record(tracer, *args, **kwargs)
        return self._run(*args, **kwargs)

    def name(self):
        """Its name, without the namespace."""
        return self._name

    def __str__(self):
        return self._name

    def __repr__(self):
        return f"<higher-order operator {self._name}>"

    def __reduce__(self):
        return _find, (self._name,)

    def __deepcopy__(self, memo):
        return self


def _find(name):
    return OPERATORS[name]


class Body:
    """A function that an operator takes, as a graph.

    Args:
        tracer: who writes the program around.
        function: called with ``operands``.
        operands: tensors or numbers.
    """

    def __init__(self, tracer, function, operands):
        self.count = len(operands)
        self.child, result = tracer.record_function(function, operands)
        single = isinstance(result, Tensor)
        self.results = [result] if single else list(result)
        nodes = [self.child.node_of(one) for one in self.results]
        self.child.graph.output(nodes[0] if single else tuple(nodes))

    def take(self, outer):
        """Has it take exactly these steps of the program around, in this order.

        Args:
            outer: the steps, after the operands.
        """
        first = self.child.first_step()
        for step in outer:
            first.prepend(self.child._argument_from(step))

    def placed(self, tracer, name):
        """The step that reads the graph from the module of the program around."""
        from rushlight.fx.graph_module import GraphModule

        number = 0
        while hasattr(tracer.root, f"{name}_{number}"):
            number += 1
        module = GraphModule(self.child.root, self.child.graph, f"{name}_{number}")
        tracer.root.add_module(f"{name}_{number}", module)
        return tracer.graph.get_attr(f"{name}_{number}")


def outer_steps(*bodies):
    """The steps of the program around that any of some functions needs."""
    found = dict.fromkeys(step for body in bodies for step in body.child.outer)
    for body in bodies:
        body.take(found)
    return list(found)


def written(tracer, operator, args, result):
    """Writes the call of an operator down.

    Args:
        tracer: who writes.
        operator: the operator.
        args: steps and constants.
        result: what it gives: a tuple of tensors.
    """
    create = getattr(tracer, "create", None)
    if create is not None:
        node = create(operator, args, None, operator.name())
    else:
        node = tracer.graph.create_node(
            "call_function", operator, tuple(args), name=operator.name()
        )
    tracer.record_result(node, result)
    return result


def steps_of(tracer, values):
    """The steps that values come from."""
    return [tracer.node_of(one) for one in values]


def alike(values, others, what):
    """Refuses results that do not look like others.

    Args:
        values: tensors; ``others`` too.
        what: the message's beginning.

    Raises:
        RuntimeError: they differ in number, sizes or types.
    """
    if len(values) != len(others):
        raise RuntimeError(
            f"{what} have the same number of outputs but got {len(values)} and "
            f"{len(others)}"
        )
    for at, (one, other) in enumerate(zip(values, others)):
        looks = [
            (tuple(t.shape), t.dtype) if isinstance(t, Tensor) else (type(t),)
            for t in (one, other)
        ]
        if looks[0] != looks[1]:
            raise RuntimeError(
                f"{what} be alike, but output {at} is {looks[0]} and {looks[1]}"
            )


def copies(values):
    """New tensors like those given: what an operator gives is nobody else's memory."""
    return tuple(one.clone() if isinstance(one, Tensor) else one for one in values)
