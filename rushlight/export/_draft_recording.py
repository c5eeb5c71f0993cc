"""A recording that has elements, too: what `draft_export` runs."""

import linecache

from rushlight._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    UnsupportedOperatorException,
)
from rushlight.autograd.grad_mode import no_grad
from rushlight.core.tensor import Tensor
from rushlight.dispatch import python_key
from rushlight.dispatch.library import with_fakes
from rushlight.export._trace import Recording
from rushlight.fx.experimental.pre_dispatch import PreDispatchTracer, user_frames
from rushlight.graph.data_dependent import new_fake
from rushlight.ir.formulas import evaluated, symbols_of
from rushlight.ir.sizes import Unbacked
from rushlight.ir.symbolic import SymInt
from rushlight.ir.truths import SymBool
from rushlight.ir.unbacked import SymFloat
from rushlight.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

_NUMBERS = (SymInt, SymFloat, SymBool)


class Observer:
    """What is seen of a program that is recorded with elements.

    Attributes:
        values: numbers that stand for any, by name, as they are in this run.
        failures: pairs of a kind and what is known.
        marked: the sizes that were to stay open, by where they are.
    """

    def __init__(self):
        self.failures: list = []
        self.marked: dict = {}
        self.begin()

    def begin(self):
        """Another recording of the same program begins: it says all that there is."""
        self.values: dict = {}
        self.failures.clear()

    def decided(self, expr, answer):
        """Python has asked for what follows from elements.

        Args:
            expr: the expression, as text.
            answer: what it is in this run.
        """
        stack = [
            {"filename": name, "line": line, "name": function,
             "loc": linecache.getline(name, line).strip()}
            for name, line, function in user_frames()
        ]  # fmt: skip
        for kind, data in self.failures:
            if kind == "DATA_DEPENDENT_ERROR" and data["user_stack"] == stack:
                data["occurrences"] += 1
                return
        self.failures.append(("DATA_DEPENDENT_ERROR", {
            "expr": expr, "result": str(answer), "occurrences": 1, "user_stack": stack,
            "stack": [], "frame_locals": None,
        }))  # fmt: skip

    def kernel(self, kind, op, reason=None):
        """An operator's fake kernel is not there, or wrong.

        Args:
            kind: the failure's name.
            op: the operator.
            reason: what is wrong.
        """
        data = {"op": str(op), "reason": reason}
        if (kind, data) not in self.failures:
            self.failures.append((kind, data))


