"""Jacobians, Hessians and gradient checks."""

from . import attempt, scenario


def values(t, *numbers):
    return t.tensor([float(v) for v in numbers], dtype=t.float64)


@scenario
def a_jacobian_of_one_input(t):
    x = values(t, 1, 2, 3)
    return t.autograd.functional.jacobian(lambda x: x * x.sum(), x)


@scenario
def a_jacobian_of_several_inputs_and_outputs(t):
    x, y = values(t, 1, 2), values(t, 3, 4)
    return t.autograd.functional.jacobian(lambda x, y: (x * y, x.sum()), (x, y))


@scenario
def a_hessian(t):
    x = values(t, 1, 2)
    f = t.autograd.functional
    return f.hessian(lambda x: (x * x * x).sum() * x[0], x), f.hessian(
        lambda x, y: (x * y).sum(), (x, values(t, 3, 4))
    )


@scenario
def products_with_vectors(t):
    x, v = values(t, 1, 2), values(t, 1, -1)
    f = t.autograd.functional

    def cube(x):
        return x * x * x

    return (
        f.vjp(cube, x, v),
        f.jvp(cube, x, v),
        f.hvp(lambda x: cube(x).sum(), x, v),
        f.vhp(lambda x: cube(x).sum(), x, v),
        f.vjp(lambda x: cube(x).sum(), x),
    )


@scenario
def a_jacobian_may_stay_in_the_graph(t):
    x = values(t, 1, 2).requires_grad_()
    found = t.autograd.functional.jacobian(lambda x: x * x, x, create_graph=True)
    found.sum().backward()
    return found.detach(), x.grad


@scenario
def right_gradients_pass(t):
    x = values(t, 1, 2).requires_grad_()
    y = values(t, 3, 4).requires_grad_()
    g = t.autograd
    return (
        g.gradcheck(lambda x, y: (x * y).exp(), (x, y)),
        g.gradcheck(lambda x: (x.sum(), x * 2), x),
        g.gradgradcheck(lambda x, y: x * x * y, (x, y)),
        g.gradcheck(lambda x, y: (x * y).exp(), (x, y), fast_mode=True),
    )


def wrong(t):
    class Wrong(t.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 3

    return Wrong.apply


@scenario
def wrong_gradients_are_shown(t):
    x = values(t, 1, 2).requires_grad_()
    kind, name, message = attempt(lambda: t.autograd.gradcheck(wrong(t), (x,)))
    return (
        kind,
        name,
        message.split("\n")[0],
        t.autograd.gradcheck(wrong(t), (x,), raise_exception=False),
        attempt(lambda: t.autograd.gradcheck(wrong(t), (x,), fast_mode=True))[:2],
    )


@scenario
def gradcheck_wants_something_to_check(t):
    x = values(t, 1, 2).requires_grad_()
    return (
        attempt(lambda: t.autograd.gradcheck(lambda x: x * 2, (x.detach(),))),
        attempt(lambda: t.autograd.gradcheck(lambda x: x.detach(), (x,))),
    )


@scenario
def gradcheck_warns_of_single_precision(t):
    x = values(t, 1, 2).to(t.float32).requires_grad_()
    return attempt(lambda: t.autograd.gradcheck(lambda x: x * 2, (x,)))[:2]


@scenario
def gradcheck_finds_random_gradients(t):
    class Random(t.autograd.Function):
        calls = 0

        @staticmethod
        def forward(ctx, a):
            return a * 2

        @staticmethod
        def backward(ctx, grad):
            Random.calls += 1
            return grad * (2 + 1e-6 * (Random.calls % 3))

    x = values(t, 1, 2).requires_grad_()
    return attempt(lambda: t.autograd.gradcheck(Random.apply, (x,)))[:2]
