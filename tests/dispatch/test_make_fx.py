"""Programs recorded operator by operator are written as PyTorch writes them."""

import importlib

import pytest

import rushlight as rl
from rushlight._subclasses import FakeTensor
from rushlight.fx.experimental.proxy_tensor import (
    disable_proxy_modes_tracing,
    get_proxy_mode,
    make_fx,
)


def gradient(t, x):
    x = x.detach().requires_grad_()
    return t.autograd.grad((x * x).sum(), x)[0]


PROGRAMS = [
    lambda t: lambda x: x + 1,
    lambda t: lambda x: (x @ x).relu().sum(),
    lambda t: lambda x: x.split(1),
    lambda t: lambda x: {"a": x.max(1)[0], "b": [x * 2, 3]},
    lambda t: lambda x: x.detach().clone().add_(1),
    lambda t: lambda x: x.sum(0).view(1, 2),
    lambda t: lambda x: x * t.tensor([1.0, 2.0]),
    lambda t: lambda x: t.nn.functional.softmax(x, -1),
]


@pytest.mark.parametrize("mode", ["real", "fake"])
@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_programs_are_written_as_in_pytorch(program, mode):
    torch = pytest.importorskip("torch")
    from torch.fx.experimental.proxy_tensor import make_fx as theirs

    found = make_fx(program(rl), tracing_mode=mode)(rl.ones(2, 2))
    expected = theirs(program(torch), tracing_mode=mode)(torch.ones(2, 2))
    assert found.code == expected.code


def test_what_was_recorded_computes_the_same():
    x = rl.randn(3)
    traced = make_fx(lambda x: gradient(rl, x.sin()))(x)
    y = rl.randn(3)
    assert rl.equal(traced(y), 2 * y.sin())


def test_what_autograd_saves_is_the_step_that_it_comes_from():
    def program(x):
        x = x.detach().requires_grad_()
        return rl.autograd.grad(x.exp().tanh().sum(), x)[0]

    traced = make_fx(program)(rl.zeros(2))
    assert not [node for node in traced.graph.nodes if node.op == "get_attr"]
    y = rl.randn(2)
    assert rl.allclose(traced(y), program(y))


def test_a_model_is_recorded_with_its_parameters():
    net = rl.nn.Sequential(rl.nn.Linear(3, 4), rl.nn.ReLU(), rl.nn.Linear(4, 2))
    for mode in ("real", "fake"):
        traced = make_fx(net.forward, tracing_mode=mode)(rl.ones(5, 3))
        kinds = [node.op for node in traced.graph.nodes]
        assert kinds.count("placeholder") == 1 and kinds.count("get_attr") == 4
    traced = make_fx(net.forward)(rl.ones(5, 3))
    x = rl.randn(5, 3)
    assert rl.equal(traced(x), net(x))


def test_shapes_are_on_the_steps():
    traced = make_fx(lambda x: x.sum(0), tracing_mode="fake")(rl.ones(2, 3))
    value = next(iter(reversed(traced.graph.nodes))).args[0].meta["val"]
    assert isinstance(value, FakeTensor) and value.shape == (3,)


def test_nests_go_in_and_out():
    traced = make_fx(lambda t: t[0] + t[1]["k"])((rl.ones(2), {"k": rl.ones(2)}))
    assert traced((rl.ones(2), {"k": rl.zeros(2)})).tolist() == [1.0, 1.0]


def test_operators_are_replaced_by_others():
    table = {rl.ops.aten.tanh.default: lambda x: x * 2}
    traced = make_fx(rl.tanh, decomposition_table=table)(rl.ones(2))
    names = [str(node.target) for node in traced.graph.nodes]
    assert "aten.mul.Tensor" in names and "aten.tanh.default" not in names


def test_numbers_are_not_read():
    torch = pytest.importorskip("torch")
    from torch.fx.experimental.proxy_tensor import make_fx as theirs

    with pytest.raises(RuntimeError) as expected:
        theirs(lambda x: x * x.sum().item())(torch.ones(2))
    with pytest.raises(RuntimeError) as found:
        make_fx(lambda x: x * x.sum().item())(rl.ones(2))
    assert str(found.value) == str(expected.value)


def test_a_block_can_be_left_out():
    def program(x):
        assert get_proxy_mode() is not None
        with disable_proxy_modes_tracing():
            rl.ones(3).exp()
        return x + 1

    traced = make_fx(program)(rl.ones(2))
    assert len(traced.graph.nodes) == 3


def test_there_are_three_modes():
    with pytest.raises(ValueError, match="Unexpected tracing type"):
        make_fx(lambda x: x, tracing_mode="odd")


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_an_optimizers_step_is_recorded_as_in_pytorch(mode):
    torch = pytest.importorskip("torch")

    def recorded(lib):
        proxies = importlib.import_module(
            f"{lib.__name__}.fx.experimental.proxy_tensor"
        )

        def step(weight, grad):
            parameter = weight.clone()
            parameter.grad = grad
            with lib.autograd.profiler.record_function("a step"):
                lib.optim.SGD([parameter], lr=0.1, momentum=0.9).step()
            return parameter

        given = lib.ones(2), lib.ones(2)
        graph = proxies.make_fx(step, tracing_mode=mode)(*given)
        return [str(n.target) for n in graph.graph.nodes], graph(*given).tolist()

    assert recorded(rl) == recorded(torch)
