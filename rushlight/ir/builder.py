"""Writes loop IR in the order that it runs, from Python that computes its shape.

>>> b = Builder()
>>> out, source = (Var(name, expr.Pointer(expr.f32)) for name in ("out", "source"))
>>> with b.loop("i", 0, 4) as i:
...     b.store(out, i, b.let("x", expr.load(source, i)) * 2.0)
"""

from contextlib import contextmanager

from rushlight.ir import expr
from rushlight.ir.expr import Var, as_expr, i64


class Builder:
    """A growing block of statements, with fresh names."""

    def __init__(self):
        self._blocks = [[]]
        self._uses = {}

    @property
    def statements(self) -> tuple:
        """What has been written so far at the outermost level."""
        return tuple(self._blocks[0])

    @property
    def block(self) -> list:
        """The innermost open block, for those who write statements themselves."""
        return self._blocks[-1]

    @property
    def names(self) -> set:
        """What has been named so far, up to the numbers."""
        return set(self._uses)

    def add(self, statement) -> None:
        """Append one statement to the innermost open block."""
        self._blocks[-1].append(statement)

    def fresh(self, name) -> str:
        """``name``, numbered where it was used before."""
        count = self._uses[name] = self._uses.get(name, 0) + 1
        return name if count == 1 else f"{name}_{count}"

    def let(self, name, value) -> Var:
        """A constant named after its value."""
        var = Var(self.fresh(name), value.type)
        self.add(expr.Let(var, value))
        return var

    def declare(self, name, value) -> Var:
        """A mutable local with its first value."""
        var = Var(self.fresh(name), value.type)
        self.add(expr.Declare(var, value))
        return var

    def assign(self, var, value) -> None:
        """The next value of a mutable local."""
        self.add(expr.Assign(var, as_expr(value, var.type)))

    def array(self, name, element, size) -> Var:
        """The address of ``size`` elements on the stack, aligned to a cache line."""
        var = Var(self.fresh(name), expr.Pointer(element))
        self.add(expr.Array(var, size))
        return var

    def store(self, pointer, index, value, mask=None) -> None:
        """Write ``value`` at ``pointer[index]``."""
        value = as_expr(value, pointer.type.element)
        self.add(expr.Store(pointer, as_expr(index, i64), value, mask=mask))

    @contextmanager
    def loop(self, name, start, stop, step=1, kind="serial"):
        """The body written inside runs for each index."""
        var = Var(self.fresh(name), i64)
        yield from self._nested(
            var,
            lambda body: expr.For(
                var,
                as_expr(start, i64),
                as_expr(stop, i64),
                body,
                as_expr(step, i64),
                kind,
            ),
        )

    @contextmanager
    def loop_while(self, condition):
        """The body written inside runs as long as ``condition`` holds."""
        yield from self._nested(None, lambda body: expr.While(condition, body))

    @contextmanager
    def repeat(self, condition):
        """The body written inside runs as long as ``condition`` holds."""
        yield from self._nested(None, lambda body: expr.While(condition, body))

    @contextmanager
    def when(self, condition):
        """The body written inside runs where ``condition`` holds."""
        yield from self._nested(None, lambda body: expr.If(condition, body))

    @contextmanager
    def otherwise(self):
        """The body written inside runs where the `when` just before did not."""
        before = self._blocks[-1].pop()
        yield from self._nested(
            None, lambda body: expr.If(before.condition, before.then, body)
        )

    def _nested(self, value, close):
        self._blocks.append([])
        yield value
        body = tuple(self._blocks.pop())
        self.add(close(body))
