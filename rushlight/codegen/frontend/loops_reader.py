"""From the syntax tree of a loop kernel to statements of the loop IR."""

import ast
import itertools
import operator

from rushlight.codegen.frontend.complexes import PARTS, Complex
from rushlight.codegen.frontend.loop_words import (
    Inline,
    Integers,
    Special,
    TypeName,
    atomic_add,
    atomic_max,
    bounds,
    highest,
    is_float,
    local,
    lowest,
    stored,
    vectorized,
)
from rushlight.codegen.frontend.storage import computed, rounded_to
from rushlight.ir import expr as ir
from rushlight.ir import threads

BINARY = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}
COMPARE = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
LANGUAGE = "rushlight.codegen.language"


class ComplexArray:
    """An array parameter of complex elements: pairs of real ones."""

    def __init__(self, pointer):
        self.pointer = pointer

    def load(self, index):
        """The element at an index."""
        first = index * 2
        return Complex(ir.load(self.pointer, first), ir.load(self.pointer, first + 1))

    def stores(self, index, value):
        """The statements that write an element."""
        value = Complex.of(value, self.pointer.type.element)
        first = index * 2
        yield ir.Store(self.pointer, first, value.real)
        yield ir.Store(self.pointer, first + 1, value.imag)


def read_kernel(kernel, types, frozen):
    """The IR function of a `Loops` kernel for one choice of dtypes."""
    reader = Reader(kernel, types)
    names = kernel.parameters
    if [name for name, _ in names[-2:]] != ["begin", "end"]:
        kernel.fail(kernel.tree, "the last two parameters are begin and end")
    scope, arrays, integers = {}, 0, itertools.count()

    def number(name):
        at, value = next(integers), frozen.get(name)
        return reader.named(name, ir.integer(at)) if value is None else value

    for name, note in names[:-2]:
        if note == "int":
            value = number(name)
        elif isinstance(kernel.lookup(note), Integers):
            fields = kernel.lookup(note).names
            value = {field: number(f"{name}_{field}") for field in fields}
        elif note and note.endswith("*") and note[:-1] in types:
            kind = types[note[:-1]]
            element = ir.Type(PARTS.get(kind, kind))
            value = reader.named(name, ir.argument(arrays, element))
            value = ComplexArray(value) if kind in PARTS else value
            arrays += 1
        else:
            kernel.fail(
                kernel.tree,
                f"parameter {name} needs an annotation: int, a record of Integers or "
                f'a type and a star such as "T*"',
            )
        scope[name] = value
    scope["begin"], scope["end"] = ir.BEGIN, ir.END
    reader.scopes.append(scope)
    body = reader.block(kernel.tree.body)
    entry = sorted(reader.entry, key=lambda s: not isinstance(s.var.type, ir.Pointer))
    kernel_name = kernel.kernel_name(frozen)
    return ir.Function(
        kernel_name, ir.KERNEL_PARAMETERS, (*entry, *body), distinct=True
    )


