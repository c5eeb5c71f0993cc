"""Random programs of views and in-place changes have PyTorch's values and gradients."""

import random

import pytest

import rushlight

from .scenarios import attempt
from .test_scenarios import alike

SEEDS = range(60)


def view_of(source, choose):
    """A random view: a row, a slice, a transpose, another shape."""
    kind = choose.choice(["select", "slice", "transpose", "reshape", "unsqueeze"])
    dims = source.dim()
    if kind == "unsqueeze" or dims == 0:
        return source.unsqueeze(0)
    dim = choose.randrange(dims)
    if kind == "select":
        return source.select(dim, choose.randrange(source.shape[dim]))
    if kind == "slice":
        start = choose.randrange(source.shape[dim])
        return source.narrow(dim, start, choose.randint(1, source.shape[dim] - start))
    if kind == "transpose":
        return source.transpose(dim, choose.randrange(dims))
    return source.reshape(-1)


def change(target, others, choose):
    """A random in-place operator, with a scalar or a tensor of the same shape."""
    kind = choose.choice(["mul", "add", "mul_tensor", "add_tensor", "copy", "fill"])
    if kind == "mul":
        target.mul_(1.5)
    elif kind == "add":
        target.add_(0.5)
    elif kind == "fill":
        target.fill_(0.25)
    else:
        fitting = [one for one in others if one.shape == target.shape]
        other = choose.choice(fitting)
        if kind == "mul_tensor":
            target.mul_(other * 0.5)
        elif kind == "add_tensor":
            target.add_(other * 2.0)
        else:
            target.copy_(other * 3.0)


def program(framework, seed):
    """The values and gradients of a random program, or its first error."""
    choose = random.Random(seed)
    values = [[choose.uniform(0.5, 2.0) for _ in range(4)] for _ in range(3)]
    leaf = framework.tensor(values, dtype=framework.float64).requires_grad_()
    tensors = [leaf * 1.0, framework.ones(3, 4, dtype=framework.float64)]
    for _ in range(choose.randint(2, 9)):
        action = choose.choice(["view", "view", "change", "change", "compute"])
        source = choose.choice(tensors)
        if action == "view":
            tensors.append(view_of(source, choose))
        elif action == "change":
            change(source, tensors, choose)
        else:
            tensors.append(source * 1.1 + 0.1)
    loss = sum((one * one).sum() for one in tensors)
    (gradient,) = framework.autograd.grad(loss, leaf, create_graph=True)
    again = None
    if gradient.requires_grad:
        (again,) = framework.autograd.grad(gradient.sum(), leaf, allow_unused=True)
    return tensors, [one.requires_grad for one in tensors], gradient, again


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_program_has_the_oracles_gradients(seed):
    torch = pytest.importorskip("torch", reason="the oracle is not installed")
    found = attempt(lambda: program(rushlight, seed))
    expected = attempt(lambda: program(torch, seed))
    if expected[0] == "error":
        assert found[:2] == expected[:2]
    else:
        assert alike(found, expected), (found, expected)
