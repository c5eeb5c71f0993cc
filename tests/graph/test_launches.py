"""Calls become the launches that they were heard to be; compositions become one call."""

import subprocess
import sys

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.core.state import is_following
from rushlight.graph.steps import CHECK, LOOK, RUN

F = nn.functional


def made_of(function, *args, rounds=3):
    """The last program of a function, once it has run as one, and what it gives."""
    compiled = rl.compile(function)
    for _ in range(rounds):
        result = compiled(*args)
    return compiled._runner.graphs[-1], result, compiled


def kinds(program):
    return [step.kind for step in program.steps]


def noise(*sizes):
    rl.manual_seed(len(sizes))
    return rl.randn(*sizes)


CALLS = {
    "product": (rl.mm, (noise(3, 4), noise(4, 5))),
    "linear": (F.linear, (noise(3, 4), noise(5, 4), noise(5))),
    "convolution": (F.conv2d, (noise(1, 2, 6, 6), noise(3, 2, 3, 3))),
    "pooling": (lambda x: F.max_pool2d(x, 2), (noise(1, 2, 6, 6),)),
    "softmax": (lambda x: F.softmax(x, -1), (noise(3, 5),)),
    "layer norm": (lambda x: F.layer_norm(x, (5,)), (noise(3, 5),)),
    "concatenation": (lambda x: rl.cat([x, x]), (noise(3, 5),)),
    "attention": (F.scaled_dot_product_attention, (noise(1, 2, 4, 8),) * 3),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_becomes_the_launches_that_it_was(name):
    function, args = CALLS[name]
    program, result, compiled = made_of(function, *args)
    assert RUN not in kinds(program), program.code
    for _ in range(2):
        assert rl.equal(compiled(*args), result)
    fresh = [x + 1 for x in args]
    assert rl.allclose(compiled(*fresh), function(*fresh), 1e-5, 1e-6)


def test_a_bad_index_is_refused_in_the_operators_words():
    def pick(x, i):
        return x.gather(0, i) * 2 + x.index_select(0, i[0])

    x, i = noise(4, 2), rl.tensor([[1, 0], [3, 2]])
    compiled = rl.compile(pick)
    for _ in range(3):
        assert rl.equal(compiled(x, i), pick(x, i))
    with pytest.raises((IndexError, RuntimeError)) as expected:
        pick(x, i + 2)
    with pytest.raises(expected.type) as found:
        compiled(x, i + 2)
    assert str(found.value) == str(expected.value)
    assert rl.equal(compiled(x, i), pick(x, i))


def test_a_call_goes_another_way_where_a_value_asks_for_it():
    def slopes(x, w, g):
        return rl.ops.aten.convolution_backward(
            g, x, w, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, True, False]
        )[:2]

    x, w, g = noise(1, 1, 5, 5), noise(1, 1, 3, 3), noise(1, 1, 3, 3)
    program, _, compiled = made_of(slopes, x, w, g)
    assert LOOK in kinds(program) and RUN not in kinds(program)
    w[0, 0, 1, 1] = rl.inf
    for _ in range(2):
        for ours, theirs in zip(compiled(x, w, g), slopes(x, w, g), strict=True):
            assert rl.allclose(ours, theirs, equal_nan=True)


def test_kernels_look_for_bad_indices_where_the_operator_does():
    weight, i = noise(4, 3), rl.tensor([[1, 3], [0, 2]])
    program, _, compiled = made_of(rl.take, weight, i)
    assert (CHECK in kinds(program)) != (RUN in kinds(program))
    with pytest.raises(IndexError):
        compiled(weight, i + 20)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_a_composition_is_one_call_where_nothing_is_recorded(kind):
    layer = getattr(nn, kind)(3, 5, batch_first=True)
    x = noise(2, 4, 3)
    with rl.no_grad():
        expected = layer(x)[0]
        compiled = rl.compile(lambda x: layer(x)[0])
        for _ in range(4):
            assert rl.allclose(compiled(x), expected, 1e-5, 1e-6)
    (call,) = compiled._runner.roots.values()
    path = []
    while call.last is not None:
        path.append(call := call.last)
    ops = [str(part.op) for call in path for part in call.parts or ()]
    assert sum(op.endswith("_sequence.default") for op in ops) == 1
    assert len(path) < 6
    assert layer(x)[0].requires_grad and compiled(x).requires_grad


def test_views_that_a_composition_gives_are_views():
    layer = nn.LSTM(3, 5)
    x = noise(4, 2, 3)
    with rl.no_grad():
        expected = layer(x)
        compiled = rl.compile(layer)
        for _ in range(3):
            found = compiled(x)
        for ours, theirs in zip((found[0], *found[1]), (expected[0], *expected[1])):
            assert ours._is_view() == theirs._is_view()
            assert ours.stride() == theirs.stride()


def test_calls_of_a_composition_that_reads_elements_are_never_one():
    def repeated(x, n):
        return rl.repeat_interleave(x, n, 0) * 2

    compiled = rl.compile(repeated)
    x = noise(3)
    for count in ([1, 2, 3], [0, 0, 1], [2, 2, 2], [1, 2, 3]):
        n = rl.tensor(count)
        assert rl.equal(compiled(x, n), repeated(x, n))


def test_a_default_device_and_modes_take_compositions_as_ever():
    compiled = rl.compile(lambda x: F.gelu(F.linear(x, x)))
    x = noise(3, 3)
    expected = compiled(x)
    with rl.device("cpu"):
        assert rl.allclose(compiled(x), expected)
    assert not is_following()