class Reader:
    """Walks one function; holds the names in sight and the statements so far."""

    def __init__(self, source, types):
        self.source, self.types = source, types
        self.scopes, self.entry = [], []
        self.block_out = self.entry
        self.counts = [{}]
        self.used = {"data", "ints", "begin", "end"}

    def fail(self, node, fact):
        self.source.fail(node, fact)

    # ---- names

    def fresh(self, name):
        """A variable name not used before in this kernel."""
        number, wanted = 1, name
        while name in self.used:
            name = f"{wanted}_{number}"
            number += 1
        self.used.add(name)
        return name

    def emit(self, statement):
        self.block_out.append(statement)

    def named(self, name, value):
        """A ``Let`` of the value; its variable."""
        if isinstance(value, Complex):
            real = self.named(f"{name}_real", value.real)
            return Complex(real, self.named(f"{name}_imag", value.imag))
        var = ir.Var(self.fresh(name), value.type)
        self.emit(ir.Let(var, value))
        return var

    def find(self, name):
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return None

    # ---- blocks and statements

    def block(self, statements, scope=None):
        """The IR of a block with its own names."""
        outer, self.block_out = self.block_out, []
        self.scopes.append({} if scope is None else scope)
        self.counts.append(count_assignments(statements))
        for statement in statements:
            self.statement(statement)
        self.counts.pop()
        self.scopes.pop()
        done, self.block_out = self.block_out, outer
        return tuple(done)

    def statement(self, node):
        method = getattr(self, "do_" + type(node).__name__, None)
        if method is None:
            self.fail(node, f"{type(node).__name__} statements are not supported")
        try:
            method(node)
        except TypeError as error:
            self.fail(node, str(error))

    def do_Expr(self, node):
        is_text = isinstance(node.value, ast.Constant) and isinstance(
            node.value.value, str
        )
        if is_text:
            return
        if isinstance(node.value, ast.Call):
            self.call(node.value)
            return
        self.fail(node, "an expression whose value is not used")

    def do_Pass(self, node):
        return

    def do_Break(self, node):
        self.emit(ir.Break())

    def do_Continue(self, node):
        self.emit(ir.Continue())

    def do_Return(self, node):
        self.fail(node, "return belongs at the end of a loops_inline helper")

    def do_Assign(self, node):
        if len(node.targets) != 1:
            self.fail(node, "one target in an assignment")
        target = node.targets[0]
        if isinstance(target, ast.Tuple):
            self.assign_several(node, target)
        elif self.is_local(node.value):
            self.make_array(target, node.value)
        else:
            self.assign(target, self.one_or_several(node.value))

    def one_or_several(self, node):
        """A value, or several: those that a helper returns, or that a tuple lists."""
        if isinstance(node, ast.Tuple):
            return tuple(self.hold(self.argument(item)) for item in node.elts)
        if isinstance(node, ast.Call):
            found = self.call(node)
            return found if isinstance(found, tuple) else self.single(node, found)
        return self.value(node)

    def do_AugAssign(self, node):
        read = ast.copy_location(as_load(node.target), node)
        total = ast.copy_location(ast.BinOp(read, node.op, node.value), node)
        self.assign(node.target, self.value(total))

    def assign_several(self, node, target):
        if isinstance(node.value, ast.Tuple):
            values = [self.argument(item) for item in node.value.elts]
        else:
            values = self.several(node.value)
        if not isinstance(values, (list, tuple)) or len(values) != len(target.elts):
            self.fail(node, f"{len(target.elts)} targets need as many values")
        moves = [is_symbol(v) and not is_bound_once(v) for v in values]
        held = [self.named("held", v) if m else v for v, m in zip(values, moves)]
        for item, value in zip(target.elts, held):
            self.assign(item, value)

    def several(self, node):
        """The values of a call, or of a name that was given such values."""
        if isinstance(node, ast.Name):
            return self.find(node.id)
        return self.call(node) if isinstance(node, ast.Call) else ()

    def assign(self, target, value):
        if is_bound_once(value):
            self.bind_once(target, value)
        elif isinstance(target, ast.Name):
            self.assign_name(target, value)
        elif isinstance(target, ast.Subscript):
            pointer, index = self.place(target)
            if isinstance(pointer, ComplexArray):
                for statement in pointer.stores(index, self.hold(value)):
                    self.emit(statement)
                return
            element = pointer.type.element
            if isinstance(value, Complex):
                self.fail(target, f"a complex value does not fit {element}")
            self.emit(ir.Store(pointer, index, as_type(element, value)))
        else:
            self.fail(target, "cannot assign to this")

    def assign_name(self, target, value):
        name, known = target.id, self.find(target.id)
        if known is None:
            typed = self.typed(target, value)
            if self.counts[-1].get(name, 0) <= 1:
                self.scopes[-1][name] = self.named(name, typed)
                return
            self.scopes[-1][name] = self.declared(name, typed)
            return
        if isinstance(known, Complex):
            self.assign_parts(known, value)
            return
        if not isinstance(known, ir.Var) or isinstance(known.type, ir.Pointer):
            self.fail(target, f"{name} is a parameter: give the new value another name")
        typed = ir.as_expr(value, known.type)
        if typed.type != known.type:
            self.fail(
                target,
                f"{name} is {known.type} since its first value; this value "
                f"is {typed.type}: convert it",
            )
        self.emit(ir.Assign(known, typed))

    def bind_once(self, target, value):
        """Another name for an array or a record, or one for several values."""
        once = isinstance(target, ast.Name) and self.counts[-1].get(target.id, 0) <= 1
        if not once or self.find(target.id) is not None:
            self.fail(
                target, "a name for an array or several values is given them once"
            )
        self.scopes[-1][target.id] = value

    def declared(self, name, value):
        """A variable that may be assigned again; a pair of them for complex values."""
        if isinstance(value, Complex):
            real = self.declared(f"{name}_real", value.real)
            return Complex(real, self.declared(f"{name}_imag", value.imag))
        var = ir.Var(self.fresh(name), value.type)
        self.emit(ir.Declare(var, value))
        return var

    def assign_parts(self, known, value):
        """Both parts, once both are known: one may follow from the other's old value."""
        value = self.hold(Complex.of(value, known.type))
        self.emit(ir.Assign(known.real, value.real))
        self.emit(ir.Assign(known.imag, value.imag))

    def typed(self, node, value):
        """A value as an expression; a lone integer is i64."""
        if is_symbol(value):
            return value
        if isinstance(value, bool):
            return ir.Const(ir.boolean, value)
        if isinstance(value, int):
            return ir.Const(ir.i64, value)
        if isinstance(value, float):
            self.fail(
                node, f"the type of {value} is open: write A({value}) or f32({value})"
            )
        return self.fail(node, f"{value!r} is not a number")

    def is_local(self, node):
        return (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and self.source.lookup(node.func.id) is local
        )

    def make_array(self, target, node):
        kind, size = node.args
        name = kind.value if isinstance(kind, ast.Constant) else kind.id
        length = self.value(size)
        if name not in self.types or not isinstance(length, int):
            self.fail(
                node,
                'local("f32", 16): a type name and a length known when the '
                "kernel is specialised",
            )
        element = computed(self.types[name])
        var = ir.Var(self.fresh(target.id), ir.Pointer(element))
        self.emit(ir.Array(var, length))
        self.scopes[-1][target.id] = var

    def do_If(self, node):
        condition = self.value(node.test)
        if not isinstance(condition, ir.Expr):
            for statement in node.body if condition else node.orelse:
                self.statement(statement)
            return
        then = self.block(node.body)
        otherwise = self.block(node.orelse) if node.orelse else ()
        self.emit(ir.If(as_truth(condition), then, otherwise))

    def do_While(self, node):
        if node.orelse:
            self.fail(node, "while ... else is not supported")
        outer, self.block_out = self.block_out, []
        condition = self.value(node.test)
        before, self.block_out = self.block_out, outer
        body = self.block(node.body)
        condition = as_truth(ir.as_expr(condition, ir.boolean))
        if before:
            leave = ir.If(ir.Unary("not", condition), (ir.Break(),))
            body = (*before, leave, *body)
            condition = ir.Const(ir.boolean, True)
        self.emit(ir.While(condition, body))

    def do_For(self, node):
        if node.orelse or not isinstance(node.target, ast.Name):
            self.fail(node, "for NAME in range(...), without else")
        kind, start, stop, step = self.span(node.iter)
        start, stop = ir.as_expr(start, ir.i64), ir.as_expr(stop, ir.i64)
        if isinstance(step, int) and step <= 0:
            self.count_down(node, start, stop, -step)
            return
        var = ir.Var(self.fresh(node.target.id), ir.i64)
        body = self.block(node.body, {node.target.id: var})
        self.emit(ir.For(var, start, stop, body, ir.as_expr(step, ir.i64), kind))

    def count_down(self, node, start, stop, step):
        if step == 0:
            self.fail(node, "range() with a step of zero")
        start = self.named("start", start)
        iterations = (start - stop + (step - 1)) // step
        iteration = ir.Var(self.fresh("turn"), ir.i64)
        var = ir.Var(self.fresh(node.target.id), ir.i64)
        first = ir.Let(var, start - iteration * step)
        body = (first, *self.block(node.body, {node.target.id: var}))
        self.emit(ir.For(iteration, ir.Const(ir.i64, 0), iterations, body))

    def span(self, node):
        """The kind, start, stop and step of ``range(...)`` or ``vectorized(...)``."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            self.fail(node, "loops count: for NAME in range(...)")
        callee = self.source.lookup(node.func.id)
        if callee not in (range, vectorized) or not 1 <= len(node.args) <= 3:
            self.fail(node, "loops count: for NAME in range(...)")
        kind = "vectorized" if callee is vectorized else "serial"
        values = [self.value(item) for item in node.args]
        if len(values) == 1:
            return kind, 0, values[0], 1
        return (kind, *values, *([1] if len(values) == 2 else []))

    # ---- expressions: an IR expression, or a Python number where it is known

    def value(self, node):
        method = getattr(self, "get_" + type(node).__name__, None)
        if method is None:
            self.fail(node, f"{type(node).__name__} expressions are not supported")
        try:
            result = method(node)
        except TypeError as error:
            self.fail(node, str(error))
        if result is NotImplemented:
            self.fail(node, "this operation is not defined for these operands")
        return result

    def get_Constant(self, node):
        if isinstance(node.value, (bool, int, float)):
            return node.value
        return self.fail(node, f"the literal {node.value!r} is not a number")

    def get_Name(self, node):
        found = self.find(node.id)
        if found is None:
            found = self.source.lookup(node.id)
            if not isinstance(found, (bool, int, float)):
                self.fail(
                    node,
                    f"{node.id} has no value here: assign it in this block "
                    "or around it",
                )
        return found

    def get_Attribute(self, node):
        record = self.find(node.value.id) if isinstance(node.value, ast.Name) else None
        if not isinstance(record, dict) or node.attr not in record:
            self.fail(node, f"there is no integer {ast.unparse(node)}")
        return record[node.attr]

    def get_BinOp(self, node):
        action = BINARY.get(type(node.op))
        if action is None:
            self.fail(node, f"the operator {type(node.op).__name__} is not supported")
        left, right = self.value(node.left), self.value(node.right)
        if (
            isinstance(node.op, ast.Div)
            and isinstance(left, ir.Expr)
            and left.type.is_int
        ):
            self.fail(node, "/ divides floats: write // or convert the operands")
        return action(left, right)

    def get_UnaryOp(self, node):
        value = self.value(node.operand)
        if isinstance(node.op, ast.USub):
            return -value
        if isinstance(node.op, ast.Not):
            return ~as_truth(value) if isinstance(value, ir.Expr) else not value
        if isinstance(node.op, ast.Invert):
            return ~value
        return value

    def get_Compare(self, node):
        result, left = None, self.value(node.left)
        for sign, item in zip(node.ops, node.comparators):
            if type(sign) not in COMPARE:
                self.fail(
                    node, f"the comparison {type(sign).__name__} is not supported"
                )
            right = self.value(item)
            holds = COMPARE[type(sign)](left, right)
            result = holds if result is None else result & holds
            left = right
        return result

    def get_BoolOp(self, node):
        stops_at = isinstance(node.op, ast.Or)
        result = self.value(node.values[0])
        for item in node.values[1:]:
            if not isinstance(result, ir.Expr):
                result = result if bool(result) is stops_at else self.value(item)
                continue
            result = self.join(as_truth(result), item, stops_at)
        return result

    def join(self, left, node, is_or):
        """``left and node``; the right side is skipped where it may fault."""
        outer, self.block_out = self.block_out, []
        right = self.value(node)
        before, self.block_out = self.block_out, outer
        right = as_truth(ir.as_expr(right, ir.boolean))
        if not before and is_safe(right):
            return left | right if is_or else left & right
        var = ir.Var(self.fresh("holds"), ir.boolean)
        self.emit(ir.Declare(var, left))
        condition = ~var if is_or else var
        self.emit(ir.If(condition, (*before, ir.Assign(var, right))))
        return var

    def get_IfExp(self, node):
        condition = self.value(node.test)
        if not isinstance(condition, ir.Expr):
            return self.value(node.body if condition else node.orelse)
        sides = []
        for item in (node.body, node.orelse):
            outer, self.block_out = self.block_out, []
            sides.append((self.value(item), self.block_out))
            self.block_out = outer
        (yes, before_yes), (no, before_no) = sides
        if isinstance(yes, Complex) or isinstance(no, Complex):
            self.block_out += before_yes + before_no
            yes, no = Complex.pair(yes, no)
            condition = as_truth(condition)
            return Complex(
                ir.select(condition, yes.real, no.real),
                ir.select(condition, yes.imag, no.imag),
            )
        if not any(isinstance(side, ir.Expr) for side in (yes, no)):
            yes = self.typed(node, yes)
        yes, no = ir.unify(yes, no)
        condition = as_truth(condition)
        if not before_yes and not before_no and is_safe(yes) and is_safe(no):
            return ir.select(condition, yes, no)
        var = ir.Var(self.fresh("choice"), yes.type)
        self.emit(ir.Declare(var, ir.Const(yes.type, 0)))
        self.emit(
            ir.If(
                condition,
                (*before_yes, ir.Assign(var, yes)),
                (*before_no, ir.Assign(var, no)),
            )
        )
        return var

    def place(self, node):
        """The pointer and i64 index of ``name[index]``."""
        pointer = self.find(node.value.id) if isinstance(node.value, ast.Name) else None
        known = isinstance(pointer, (ir.Var, ComplexArray))
        if (
            not known
            or not isinstance(pointer, ComplexArray)
            and not isinstance(pointer.type, ir.Pointer)
        ):
            self.fail(node, "only array parameters and local arrays have elements")
        index = ir.as_expr(self.value(node.slice), ir.i64)
        if not index.type.is_int:
            self.fail(node, f"an index is an integer, not {index.type}")
        return pointer, ir.cast(ir.i64, index)

    def get_Subscript(self, node):
        pointer, index = self.place(node)
        if isinstance(pointer, ComplexArray):
            return pointer.load(index)
        loaded = ir.load(pointer, index)
        return ir.cast(computed(loaded.type.name), loaded)

    # ---- calls

    def get_Call(self, node):
        return self.single(node, self.call(node))

    def single(self, node, result):
        if isinstance(result, (list, tuple)) or result is None:
            self.fail(node, "this call has no single value")
        return result

    def join_atomically(self, node, op):
        """Joins a value with an element of an array, as other threads may do."""
        target, index, value = node.args
        place = ast.Subscript(target, index, ast.Load())
        pointer, index = self.place(ast.copy_location(place, node))
        value = self.value(value)
        if not isinstance(pointer, ComplexArray):
            value = as_type(pointer.type.element, value)
            self.emit(threads.Atomic(op, pointer, index, value))
            return
        for store in pointer.stores(index, self.hold(value)):
            self.emit(threads.Atomic(op, store.pointer, store.index, store.value))

    def call(self, node):
        if not isinstance(node.func, ast.Name) or node.keywords:
            self.fail(node, "call a name with positional arguments")
        callee = self.source.lookup(node.func.id)
        if isinstance(callee, TypeName):
            return self.convert(node, callee)
        if callee is lowest or callee is highest:
            type = computed(self.types[node.args[0].id])
            return ir.Const(type, bounds(type)[callee is highest])
        if callee is is_float:
            kind = self.types[node.args[0].id]
            return kind in PARTS or computed(kind).is_float
        if callee is stored:
            return rounded_to(self.types[node.args[0].value], self.value(node.args[1]))
        if callee is atomic_add or callee is atomic_max:
            return self.join_atomically(node, callee.name.removeprefix("atomic_"))
        if isinstance(callee, Special) or callee is None:
            self.fail(node, f"{node.func.id}(...) cannot be used here")
        values = [self.argument(item) for item in node.args]
        if isinstance(callee, Inline):
            return self.inline(node, callee, values)
        if callee is abs:
            return abs(values[0])
        if callee is min or callee is max:
            return self.extreme(node, callee, values)
        known = getattr(callee, "is_formula", False)
        if not known and getattr(callee, "__module__", None) != LANGUAGE:
            self.fail(node, f"{node.func.id} is not a function of the kernel language")
        return callee(*values)

    def extreme(self, node, callee, values):
        """``min`` and ``max`` of integers; floats must say what becomes of NaN."""
        if not any(isinstance(value, ir.Expr) for value in values):
            return callee(values)
        values = ir.unify(*values)
        if not values[0].type.is_int:
            self.fail(
                node,
                f"{callee.__name__} takes integers: for floats call minimum, "
                "maximum, fmin or fmax",
            )
        result = values[0]
        for value in values[1:]:
            result = ir.Binary(callee.__name__, result, value)
        return result

    def argument(self, node):
        """An argument of a call: a value, several, an array or a record by name."""
        if isinstance(node, ast.Name):
            found = self.find(node.id)
            if found is not None:
                return found
        return self.one_or_several(node)

    def convert(self, node, name):
        value = self.value(node.args[0])
        kind = self.types[name.name]
        if kind in PARTS:
            return Complex.of(value, ir.Type(PARTS[kind]))
        return as_type(computed(kind), value)

    def inline(self, node, helper, values):
        """Copies a helper's body here; its arguments are named first."""
        if len(helper.parameters) != len(values):
            self.fail(
                node,
                f"{helper.name} takes {len(helper.parameters)} arguments, "
                f"not {len(values)}",
            )
        scope = {}
        for (name, _), value in zip(helper.parameters, values):
            plain = not is_symbol(value) or isinstance(value, ir.Var)
            scope[name] = value if plain else self.named(name, value)
        *body, last = helper.tree.body
        state = self.source, self.scopes
        self.source, self.scopes = helper, [scope, {}]
        self.counts.append(count_assignments(helper.tree.body))
        for statement in body:
            self.statement(statement)
        result = None
        if isinstance(last, ast.Return):
            many = isinstance(last.value, ast.Tuple)
            items = last.value.elts if many else [last.value]
            values = [self.hold(self.value(item)) for item in items]
            result = tuple(values) if many else values[0]
        else:
            self.statement(last)
        self.counts.pop()
        self.source, self.scopes = state
        return result

    def hold(self, value):
        """A value fixed now: later assignments to what it reads don't change it."""
        if isinstance(value, (ir.Var, ir.Const)) or not is_symbol(value):
            return value
        return self.named("value", value)


