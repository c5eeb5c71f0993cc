"""Renders programs as Python that NumPy can run: the readable reference.

The text is both how the intermediate representation prints and, executed by `run`
over the namespace of `reference`, what tests hold the other emitters to.
"""

from rushlight.ir import expr as ir
from rushlight.ir import threads

INFIX = {  # operation -> (Python operator, precedence)
    "or": ("|", 3),
    "xor": ("^", 4),
    "and": ("&", 5),
    "shl": ("<<", 6),
    "shr": (">>", 6),
    "add": ("+", 7),
    "sub": ("-", 7),
    "mul": ("*", 8),
    "div": ("/", 8),
    "floordiv": ("//", 8),
    "mod": ("%", 8),
    "eq": ("==", 2),
    "ne": ("!=", 2),
    "lt": ("<", 2),
    "le": ("<=", 2),
    "gt": (">", 2),
    "ge": (">=", 2),
}
ROWS = {"max": "largest", "min": "smallest", "add": "total"}
PREFIX = {"min": "minimum", "max": "maximum", "tdiv": "trunc_div", "rem": "fmod"}
ATOM, UNARY = 10, 9
LOOPS = {"serial": "range"}


def render(function: ir.Function) -> str:
    """A function as Python source."""
    parameters = ", ".join(map(_parameter, function.parameters))
    if function.grid:
        parameters = f"grid, {parameters}"
    result = f" -> {function.result}" if function.result else ""
    body = render_statements(function.body, 1) or "    pass"
    return f"def {function.name}({parameters}){result}:\n{body}"


def _parameter(var):
    quote = "'" if isinstance(var.type, ir.Pointer) else ""
    return f"{var.name}: {quote}{var.type}{quote}"


def render_statements(statements, depth: int = 0) -> str:
    """Statements as indented Python source lines."""
    lines = []
    for statement in statements:
        lines += RENDERERS[type(statement)](statement, depth)
    return "\n".join(lines)


def render_expr(e) -> str:
    """An expression as Python source."""
    return _render(e)[0]


def _render(e) -> tuple[str, int]:
    """The text and how tightly its outermost operator binds."""
    if isinstance(e, ir.Const):
        return _constant(e), ATOM
    if isinstance(e, ir.Var):
        return e.name, ATOM
    if isinstance(e, ir.Binary):
        return _binary(e)
    if isinstance(e, ir.Unary):
        if e.op == "abs":
            return f"abs({render_expr(e.args[0])})", ATOM
        sign = "-" if e.op == "neg" else "~"
        return sign + _within(e.args[0], UNARY), UNARY
    return CALLS[type(e)](e), ATOM


def _within(e, level):
    text, binds = _render(e)
    return text if binds >= level else f"({text})"


def _number(value):
    if isinstance(value, float) and value != value:
        return "nan"
    return repr(value)


def _constant(e):
    text = f"{e.type.scalar}({_number(e.value)})"
    if e.type.is_bool:
        text = repr(e.value)
    elif e.type == ir.i64:
        text = repr(e.value)
    return text if e.type.lanes == 1 else f"broadcast({text}, {e.type.lanes})"


def _bare(e, *siblings):
    """A literal without its type where a sibling operand already tells it."""
    if isinstance(e, ir.Const) and not all(isinstance(s, ir.Const) for s in siblings):
        return _number(e.value)
    return None


def _binary(e):
    left, right = e.args
    bare_left, bare_right = _bare(left, right), _bare(right, left)
    if e.op not in INFIX:
        name = PREFIX.get(e.op, e.op)
        return (
            f"{name}({bare_left or render_expr(left)}, "
            f"{bare_right or render_expr(right)})"
        ), ATOM
    symbol, level = INFIX[e.op]
    # Comparisons chain in Python, so neither side may hold one bare.
    lower = level + 1 if e.op in ir.COMPARISONS else level
    if bare_left and bare_left.startswith("-"):
        bare_left = f"({bare_left})"
    return (
        f"{bare_left or _within(left, lower)} {symbol} "
        f"{bare_right or _within(right, level + 1)}"
    ), level


def _arguments(args, siblings=None):
    return ", ".join(
        _bare(arg, *(siblings or args)) or render_expr(arg) for arg in args
    )


