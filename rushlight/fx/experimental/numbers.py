"""Steps that give numbers which follow from elements, and those that check them.

A recorded program has a step for each such number, where the step behind it is known by
then; what was promised of it, or found, is checked behind the last of the numbers that it
is about.
"""

import operator

from rushlight.core.tensor import Tensor
from rushlight.ir.formulas import Formula, has_floats, step_of, symbols_of
from rushlight.ir.sizes import Size, Symbol, Unbacked
from rushlight.ir.sym_functions import sym_ite, sym_max, sym_min, sym_not
from rushlight.ir.symbolic import SymInt, expr_of
from rushlight.ir.truths import SymBool
from rushlight.ir.unbacked import SymFloat
from rushlight.operators import call

_FUNCTIONS = {"min": sym_min, "max": sym_max}


def _home_in(home, result):
    """Where a tensor that was made with a number is in a result."""
    if home is None:
        return None
    parts = enumerate(result) if isinstance(result, (list, tuple)) else [(None, result)]
    for at, one in parts:
        if one is home[0]:
            return () if at is None else (at,), home[1]
    return None


def _place_of(number, result, path=()):
    """Where a number is in a result: in which part, and as which of its sizes."""
    if isinstance(result, Tensor):
        for dim, size in enumerate(result.shape):
            if size is number:
                return path, dim
        return None
    if isinstance(result, (list, tuple)):
        positions = (
            _place_of(number, one, (*path, at)) for at, one in enumerate(result)
        )
        return next((one for one in positions if one is not None), None)
    return path, None


