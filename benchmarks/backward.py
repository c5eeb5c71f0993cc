"""The reverse sweep over graphs of a few nodes, with the calls that made them."""

from benchmarks.harness import Case, Group, tensors


def product(library):
    a, b = tensors(library, (4,), (4,), requires_grad=True)

    def call():
        (a * b).sum().backward()

    return call


def chain(library):
    (a,) = tensors(library, (4,), requires_grad=True)

    def call():
        x = a
        for _ in range(10):
            x = x * 1.01 + 0.1
        x.sum().backward()

    return call


def perceptron(library):
    x, w1, w2 = tensors(library, (4, 8), (8, 8), (8, 2), requires_grad=True)

    def call():
        (x @ w1).relu().matmul(w2).tanh().mean().backward()

    return call


def sweep_alone(library):
    a, b = tensors(library, (4,), (4,), requires_grad=True)
    loss = (a * b + a).exp().sum()

    def call():
        loss.backward(retain_graph=True)

    return call


def gradients(library):
    a, b = tensors(library, (4,), (4,), requires_grad=True)

    def call():
        library.autograd.grad((a * b).sum(), [a, b])

    return call


def groups(quick):
    """The table's row for ``backward``."""
    cases = [
        Case("(a * b).sum().backward()", product),
        Case("20 pointwise nodes", chain),
        Case("two layers", perceptron),
        Case("the sweep alone, retained graph", sweep_alone),
        Case("autograd.grad of two inputs", gradients),
    ]
    return [Group("backward() of a small graph", 0.25, cases)]