def _select(e):
    condition, yes, no = e.args
    return f"select({render_expr(condition)}, {_arguments((yes, no))})"


def _reinterpret(e):
    inner = render_expr(e.args[0])
    if isinstance(e.type, ir.Pointer):
        return f"pointer({inner}, {_element(e.type)})"
    return f"{e.type.scalar}.bits({inner})"


def _element(pointer):
    element = pointer.element
    return "address" if isinstance(element, ir.Pointer) else str(element)


def _load(e):
    base, index = _within(e.args[0], ATOM), render_expr(e.args[1])
    if e.mask is not None:
        return f"{base}.lanes({index}, {e.type.lanes}, {render_expr(e.mask)})"
    if e.type.lanes == 1 or e.args[1].type.lanes > 1:
        return f"{base}[{index}]"
    return f"{base}.lanes({index}, {e.type.lanes})"


def _along(e):
    name = f"{ROWS.get(e.op, e.op)}_along({_arguments(e.args)})"
    return name if len(e.monoid.types) == 1 else f"{name}[{e.leaf}]"


def _call_arguments(e):
    """A table's constants keep their type: no other operand tells it."""
    if e.name not in ("lookup", "column"):
        return _arguments(e.args)
    index, *table = e.args
    if e.name == "column":
        place, width, *table = table
        table = table[place.value :: width.value]
    values = ", ".join(_number(c.value) for c in table)
    return f"{render_expr(index)}, {e.type.scalar}, [{values}]"


LOOKUPS = {"column": "lookup"}  # its own column is all that is printed
CALLS = {
    ir.Cast: lambda e: f"{e.type.scalar}({render_expr(e.args[0])})",
    ir.Reinterpret: _reinterpret,
    ir.Select: _select,
    ir.Rarely: lambda e: f"rarely({_arguments(e.args)})",
    ir.Refused: lambda e: f"{e.name}({_arguments(e.args)})",
    ir.AnyLane: lambda e: f"any_lane({_arguments(e.args)})",
    ir.Folded: lambda e: f"fold({_arguments(e.args)})",
    ir.Call: lambda e: f"{LOOKUPS.get(e.name, e.name)}({_call_arguments(e)})",
    ir.Along: _along,
    ir.At: lambda e: f"element_along({_arguments(e.args)})",
    ir.Position: lambda e: "position_along()",
    ir.Place: lambda e: f"grid.{e.name}",
    ir.Exchange: lambda e: f"(yield exchange({render_expr(e.args[0])}, {e.distance}))",
    threads.Invoke: lambda e: f"{e.function.name}({_arguments(e.args, ())})",
    threads.Match: lambda e: f"(yield match({render_expr(e.args[0])}, {e.bits}))",
    ir.UnitProduct: lambda e: (
        f"(yield unit_product({e.place}, {e.packed!r}, {_arguments(e.args)}))"
    ),
    ir.UnitRows: lambda e: (
        f"(yield unit_rows(grid, {e.transposed}, {_arguments(e.args, ())}))"
    ),
    ir.GroupProduct: lambda e: (
        f"(yield group_product(grid, {e.transposed}, {_arguments(e.args, ())}))"
    ),
    ir.AwaitProducts: lambda e: (
        f"(yield await_products(grid, {e.pending}, {render_expr(e.args[0])}))"
    ),
    ir.Load: _load,
    ir.Offset: lambda e: f"{_within(e.args[0], ATOM)}.offset({render_expr(e.args[1])})",
    ir.Broadcast: lambda e: f"broadcast({render_expr(e.args[0])}, {e.lanes})",
    ir.Ramp: lambda e: (
        f"ramp({render_expr(e.args[0])}, {render_expr(e.args[1])}, {e.lanes})"
    ),
    ir.Extract: lambda e: f"{_within(e.args[0], ATOM)}[{e.lane}]",
    ir.Shuffle: lambda e: (
        f"shuffle({render_expr(e.args[0])}, {render_expr(e.args[1])}, {list(e.lanes)})"
    ),
}


def _line(depth, text):
    return ["    " * depth + text]


def _block(statements, depth):
    if not statements:
        return _line(depth, "pass")
    return [render_statements(statements, depth)]


