"""What is recorded with sizes that stand for any runs with sizes of any kind."""

import pytest

import rushlight as rl
from rushlight._subclasses import FakeTensorMode
from rushlight.fx.experimental.proxy_tensor import make_fx
from rushlight.fx.experimental.symbolic_shapes import ShapeEnv, SymInt, hint_int
from rushlight.nn import functional as F

WEIGHT = rl.arange(12.0).view(2, 6) / 7
TABLE = rl.arange(20.0).view(10, 2) / 3

# Programs of a matrix whose rows are counted by a size that stands for any.
PROGRAMS = {
    "elementwise": lambda x: (x * 2).relu() + x.sin(),
    "product": lambda x: (x @ x.t()).softmax(-1),
    "linear": lambda x: F.linear(x, WEIGHT),
    "flattened": lambda x: x.view(-1),
    "sizes of a view": lambda x: x.view(x.shape[0] * 2, x.shape[1] // 2),
    "heads": lambda x: x.reshape(x.size(0), 2, -1).transpose(0, 1).sum(2),
    "a size computed": lambda x: rl.zeros(x.shape[0] + 1, 3) + 1,
    "a size as a number": lambda x: x.mean() * x.numel() + x.shape[0],
    "divided by a size": lambda x: x.sum(0) / x.shape[0],
    "joined": lambda x: rl.cat([x, x[:1], x], 0),
    "expanded": lambda x: x[:, :1].expand(x.shape[0], x.shape[1]),
    "windows": lambda x: F.conv1d(x.t()[None], rl.ones(1, 6, 3), stride=2),
    "counted": lambda x: rl.arange(x.shape[0]) * x.sum(1),
    "normalized": lambda x: F.layer_norm(x, (6,)) - F.normalize(x),
    "padded": lambda x: F.pad(x, (0, 0, 1, 2)).cumsum(0),
    "in place": lambda x: x.clone().mul_(2).t_().add_(1),
    "written part": lambda x: written(x),
    "places": lambda x: F.embedding(x.argmax(1), TABLE),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
    "gradient": lambda x: gradient(x),
}


def written(x):
    y = rl.zeros_like(x)
    y[1:] = x[:-1]
    return y


def gradient(x):
    x = x.detach().requires_grad_()
    loss = ((x @ x.t()).tanh().sum(0) / x.shape[0]).mean()
    return rl.autograd.grad(loss, x)[0]


def matrix(rows):
    return (rl.arange(rows * 6.0).view(rows, 6) * 0.7).sin()


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_a_record_runs_with_other_sizes(name):
    program = PROGRAMS[name]
    traced = make_fx(program, tracing_mode="symbolic")(matrix(4))
    assert len(traced.shape_env.symbols) >= 1, "all sizes have become constants"
    assert "s75" not in map(str, traced.shape_env.fixed)
    for rows in (3, 4, 5, 9):
        rl.testing.assert_close(traced(matrix(rows)), program(matrix(rows)))


def test_sizes_are_numbers_that_compute():
    env = ShapeEnv()
    n, m = env.symbol(4), env.symbol(6)
    assert isinstance(n, SymInt) and isinstance(n * 2, SymInt)
    assert str((n + 1) * m) == "s0*s1 + s1"
    assert n * m is m * n and n * 2 // 2 is n
    assert n - n == 0 and type(n - n) is int
    assert hint_int(n * m) == 24
    assert env.symbol(4) is n, "equal sizes are one symbol"
    assert env.symbol(1) == 1 and type(env.symbol(1)) is int
    assert not env.guards


def test_what_is_asked_of_a_size_is_noted():
    def program(x):
        if x.shape[0] > 3 and x.shape[0] % 2 == 0:
            return x.relu()
        return x

    traced = make_fx(program, tracing_mode="symbolic")(matrix(4))
    assert traced.shape_env.guards == [("s75 > 3", True), ("Eq(Mod(s75, 2), 0)", True)]


def test_a_size_that_is_read_as_a_number_is_noted():
    def program(x):
        return sum(x[i] for i in range(x.shape[0]))

    traced = make_fx(program, tracing_mode="symbolic")(matrix(4))
    assert [str(one) for one in traced.shape_env.fixed] == ["s75"]
    assert ("Eq(s75, 4)", True) in traced.shape_env.guards


def test_a_size_that_must_be_a_constant_becomes_one():
    traced = make_fx(lambda x: x.view(2, 2, -1), tracing_mode="symbolic")(matrix(4))
    assert traced(matrix(4)).shape == (2, 2, 6)
    fake = [n.meta["val"] for n in traced.graph.nodes if n.op == "placeholder"][0]
    assert fake.shape[0] == 4 and isinstance(fake.shape[1], SymInt)


def test_fake_tensors_show_their_sizes():
    mode = FakeTensorMode(shape_env=ShapeEnv(), static_shapes=False)
    x = mode.from_tensor(matrix(4))
    assert repr(x) == "FakeTensor(..., size=(s26, s49))"
    assert repr(x @ x.t()) == "FakeTensor(..., size=(s26, s26))"
    shapes = [x.view(-1), rl.cat([x, x]), x[1:], x.unfold(1, 2, 2)]
    assert [str(tuple(one.shape)) for one in shapes] == [
        "(s26*s49,)",
        "(2*s26, s49)",
        "(s26 - 1, s49)",
        "(s26, (s49//2), 2)",
    ]
    assert str(x.numel()) == "s26*s49"


@pytest.mark.parametrize("name", ["product", "sizes of a view", "divided by a size"])
def test_the_record_is_pytorchs(name):
    torch = pytest.importorskip("torch", reason="the oracle is not installed")
    from torch.fx.experimental.proxy_tensor import make_fx as their_make_fx

    def targets(traced):
        return [str(n.target) for n in traced.graph.nodes if n.op == "call_function"]

    program = PROGRAMS[name]
    ours = make_fx(program, tracing_mode="symbolic")(matrix(4))
    theirs = their_make_fx(program, tracing_mode="symbolic")(torch.ones(4, 6))
    assert sorted(targets(ours)) == sorted(targets(theirs))