class NumberSteps:
    """What a recorder knows of numbers: the steps that give and compute them.

    Attributes:
        graph: what is written.
        shape_env: the numbers of the recording, or None.
        parent: who records the program around this one.
    """

    @property
    def elements(self):
        """The `Elements` of the recording; None where it may have none."""
        return None if self.shape_env is None else self.shape_env.elements

    def size_of(self, number):
        """The step that computes a size, from those of tensors that are there."""
        known = self._sizes.get(number.expr)
        if known is None and self.parent is not None:
            known = self._argument_from(self.parent.size_of(number))
            self._sizes[number.expr] = known
        if known is not None:
            return known
        expr = number.expr
        if isinstance(expr, Unbacked):
            raise self.shape_env.elements.refused(
                f"size of what a function that is an argument gives ({expr})"
            )
        if isinstance(expr, (Symbol, Size)):
            tensor, dim = (
                expr.source if isinstance(expr, Symbol) else (expr.tensor, expr.dim)
            )
            node = self.graph.create_node(
                "call_function",
                call.sym_size.overloads[0],
                (self.find(tensor), dim),
                name="sym_size_int",
            )
        else:
            step = self._step(expr)
            sides = tuple(
                self.size_of(self._number(one)) if not isinstance(one, int) else one
                for one in (step.left, step.right)
            )
            node = self._operation(step.name, *sides)
        node.meta["val"] = number
        self._sizes[number.expr] = node
        return node

    def _step(self, expr):
        """How an expression is computed: as the program has, if it has."""
        if isinstance(expr, Formula):
            return expr
        return self.shape_env.steps.get(expr) or step_of(expr)

    def _operation(self, name, left, right):
        """A step that computes with numbers."""
        if name == "ne":  # as PyTorch has it
            equal = self._operation("eq", left, right)
            sides = (expr_of(getattr(one, "meta", {}).get("val", one))
                     for one in (left, right))  # fmt: skip
            equal.meta["val"] = SymBool(self.shape_env, Formula("eq", *sides))
            return self.graph.create_node("call_function", sym_not, (equal,))
        if name == "sub" and type(left) is int and left == 0:
            return self.graph.create_node("call_function", operator.neg, (right,))
        function = _FUNCTIONS.get(name) or getattr(operator, name)
        return self.graph.create_node("call_function", function, (left, right))

    def step_of(self, expr):
        """The step that computes what is no integer: a float, or a truth."""
        if isinstance(expr, (int, float)):
            return expr
        integer = self.shape_env.number_or_none(expr)
        if integer is not None:
            return self.size_of(integer)
        known = self._sizes.get(str(expr))
        if known is None and isinstance(expr, Unbacked):
            raise self.shape_env.elements.refused(f"number ({expr})")
        if known is None:
            sides = (self.step_of(one) for one in (expr.left, expr.right))
            known = self._sizes[str(expr)] = self._operation(expr.name, *sides)
            known.meta["val"] = self._value_of(expr)
        return known

    def _value_of(self, expr):
        """What a recording has in the place of a float, or a truth."""
        found = self.shape_env.floats.get(str(expr))
        return SymBool(self.shape_env, expr) if found is None else found

    def _number(self, expr):
        """The number of an expression within another."""
        return self.shape_env.number(expr)

    def bind(self, node, result):
        """Finds the numbers in what a step gives, each by a step of its own."""
        elements = self.elements
        if elements is None:
            return
        if isinstance(result, (SymInt, SymFloat, SymBool)):
            node.meta["val"] = result
        if not elements.pending:
            return
        asked, elements.pending = elements.pending, []
        pending = []
        for read in asked:
            index = read.symbol.index
            place = _home_in(read.home, result) or elements.positions.get(index)
            place = place or _place_of(read.number, result)
            if place is None and read.symbol.kind != "size":
                continue  # read on the way: what it was used for is a size by itself
            if place is None:
                raise elements.refused(f"size that {node.target} does not give")
            pending.append(read)
            elements.positions[index] = place
            read.node = self._step_at(node, read, *place)
            read.graph = self.graph
            if isinstance(read.number, SymFloat):
                self._sizes[str(read.symbol)] = read.node
            if read.symbol.kind == "bool":
                self._sizes[str(Formula("eq", read.symbol, 1))] = node
            if isinstance(read.number, SymInt):
                self._sizes.setdefault(read.number.expr, read.node)
        for read in pending:
            read.last = pending[-1].node
        node.meta["reads"] = pending
        node.meta["unbacked_bindings"] = {
            str(read.symbol): elements.positions[read.symbol.index] for read in pending
        }

    def _step_at(self, node, read, path, dim):
        """The step that gives a number."""
        for at in path:
            node = next(one for one in node.users if one.args[1:] == (at,))
        if read.symbol.kind == "bool":
            made = self.graph.create_node("call_function", sym_ite, (node, 1, 0))
        elif dim is None:
            return node
        else:
            with self.graph.inserting_after(node):
                made = self.graph.create_node(
                    "call_function",
                    call.sym_size.overloads[0],
                    (node, dim),
                    name="sym_size_int",
                )
        own = isinstance(read.number, SymInt) and not has_floats(read.symbol)
        made.meta["val"] = self.shape_env.number(read.symbol) if own else read.number
        return made

    def write_checks(self):
        """Writes what has to hold of numbers that follow from elements, behind them."""
        elements = self.elements
        if elements is None:
            return
        reads = [one for one in elements.reads if one.graph is self.graph]
        groups: dict = {}
        for read in reads:
            groups.setdefault(read.last, []).append(read)
        for last, group in groups.items():
            wanted = [
                Formula(name, read.symbol, bound)
                for read in group
                if read.symbol.kind != "float"
                for name, bound in (("ge", read.symbol.low), ("le", read.symbol.high))
                if abs(bound) != float("inf")
            ]
            indices = {read.symbol.index for read in group}
            for formula in elements.checks:
                found = [
                    one.index
                    for one in symbols_of(formula)
                    if isinstance(one, Unbacked)
                ]
                known = all(elements.reads[one].node is not None for one in found)
                if found and known and max(found) in indices:
                    wanted.append(formula)
            said: set = set()
            for formula in wanted:
                text = str(formula)
                if text not in said:
                    said.add(text)
                    last = self._add_check(last, formula, text)

    def _add_check(self, last, formula, text):
        """A check as steps behind another."""
        made, last = self._add_formula(last, formula)
        fixed = any(
            isinstance(self.elements.reads[one.index].number, int)
            for one in symbols_of(formula)
            if isinstance(one, Unbacked)
        )
        made.meta["val"] = True if fixed else SymBool(self.shape_env, formula)
        with self.graph.inserting_after(last):
            check = self.graph.create_node(
                "call_function",
                call._assert_scalar.overloads[0],
                (
                    made,
                    f"Runtime assertion failed for expression {text} on node "
                    f"'{made.name}'",
                ),
                name="_assert_scalar_default",
            )
        check.meta["val"] = None
        return check

    def _add_formula(self, last, expr):
        """An expression's step, which is not before another; and the later of them."""
        if isinstance(expr, Unbacked):
            return self.elements.reads[expr.index].node, last
        if isinstance(expr, (int, float)):
            return expr, last
        if isinstance(expr, (Symbol, Size)):
            node = self.size_of(self._number(expr))
            return node, max(node, last)
        step = self._step(expr)
        left, last = self._add_formula(last, step.left)
        right, last = self._add_formula(last, step.right)
        number = self.shape_env.number_or_none(expr)
        known = None if number is None else self._sizes.get(number.expr)
        if known is None:
            with self.graph.inserting_after(last):
                known = self._operation(step.name, left, right)
            if number is not None:
                known.meta["val"] = number
                self._sizes[number.expr] = known
            else:
                known.meta["val"] = self._value_of(expr)
            if step.name == "ne":
                known.prepend(known.args[0])
        elif last < known:
            last.append(known)
        return known, max(known, last)
