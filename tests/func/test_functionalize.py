"""A function without its writes computes what it did, and writes nowhere on the way."""

import random

import pytest

import rushlight as rl
from rushlight.func import functionalize, grad, jvp, vmap
from rushlight.fx.experimental.proxy_tensor import make_fx

VIEWS = {
    "view": lambda x: x.view(-1) if x.is_contiguous() else x,
    "reshape": lambda x: x.reshape(4, 3) if x.numel() == 12 else x,
    "transpose": lambda x: x.transpose(0, -1),
    "permute": lambda x: x.permute(*reversed(range(x.dim()))),
    "select": lambda x: x.select(0, 0) if x.dim() > 1 else x,
    "slice": lambda x: x[1:],
    "every other": lambda x: x[..., ::2],
    "diagonal": lambda x: x.diagonal() if x.dim() == 2 else x,
    "unsqueeze": lambda x: x.unsqueeze(1),
    "squeeze": lambda x: x.squeeze(),
    "split": lambda x: x.split(2)[0],
    "unbind": lambda x: x.unbind()[-1] if x.dim() > 1 else x,
    "chunk": lambda x: x.chunk(2, -1)[-1],
    "windows": lambda x: x.unfold(0, 1, 1),
    "strides": lambda x: x.as_strided((2,), (1,)),
    "detach": lambda x: x.detach(),
}
WRITES = {
    "add": lambda x: x.add_(1),
    "multiply": lambda x: x.mul_(2),
    "copy": lambda x: x.copy_(rl.ones(())),
    "fill": lambda x: x.fill_(3),
    "zero": lambda x: x.zero_(),
    "item": lambda x: x.__setitem__(0, 5.0) if x.dim() else x.add_(1),
    "masked": lambda x: x.masked_fill_(x > 2, -1.0),
    "clamp": lambda x: x.clamp_(0.5, 4.0),
    "out": lambda x: rl.sin(x.clone(), out=x),
    "turned": lambda x: x.t_().add_(1).t_() if x.dim() == 2 else x.neg_(),
}


# What autograd refuses, or takes for a constant, where the program writes.
NO_GRADIENT = {"split", "unbind", "chunk", "detach", "out"}


def program(seed, without=frozenset()):
    """A program that looks at its argument's memory and writes there, both at random."""
    chosen = random.Random(seed)
    views, writes = sorted(VIEWS.keys() - without), sorted(WRITES.keys() - without)
    steps = [
        (chosen.choice(views), chosen.choice(writes), chosen.random()) for _ in range(5)
    ]

    def run(x):
        y = x.clone()
        windows = [y]
        for view, write, which in steps:
            source = windows[int(which * len(windows))]
            if not source.numel() or source.dim() == 0:
                continue
            window = VIEWS[view](source)
            windows.append(window)
            if window.numel():
                WRITES[write](window)
        return [y, *[w + 0 for w in windows], sum(w.sum() for w in windows)]

    return run


def elements(seed):
    rl.manual_seed(seed)
    return rl.randn(3, 4) * 2


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("remove", ["mutations", "mutations_and_views"])
def test_values_are_those_of_the_program_that_writes(seed, remove):
    x = elements(seed)
    # copies have strides of their own, which these ask for
    without = (
        {"strides", "view", "reshape"} if remove == "mutations_and_views" else set()
    )
    run = program(seed, without)
    for one, other in zip(functionalize(run, remove=remove)(x), run(x), strict=True):
        rl.testing.assert_close(one, other)


@pytest.mark.parametrize("seed", range(0, 30, 5))
def test_nothing_that_is_recorded_writes(seed):
    traced = make_fx(functionalize(program(seed)))(elements(seed))
    written = [
        node.target
        for node in traced.graph.nodes
        if node.op == "call_function" and getattr(node.target, "form", 0)
    ]
    assert not written


@pytest.mark.parametrize("seed", range(0, 30, 4))
def test_gradients_and_batches_nest_with_it(seed):
    def total(x):
        return program(seed, NO_GRADIENT)(x)[-1]

    x = elements(seed)
    expected = grad(total)(x)
    for found in (grad(functionalize(total))(x), functionalize(grad(total))(x)):
        rl.testing.assert_close(found, expected)
    moved = jvp(functionalize(total), (x,), (x.cos(),))[1]
    rl.testing.assert_close(moved, jvp(total, (x,), (x.cos(),))[1])


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_a_batch_of_it_and_it_of_a_batch_agree():
    def f(x):
        y = x.clone()
        y[1:].mul_(x[0])
        y.view(-1)[0] = 3.0
        return y

    x = elements(0)
    for found in (vmap(functionalize(f))(x), functionalize(vmap(f))(x)):
        rl.testing.assert_close(found, rl.stack([f(row) for row in x]))


def test_arguments_that_are_written_to_are_written_once_at_the_end():
    def f(x, y):
        x.t().add_(y)
        x[0] = 7
        return x.sum()

    def run(function):
        x = rl.ones(2, 2)
        return function(x, rl.ones(2)).item(), x.tolist()

    assert run(functionalize(f)) == run(f)
    traced = make_fx(functionalize(f))(rl.ones(2, 2), rl.ones(2))
    written = [
        str(n.target) for n in traced.graph.nodes if getattr(n.target, "form", 0)
    ]
    assert written == ["aten.copy_.default"]


def test_captured_tensors_stay_what_they_are():
    captured = rl.zeros(2)

    def f(x):
        captured.add_(x)
        return captured

    with pytest.raises(RuntimeError, match="mutating a non-functional tensor"):
        functionalize(f)(rl.ones(2))
    assert captured.tolist() == [0, 0]


def test_what_is_to_be_removed_has_two_names():
    with pytest.raises(RuntimeError, match="received invalid argument for remove=all"):
        functionalize(rl.sin, remove="all")


PROGRAMS = {
    "views": "y = x.clone()\nz = y.view(-1)\nz.add_(1)\nreturn y",
    "select": "y = x.clone()\ny[0].mul_(2)\nreturn y.sum()",
    "twice": "y = x + 1\ny.mul_(x).relu_()\nreturn y",
}


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_the_record_has_pytorchs_operators_but_for_windows_nobody_looks_at(name):
    torch = pytest.importorskip("torch", reason="the oracle is not installed")
    from torch.fx.experimental.proxy_tensor import make_fx as their_make_fx

    body = "\n".join("    " + line for line in PROGRAMS[name].splitlines())
    space = {}
    exec(f"def f(x):\n{body}\n", space)

    def targets(traced):
        traced.graph.eliminate_dead_code()
        return [str(n.target) for n in traced.graph.nodes if n.op == "call_function"]

    ours = make_fx(functionalize(space["f"]))(rl.ones(2, 3))
    theirs = their_make_fx(torch.func.functionalize(space["f"]))(torch.ones(2, 3))
    assert targets(ours) == targets(theirs)
