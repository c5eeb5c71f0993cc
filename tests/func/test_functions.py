"""Functions with gradients of their own keep them under transformations."""

import pytest

import rushlight as rl
from rushlight import func


class Cube(rl.autograd.Function):
    """x³ whose written derivative is told from the real one: 30x² for 3x²."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, k):
        return x * x * x * k

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.save_for_forward(inputs[0])
        ctx.k = inputs[1]

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 30 * x * x * ctx.k, None

    @staticmethod
    def jvp(ctx, tangent, _):
        (x,) = ctx.saved_tensors
        return tangent * 300 * x * x * ctx.k


def cube(x):
    return Cube.apply(x, 1.0)


X = rl.tensor([1.0, 2.0])


def test_grad_uses_the_written_backward_at_every_level():
    assert func.grad(lambda x: cube(x).sum())(X).tolist() == [30.0, 120.0]
    twice = func.grad(lambda x: func.grad(lambda x: cube(x).sum())(x).sum())
    assert twice(X).tolist() == [60.0, 120.0]
    w = X.clone().requires_grad_()
    func.vmap(cube)(w).sum().backward()
    assert w.grad.tolist() == [30.0, 120.0]


def test_jvp_uses_the_written_jvp():
    assert func.jvp(cube, (X,), (rl.ones(2),))[1].tolist() == [300.0, 1200.0]


def test_batches_of_gradients_use_the_written_backward():
    assert func.vmap(func.grad(cube))(X).tolist() == [30.0, 120.0]
    assert func.jacrev(cube)(X).tolist() == [[30.0, 0.0], [0.0, 120.0]]
    assert func.vmap(lambda a, b: cube(a) * b, (0, None))(
        X, rl.tensor(2.0)
    ).tolist() == [
        2.0,
        16.0,
    ]


def test_a_written_vmap_is_asked():
    class Own(Cube):
        generate_vmap_rule = False

        @staticmethod
        def vmap(info, in_dims, x, k):
            assert info.batch_size == 2 and in_dims == (0, None)
            return x * 7, 0

    assert func.vmap(lambda x: Own.apply(x, 1.0))(X).tolist() == [7.0, 14.0]


def test_what_a_transformation_lacks_is_named():
    class Old(rl.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    class Bare(Cube):
        generate_vmap_rule = False

    with pytest.raises(RuntimeError, match="must override the setup_context"):
        func.grad(lambda x: Old.apply(x).sum())(X)
    with pytest.raises(RuntimeError, match="does not have vmap support"):
        func.vmap(lambda x: Bare.apply(x, 1.0))(X)


def test_gradients_of_each_example_have_memory_of_their_own():
    x = rl.arange(12.0).reshape(3, 4)
    for function in (lambda x: (2 * x).sum(), lambda x: x[0] + 1):
        grads = rl.vmap(rl.func.grad(function))(x)
        assert grads.stride() == (4, 1)
        twice = (2 * grads).tolist()
        assert grads.mul_(2).tolist() == twice