def _assign(s, depth):
    return _line(depth, f"{s.var.name} = {render_expr(s.value)}")


def _array(s, depth):
    if s.shared:
        made = f"grid.shared({s.var.type.element}, {s.size}, {s.var.name!r})"
        return _line(depth, f"{s.var.name} = {made}")
    return _line(depth, f"{s.var.name} = local({s.var.type.element}, {s.size})")


def _store(s, depth):
    base, index = _within(s.pointer, ATOM), render_expr(s.index)
    value = render_expr(s.value)
    if s.mask is not None:
        return _line(depth, f"{base}.put({index}, {value}, {render_expr(s.mask)})")
    if s.value.type.lanes == 1 or s.index.type.lanes > 1:
        return _line(depth, f"{base}[{index}] = {value}")
    return _line(depth, f"{base}.put({index}, {value})")


def _atomic(s, depth):
    base, index = _within(s.pointer, ATOM), render_expr(s.index)
    return _line(depth, f"{base}.join({s.op!r}, {index}, {render_expr(s.value)})")


def _copy(s, depth):
    parts = s.pointer, s.index, s.source, s.place, s.bytes
    return _line(depth, f"grid.copy_async({', '.join(map(render_expr, parts))})")


def _tile_step(s):
    if s.pointer is not None:
        place = ", ".join(map(render_expr, (s.pointer, s.index, s.pitch)))
        return f"tiles.{s.name}({s.tile}, {place})"
    if s.name in ("configure", "release"):
        return f"tiles.{s.name}()"
    if s.name == "zero":
        return f"tiles.zero({s.tile})"
    return f"tiles.multiply({s.name!r}, {s.tile}, {s.left}, {s.right})"


def _for(s, depth):
    name = LOOPS.get(s.kind, s.kind)
    bounds = [render_expr(s.start), render_expr(s.stop)]
    if not isinstance(s.step, ir.Const) or s.step.value != 1:
        bounds.append(render_expr(s.step))
    head = f"for {s.var.name} in {name}({', '.join(bounds)}):"
    return _line(depth, head) + _block(s.body, depth + 1)


def _while(s, depth):
    return _line(depth, f"while {render_expr(s.condition)}:") + _block(
        s.body, depth + 1
    )


def _if(s, depth):
    lines = _line(depth, f"if {render_expr(s.condition)}:") + _block(s.then, depth + 1)
    if s.otherwise:
        lines += _line(depth, "else:") + _block(s.otherwise, depth + 1)
    return lines


RENDERERS = {
    ir.Let: _assign,
    ir.Declare: _assign,
    ir.Assign: _assign,
    ir.Array: _array,
    ir.Barrier: lambda s, depth: _line(depth, "yield barrier"),
    threads.WarpBarrier: lambda s, depth: _line(depth, "yield warp_barrier"),
    threads.Atomic: _atomic,
    ir.CopyAsync: _copy,
    ir.CommitCopies: lambda s, depth: _line(depth, "grid.commit_copies()"),
    ir.AwaitCopies: lambda s, depth: _line(depth, f"grid.await_copies({s.pending})"),
    ir.ShowUnits: lambda s, depth: _line(depth, "grid.show_units()"),
    ir.Store: _store,
    ir.For: _for,
    ir.While: _while,
    ir.If: _if,
    ir.Break: lambda s, depth: _line(depth, "break"),
    ir.Continue: lambda s, depth: _line(depth, "continue"),
    ir.Return: lambda s, depth: _line(depth, f"return {render_expr(s.value)}"),
    ir.TileStep: lambda s, depth: _line(depth, _tile_step(s)),
    ir.Prefetch: lambda s, depth: _line(
        depth, f"prefetch({render_expr(s.pointer)}, {render_expr(s.index)})"
    ),
}


def run(function: ir.Function, pointers, ints, begin: int, end: int) -> int:
    """Runs a kernel through its Python text, as the native kernel would; its faults.

    Args:
        pointers: addresses of the arrays, outputs first.
        ints: the integer arguments.
    """
    from rushlight.codegen.emit import reference

    source = render(function)
    return reference.execute(source, function.name, pointers, ints, begin, end)
