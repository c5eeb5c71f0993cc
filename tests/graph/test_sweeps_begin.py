"""Sweeps back through compiled functions' results are followed, whatever else hears them."""

import rushlight as rl
from rushlight import nn


def made():
    rl.manual_seed(0)
    module = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3))
    return module, rl.compile(module)


def programs(called):
    return sum(len(one.graphs) for one in called.__dict__["_runner"].backwards.values())


def test_a_sweep_becomes_a_program_though_nothing_is_hooked():
    module, called = made()
    x = rl.ones(2, 3)
    for _ in range(4):
        y = called(x)
        assert y.grad_fn.metadata == {}
        y.sum().backward()
    assert programs(called) == 1


def test_hooks_of_users_are_told_as_ever():
    module, called = made()
    told = []
    for _ in range(4):
        y = called(rl.ones(2, 3))
        y.register_hook(lambda grad: told.append(("tensor", grad.clone())))
        y.grad_fn.register_prehook(
            lambda grads: told.append(("before", grads[0].clone()))
        )
        y.grad_fn.register_hook(lambda after, before: told.append(("after", before[0])))
        y.sum().backward()
    assert [kind for kind, _ in told] == ["tensor", "before", "after"] * 4
    assert all(rl.equal(grad, rl.ones(2, 3)) for _, grad in told)


def test_sweeps_through_one_graph_again_and_through_parts_of_it():
    module, called = made()
    x = rl.ones(2, 3, requires_grad=True)
    wanted = rl.autograd.grad(module(x).square().sum(), x)[0]
    for _ in range(4):
        y = called(x)
        loss = y.square().sum()
        for _ in range(2):
            (found,) = rl.autograd.grad(loss, x, retain_graph=True)
            assert rl.allclose(found, wanted)
        loss.backward(inputs=[x])
        assert rl.allclose(x.grad, wanted)
        x.grad = None


def test_one_result_of_two_compiled_functions():
    module, called = made()
    same = rl.compile(lambda y: y)
    for _ in range(4):
        x = rl.ones(2, 3, requires_grad=True)
        same(called(x)).sum().backward()
        (wanted,) = rl.autograd.grad(module(x).sum(), x)
        assert rl.allclose(x.grad, wanted)
    assert programs(called) == 1
