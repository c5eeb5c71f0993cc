"""Before and after of each pass."""

from rushlight.codegen.emit.python import render_statements
from rushlight.codegen.lower import lower, lower_in_steps
from rushlight.codegen.passes.collapse_loops import collapse_loops
from rushlight.codegen.passes.fold_indices import fold_indices
from rushlight.codegen.passes.mask_branches import mask_branches
from rushlight.codegen.passes.name_shared import name_shared
from rushlight.codegen.passes.narrow_divisions import narrow_divisions
from rushlight.codegen.passes.partition_loops import partition_loops
from rushlight.codegen.passes.prune_branches import prune_branches
from rushlight.codegen.passes.remove_unused import remove_unused
from rushlight.codegen.passes.vectorize_loops import vectorize_loops
from rushlight.ir import expr as ir
from rushlight.ir.expr import Const, Var, boolean, f32, i64, load

p = Var("p", ir.Pointer(f32))
i, n, t = Var("i", i64), Var("n", i64), Var("t", i64)
bind = ir.Let(p, ir.argument(0, f32))
one = Const(f32, 1)


def after(step, *body):
    return render_statements(step(ir.kernel("k", body)).body)


def test_fold_indices_simplifies_addresses():
    store = ir.Store(p, (ir.BEGIN * 4 + 8) // 4, one)
    assert after(fold_indices, bind, store).splitlines()[1] == "p[begin + 2] = f32(1.0)"


def test_narrow_divisions_divides_indices_in_32_bits():
    row = ir.Let(n, ir.BEGIN // ir.integer(0))
    store = ir.Store(p, (n + ir.integer(1)) % ir.integer(2), one)
    assert after(narrow_divisions, bind, row, store).splitlines()[1:] == [
        "n = i64(u32(begin) // u32(ints[0]))",
        "p[i64(u32(n + ints[1]) % u32(ints[2]))] = f32(1.0)",
    ]


def test_narrow_divisions_leaves_what_may_be_negative_or_large():
    data = ir.Let(t, load(Var("d", ir.Pointer(i64)), 0))
    tree = [ir.BEGIN - ir.integer(0), ir.BEGIN * ir.integer(0), t, n]
    body = [
        ir.Declare(n, ir.BEGIN),
        *(ir.Store(p, e // ir.integer(1), one) for e in tree),
    ]
    function = ir.kernel("k", (bind, data, *body))
    assert render_statements(narrow_divisions(function).body) == render_statements(
        function.body
    )


def test_prune_branches_keeps_the_side_that_runs():
    yes, no = ir.Store(p, ir.BEGIN, one), ir.Store(p, ir.END, one)
    choice = ir.If(Const(boolean, False), (yes,), (no,))
    assert after(prune_branches, bind, choice).splitlines()[1] == "p[end] = f32(1.0)"


def test_prune_branches_drops_loops_that_never_run():
    loop = ir.For(i, Const(i64, 3), Const(i64, 3), (ir.Store(p, i, one),))
    assert after(prune_branches, bind, loop) == render_statements((bind,))


def test_remove_unused_follows_chains():
    chain = [ir.Let(n, ir.integer(0)), ir.Let(t, n + 1)]
    assert after(remove_unused, bind, *chain, ir.Store(p, ir.BEGIN, one)) == (
        "p = pointer(data[0], f32)\np[begin] = f32(1.0)"
    )


def test_remove_unused_drops_a_local_that_only_feeds_itself():
    body = [ir.Declare(t, ir.BEGIN), ir.Assign(t, t + 1)]
    assert after(remove_unused, *body) == ""


def test_name_shared_computes_each_shared_value_once():
    x = Var("x", f32)
    square = x * x
    lets, (tree,) = name_shared([square + square * 2])
    assert render_statements(lets) == "v0 = x * x"
    assert repr(tree) == "v0 + v0 * 2.0"


def test_vectorize_loops_takes_places_at_a_fixed_distance():
    away = ir.Store(p, n * 4 + t + i, load(p, t + n + i) + one)
    strided = ir.Store(p, i * n, load(p, i))
    for store, wide in ((away, True), (strided, False)):
        loop = ir.For(i, Const(i64, 0), n, (store,), kind="vectorized")
        lets = ir.Let(n, ir.integer(0)), ir.Let(t, ir.integer(1))
        text = after(vectorize_loops, bind, *lets, loop)
        assert ("vectorized" not in text) == wide


def test_vectorize_loops_chooses_one_value_or_all_ahead_of_the_loop():
    lone, y = Var("lone", boolean), Var("y", f32)
    lets = (
        ir.Let(n, ir.integer(0)),
        ir.Let(lone, n == 7),
        ir.Let(y, load(p, n)),
    )
    inside = Var("inside", f32)
    for one, ahead in ((y, True), (inside, False)):
        body = (
            ir.Let(inside, load(p, i + n)),
            ir.Store(p, i, ir.Select(lone, one, load(p, i)) + inside),
        )
        loop = ir.For(i, Const(i64, 0), n, body, kind="vectorized")
        text = after(vectorize_loops, bind, *lets, loop)
        assert ("along" in text) == ahead
        assert text.index("if lone") < text.index("for i") if "along" in text else True


def test_vectorize_loops_masks_what_is_read_where_a_condition_holds():
    inside = (i > 0) & (i < n)
    there = ir.select(inside, i + t, Const(i64, 0))
    lets = ir.Let(n, ir.integer(0)), ir.Let(t, ir.integer(1))
    for condition, wide in ((inside, True), (i > 0, False)):
        value = ir.select(condition, load(p, there), one)
        loop = ir.For(i, Const(i64, 0), n, (ir.Store(p, i, value),), kind="vectorized")
        text = after(vectorize_loops, bind, *lets, loop)
        assert ("vectorized" not in text) == wide
        assert ("select(" in text.split("p.lanes(")[-1]) != wide


def halving(value, type):
    """A loop that halves an element for as long as it is above one."""
    x = Var("x", type)
    halve = ir.While(x > Const(type, 1), (ir.Assign(x, value(x)),))
    body = (ir.Declare(x, load(p, i)), halve, ir.Store(p, i, x))
    return ir.For(i, Const(i64, 0), n, body, kind="vectorized")


def test_mask_branches_lets_lanes_wait_for_the_last():
    loop = halving(lambda x: x / 2, f32)
    text = after(mask_branches, bind, ir.Let(n, ir.integer(0)), loop)
    assert text.splitlines()[3:] == [
        "for i in rolled(0, stop_v2, 16):",
        "    mask_v1 = ramp(i, 1, 16) < broadcast(stop_v2, 16)",
        "    x = p.lanes(i, 16, mask_v1)",
        "    going_v3 = mask_v1",
        "    while True:",
        "        going_v3 = going_v3 & (x > 1.0)",
        "        if ~any_lane(going_v3):",
        "            break",
        "        x = select(going_v3, x / 2.0, x)",
        "    p.put(i, x, mask_v1)",
    ]


def test_mask_branches_leaves_what_could_do_harm_in_lanes_that_wait():
    elsewhere = halving(lambda x: load(p, ir.cast(i64, x)), f32)
    text = after(mask_branches, bind, ir.Let(n, ir.integer(0)), elsewhere)
    assert "for i in rolled(0, n):" in text


def test_lowering_reports_every_step():
    program = ir.kernel("k", (bind, ir.Store(p, ir.BEGIN + 0, load(p, ir.END))))
    steps = list(lower_in_steps(program))
    assert [name for name, _ in steps] == [
        "built",
        "vectorize_loops",
        "mask_branches",
        "fold_indices",
        "prune_branches",
        "remove_unused",
    ]
    assert str(steps[-1][1]) == str(lower(program))
    assert "p[begin] = p[end]" in str(steps[-1][1])


def nest(*inside):
    """Rows of ``n`` elements, with statements between the two loops."""
    inner = ir.For(t, Const(i64, 0), n, (ir.Store(p, i * n + t, one),))
    return ir.For(i, ir.BEGIN, ir.END, (*inside, inner))


def test_collapse_loops_counts_the_innermost_turns():
    size = ir.Let(n, ir.integer(0))
    assert after(collapse_loops, bind, size, nest()).splitlines()[2:] == [
        "for item in range(begin, end):",
        "    i = item // n",
        "    t = item % n",
        "    p[i * n + t] = f32(1.0)",
    ]


def test_collapse_loops_stops_at_what_writes_between_loops():
    size, write = ir.Let(n, ir.integer(0)), ir.Store(p, i, one)
    lines = after(collapse_loops, bind, size, nest(write)).splitlines()
    assert "    p[i] = f32(1.0)" in lines
    assert "    for t in range(0, n):" in lines


def test_collapse_loops_stops_at_extents_that_move():
    size = ir.Let(n, i + 1)
    lines = after(collapse_loops, bind, nest(size)).splitlines()
    assert "    for t in range(0, n):" in lines


def rows_of(kind, first, last, condition):
    """A loop of ten turns over one of six that write where a condition holds."""
    inner = ir.For(n, Const(i64, 0), Const(i64, 6), (condition,), kind="unrolled")
    return ir.For(i, first, last, (inner,), kind=kind)


def test_partition_loops_asks_only_where_a_tail_is():
    at = i * 6 + n
    store = ir.If(at < 56, (ir.Store(p, at, one),))
    loop = rows_of("serial", Const(i64, 0), Const(i64, 10), store)
    found = prune_branches(partition_loops(ir.kernel("k", (bind, loop))))
    assert render_statements(found.body[1:]) == (
        "for i in range(0, 9):\n"
        "    for n in unrolled(0, 6):\n"
        "        p[i * 6 + n] = f32(1.0)\n"
        "for i in range(9, 10):\n"
        "    for n in unrolled(0, 2):\n"
        "        p[i * 6 + n] = f32(1.0)"
    )


def test_partition_loops_divides_what_threads_share_at_both_borders():
    at = i + n - 2
    inside = (at >= 0) & (at < 9)
    store = ir.Store(p, i, ir.select(inside, load(p, at), one))
    loop = rows_of("parallel", ir.BEGIN, ir.END, store)
    parts = partition_loops(ir.kernel("k", (bind, loop))).body[1:]
    heads = [render_statements((part,)).partition("\n")[0] for part in parts]
    assert heads == [
        "for i in parallel(begin, minimum(end, 2)):",
        "for i in parallel(maximum(begin, 2), minimum(end, 6)):",
        "for i in parallel(maximum(begin, 6), end):",
    ]
    asked = [
        "select" in render_statements(lower(ir.kernel("k", (bind, s))).body)
        for s in parts
    ]
    assert asked == [True, False, True]