def test_a_chain_of_sums_holds_no_more_memory_than_its_steps():
    """Twenty products are summed as they come, though one kernel could sum them all."""
    x, weights = noise(64, 64), [noise(64, 64) for _ in range(20)]

    def summed(x):
        found = x @ weights[0]
        for weight in weights[1:]:
            found = found + x @ weight
        return found

    program, _, compiled = made_of(summed, x)
    peaks = []
    for call in (summed, compiled):
        rl.cpu.reset_peak_memory_stats()
        before = rl.cpu.memory_allocated()
        call(x)
        peaks.append(rl.cpu.max_memory_allocated() - before)
    assert peaks[1] <= peaks[0], peaks


def test_compiling_imports_no_graphs():
    """A warm start is short: what only readers and other backends use stays away."""
    script = (
        "import sys, rushlight as rl\n"
        "step = rl.compile(lambda x: (x * 2 + 1).sum())\n"
        "for _ in range(3): step(rl.ones(3))\n"
        "late = ('rushlight.fx', 'rushlight.export')\n"
        "print([name for name in late if name in sys.modules])\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize("wants", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("form", ["whole", "causal", "masked"])
def test_attention_is_within_one_graph(form, wants):
    """Queries that see no key are known without looking at elements."""
    q = noise(2, 3, 5, 8).requires_grad_(wants)
    mask = noise(5, 5) > 0
    mask[2] = False
    settings = {
        "whole": {},
        "causal": {"is_causal": True},
        "masked": {"attn_mask": mask},
    }

    def attend(q):
        return F.scaled_dot_product_attention(q * 2, q, q, **settings[form]).relu()

    expected = attend(q)
    program, result, compiled = made_of(attend, q)
    rl.testing.assert_close(result, expected)
    assert len(compiled._runner.graphs) == 1
    if wants:
        found, wanted = (
            rl.autograd.grad(one.sum(), q)[0] for one in (result, expected)
        )
        rl.testing.assert_close(found, wanted)
    if form == "masked":
        assert not result[:, :, 2].any()


def test_a_composition_that_cannot_be_one_call_is_followed_by_its_operators():
    """Its operands have no numbers before an operator meets them."""
    x = rl.complex(noise(5, 4), noise(5, 4)).requires_grad_()
    weight = rl.complex(noise(5, 4), noise(4, 5).t())

    def slope(function):
        result = function(x)
        return rl.autograd.grad(result, x, weight)[0]

    expected = slope(lambda x: rl.logcumsumexp(x, 0))  # its gradient is a conjugate
    compiled = rl.compile(lambda x: rl.logcumsumexp(x, 0))
    for _ in range(4):
        rl.testing.assert_close(slope(compiled), expected)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("both_ways", [False, True], ids=["forwards", "both-ways"])
def test_a_direction_that_learns_is_one_operator_each_way(kind, both_ways):
    """Compiled, it has the uncompiled one's bits, and launches without an operator."""

    def made():
        rl.manual_seed(4)
        layer = getattr(nn, kind)(3, 5, batch_first=True, bidirectional=both_ways)
        update = rl.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)
        x = noise(2, 4, 3)

        def step():
            update.zero_grad()
            loss = layer(x)[0].square().sum()
            loss.backward()
            update.step()
            return loss

        return step, layer

    plain, layer = made()
    step, other = made()
    compiled = rl.compile(step)
    for _ in range(5):
        assert rl.equal(plain(), compiled())
    for ours, theirs in zip(layer.parameters(), other.parameters(), strict=True):
        assert rl.equal(ours, theirs)
    (program,) = compiled._runner.graphs
    names = [str(step.op) for step in program.graph.steps]
    for end in ("_sequence.default", "_sequence_backward.default"):
        assert sum(name.endswith(end) for name in names) == 1 + both_ways
    assert not any("_sequence" in str(s.details) for s in program.steps if s.is_call)


@pytest.mark.parametrize("dims", [(2, 1, 0), (0, 2, 1, 3), (3, 1, 4, 0, 2), (1, 0)])
def test_copies_over_any_number_of_loops_are_launches(dims):
    """Also in tiles, where both operands lie densest along other loops."""
    sizes = [40, 33] if len(dims) == 2 else [3, 20, 4, 19, 2][: len(dims)]

    def moved(x):
        return x.permute(*dims).contiguous().exp()

    x = noise(*sizes)
    compiled = rl.compile(moved)
    for _ in range(4):
        assert rl.equal(compiled(x), moved(x))
    (program,) = compiled._runner.graphs
    assert not any(step.is_call for step in program.steps)


def test_programs_see_kernels_that_libraries_give_operators_later():
    """Outside, and in the middle of a call; so they do when a library takes them back."""

    def inner(x):
        return rl.sin(x.exp() + 1)

    def outer(x):
        y = inner(x)
        if change:
            change.pop()()
        return y + inner(x)

    def register():
        library.impl("sin", lambda x: x * 3, "CPU")

    x, change = noise(4, 5), []
    library = rl.library.Library("aten", "IMPL")
    compiled, whole = rl.compile(inner), rl.compile(outer)
    for _ in range(3):
        before = compiled(x), whole(x)
    register()
    for _ in range(3):
        wanted = (x.exp() + 1) * 3
        assert rl.equal(compiled(x), wanted) and rl.equal(whole(x), wanted + wanted)
    library._destroy()
    for _ in range(3):
        assert rl.equal(compiled(x), before[0]) and rl.equal(whole(x), before[1])
    change.append(register)
    assert rl.equal(whole(x), before[0] + wanted)
    library._destroy()
    assert rl.equal(whole(x), before[1])