def is_symbol(value):
    """Whether a value is known only when the kernel runs."""
    return isinstance(value, (ir.Expr, Complex))


def is_bound_once(value):
    """Whether a value is no number: an array, a record or several values."""
    if isinstance(value, ir.Var):
        return isinstance(value.type, ir.Pointer)
    return isinstance(value, (tuple, dict, ComplexArray))


def as_load(target):
    """An assignment target as the expression that reads it."""
    if isinstance(target, ast.Name):
        return ast.copy_location(ast.Name(target.id, ast.Load()), target)
    return ast.copy_location(
        ast.Subscript(target.value, target.slice, ast.Load()), target
    )


def as_type(type, value):
    """A value converted to ``type``; a number becomes a literal of it."""
    if isinstance(value, Complex):
        return value.cast(type)
    if isinstance(value, ir.Expr):
        return ir.cast(type, value)
    if type.is_int and isinstance(value, float):
        value = int(value)
    return ir.Const(type, value)


def as_truth(value):
    """A condition: a bool as it is, a number compared with zero."""
    if isinstance(value, Complex):
        return value.cast(ir.boolean)
    if not isinstance(value, ir.Expr):
        return ir.Const(ir.boolean, bool(value))
    return ir.cast(ir.boolean, value)


def is_safe(value):
    """Whether evaluating an expression cannot fault and costs little."""
    if isinstance(value, (ir.Load, ir.Call)):
        return False
    faults = ("floordiv", "mod", "tdiv", "rem", "div")
    if isinstance(value, ir.Binary) and value.op in faults and value.type.is_int:
        return False
    return all(map(is_safe, value.args))


def count_assignments(statements):
    """How often each name is assigned in a block and the blocks inside it."""
    counts = {}
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.Assign):
                targets = node.targets
            elif isinstance(node, ast.AugAssign):
                targets = [node.target, node.target]
            else:
                continue
            for target in targets:
                parts = target.elts if isinstance(target, ast.Tuple) else [target]
                for part in parts:
                    if isinstance(part, ast.Name):
                        counts[part.id] = counts.get(part.id, 0) + 1
    return counts