class DraftTracer(PreDispatchTracer):
    """Runs the operators that it writes down on elements as well."""

    def begin(self, observer):
        """Has numbers be known to an `Observer`."""
        self.observer = observer
        self.real: dict = {}  # id of a fake tensor -> the two
        observer.begin()
        self.elements.observer = observer

    def know(self, fake, real):
        """Notes the elements of fake tensors, nested alike."""
        for one, other in zip(tree_leaves(fake), tree_leaves(real)):
            if isinstance(one, Tensor) and isinstance(other, Tensor):
                self.real[id(one)] = one, other

    def _elements_of(self, value):
        """A value of the recording in the run with elements; None for an unknown one."""
        if isinstance(value, FakeTensor):
            known = self.real.get(id(value))
            return self.originals.get(id(value)) if known is None else known[1]
        if not isinstance(value, Tensor):
            value = self.shape_env.recognized(value)
        return self._value(value) if isinstance(value, _NUMBERS) else value

    def _value(self, number):
        names = self.observer.values
        for symbol in symbols_of(number.expr):
            if not isinstance(symbol, Unbacked):
                names.setdefault(symbol.name, symbol.actual)
        return evaluated(number.expr, names)

    def _run_on_elements(self, op, args, kwargs):
        """The operator's result; None where an operand is not known."""
        flat, spec = tree_flatten((args, kwargs))
        real = [self._elements_of(one) for one in flat]
        if any(b is None and a is not None for a, b in zip(flat, real)):
            return None
        given, named = tree_unflatten(real, spec)
        with python_key.without_modes(), no_grad():
            return op(*given, **named)

    def run(self, op, args, kwargs):
        """What an operator gives of fake tensors; the same of elements is kept."""
        real = None
        try:
            if op.entry is None and op.composite is None and op not in with_fakes:
                raise UnsupportedOperatorException(
                    op
                )  # what runs there is the real one
            fake = super().run(op, args, kwargs)
        except UnsupportedOperatorException:
            real = self._run_on_elements(op, args, kwargs)
            if real is None:
                raise
            self.observer.kernel("MISSING_FAKE_KERNEL", op)
            fake = self._made_like(real, args)
        except DynamicOutputShapeException:
            real = self._run_on_elements(op, args, kwargs)
            if real is None:
                raise
            fake = self._made_like(real, args)
        except DataDependentOutputException:
            real = self._run_on_elements(op, args, kwargs)
            if real is None:
                raise
            self.observer.decided(str(op), real)
            return real
        else:
            real = self._run_on_elements(op, args, kwargs)
            if real is not None and op.namespace not in ("aten", "prims"):
                fake = self._compared(op, args, fake, real)
        if real is not None:
            self.know(fake, real)
            self._read(fake, real)
        return fake

    def _made_like(self, real, args):
        """Fake results, whose sizes follow from elements for all that is known."""
        like = next(one for one in tree_leaves(args) if isinstance(one, FakeTensor))
        elements = self.elements

        def made(one):
            if not isinstance(one, Tensor):
                return one
            return new_fake(
                self.fake, like, [elements.size() for _ in one.shape], one.dtype
            )

        with self.fake:
            return tree_map(made, real)

    def _compared(self, op, args, fake, real):
        """The fake results, or others where they are not like the real ones."""
        for one, other in zip(tree_leaves(fake), tree_leaves(real)):
            if not isinstance(one, Tensor):
                continue
            sizes = [self._elements_of(size) for size in one.shape]
            reason = None
            if sizes != list(other.shape):
                reason = f"sizes {tuple(sizes)}, and {tuple(other.shape)} in fact"
            elif one.dtype is not other.dtype:
                reason = f"type {one.dtype}, and {other.dtype} in fact"
            if reason is not None:
                self.observer.kernel("MISMATCHED_FAKE_KERNEL", op, reason)
                return self._made_like(real, args)
        return fake

    def _read(self, fake, real):
        """What the numbers are that the operator has made."""
        leaves, found = tree_leaves(fake), tree_leaves(real)
        for read in self.elements.pending:
            name = read.symbol.name
            if len(found) == 1 and not isinstance(found[0], Tensor):
                self.observer.values[name] = _plain(found[0])
            for one, other in zip(leaves, found):
                sizes = one.shape if isinstance(one, Tensor) else ()
                for dim, size in enumerate(sizes):
                    if size is read.number:
                        self.observer.values[name] = other.shape[dim]

    def _lift(self, op, args):
        made = super()._lift(op, args)
        if not isinstance(args[0], FakeTensor):
            self.know(made, args[0])
        return made


def _plain(value):
    return int(value) if isinstance(value, bool) else value


class DraftRecording(Recording):
    """A recording whose operators run on elements as well.

    Args:
        mod, args, kwargs, sizes: see `Recording`.
        observer: an `Observer`.
    """

    tracer_type = DraftTracer

    def __init__(self, mod, args, kwargs, sizes, observer):
        super().__init__(mod, args, kwargs, sizes)
        self.tracer.begin(observer)
        self.observer = observer

    def _placeholder(self, name, tensor, fake):
        if isinstance(fake, Tensor):
            self.tracer.know(fake, tensor.detach().clone())
        return super()._placeholder(name, tensor, fake)

    def _arguments(self):
        made = super()._arguments()
        for one, other in zip(tree_leaves(made), tree_leaves((self.args, self.kwargs))):
            if isinstance(one, Tensor):
                self.tracer.know(one, other.detach().clone())
        if not self.observer.marked:
            sizes = self.sizes
            for key, kind in sizes.kinds.items():
                low, high = getattr(kind, "min", 2), getattr(kind, "max", float("inf"))
                asked = sizes.hints.get(key), max(low, 2), high
                self.observer.marked[sizes.sources[key]] = asked
        return made
