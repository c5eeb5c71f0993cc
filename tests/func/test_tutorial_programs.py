"""Programs in the manner of functorch's tutorials compute what they do with PyTorch."""

import numpy as np
import pytest

import rushlight

torch = pytest.importorskip("torch", reason="the oracle is not installed")
pytestmark = [
    # the oracle loads its own formulas of forward mode by something that it deprecates
    pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:There is a performance drop"),
]


def state_of(module):
    return {name: value.detach() for name, value in module.named_parameters()}


def convolutional(t):
    nn = t.nn
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(16, 3),
    )  # fmt: skip


def per_sample_gradients(t):
    net, call = convolutional(t), t.func.functional_call
    images, labels = t.randn(5, 1, 8, 8), t.randint(0, 3, (5,))

    def loss(values, image, label):
        scores = call(net, values, (image.unsqueeze(0),))
        return t.nn.functional.cross_entropy(scores, label.unsqueeze(0))

    for size in (None, 2):
        run = t.func.vmap(t.func.grad(loss), (None, 0, 0), chunk_size=size)
        yield from run(state_of(net), images, labels).values()


def an_ensemble_that_is_trained(t):
    models = [convolutional(t) for _ in range(3)]
    values, buffers = t.func.stack_module_state(models)
    values = {name: value.detach() for name, value in values.items()}
    images, labels = t.randn(5, 1, 8, 8), t.randint(0, 3, (5,))

    def loss(values, buffers):
        scores = t.func.functional_call(models[0], (values, buffers), (images,))
        return t.nn.functional.cross_entropy(scores, labels)

    for _ in range(3):
        slopes, costs = t.func.vmap(t.func.grad_and_value(loss))(values, buffers)
        values = {name: value - 0.1 * slopes[name] for name, value in values.items()}
        yield costs
    yield from values.values()


def jacobians_and_hessians(t):
    func = t.func
    W, b, x, rows = t.randn(5, 7), t.randn(5), t.randn(7), t.randn(3, 7)

    def predict(W, b, x):
        return t.nn.functional.linear(x, W, b).tanh()

    yield func.jacrev(predict, argnums=2)(W, b, x)
    yield func.jacfwd(predict, argnums=2)(W, b, x)
    yield from func.jacrev(predict, argnums=(0, 1))(W, b, x)
    yield func.hessian(predict, argnums=2)(W, b, x)
    yield func.jacrev(func.jacrev(predict, argnums=2), argnums=2)(W, b, x)
    yield func.vmap(func.hessian(predict, argnums=2), (None, None, 0))(W, b, rows)

    def cost(x):
        return predict(W, b, x).pow(3).sum()

    yield func.jvp(func.grad(cost), (x,), (t.ones(7),))[1]
    yield t.linalg.solve(func.hessian(cost)(x) + 9 * t.eye(7), func.grad(cost)(x))


def a_tangent_kernel(t):
    func, net = t.func, convolutional(t)
    values, one, other = state_of(net), t.randn(3, 1, 8, 8), t.randn(2, 1, 8, 8)

    def call(values, image):
        return func.functional_call(net, values, (image.unsqueeze(0),)).squeeze(0)

    first = func.vmap(func.jacrev(call), (None, 0))(values, one)
    second = func.vmap(func.jacrev(call), (None, 0))(values, other)
    pairs = zip(first.values(), second.values())
    yield sum(t.einsum("Naf,Mbf->NMab", a.flatten(2), b.flatten(2)) for a, b in pairs)

    def between(x, y):
        output, pull = func.vjp(lambda values: call(values, x), values)

        def push(vector):
            moved = pull(vector)
            return func.jvp(lambda values: call(values, y), (values,), moved)[1]

        return func.vmap(push)(t.eye(output.numel()))

    yield func.vmap(func.vmap(between, (None, 0)), (0, None))(one, other)


def learning_to_learn(t):
    func, mse = t.func, t.nn.functional.mse_loss
    start = {"w": t.randn(1, 8), "b": t.randn(8), "v": t.randn(8, 1)}
    x = t.randn(4, 5, 1)

    def net(values, x):
        return (x @ values["w"] + values["b"]).relu() @ values["v"]

    def task(values, x):
        for _ in range(2):
            slopes = func.grad(lambda v: mse(net(v, x), x.sin()))(values)
            values = {name: values[name] - 0.05 * slopes[name] for name in values}
        return mse(net(values, x + 1), (x + 1).sin())

    def cost(values):
        return func.vmap(task, (None, 0))(values, x).mean()

    slopes, value = func.grad_and_value(cost)(start)
    yield value
    yield from slopes.values()


def gradients_of_sequences(t):
    func, nn = t.func, t.nn
    layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
    words = nn.Sequential(nn.Embedding(10, 4), nn.Flatten(0), nn.Linear(20, 2))

    def cost(net, make):
        def call(values, x):
            return func.functional_call(net, values, (make(x),)).pow(2).sum()

        return func.vmap(func.grad(call), (None, 0))

    x, places = t.randn(2, 5, 8), t.randint(0, 10, (3, 5))
    yield from cost(layer, lambda x: x[None])(state_of(layer), x).values()
    yield from cost(words, lambda x: x)(state_of(words), places).values()


PROGRAMS = (
    per_sample_gradients, an_ensemble_that_is_trained, jacobians_and_hessians,
    a_tangent_kernel, learning_to_learn, gradients_of_sequences,
)  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.__name__)
def test_the_program_computes_the_same(program):
    found, expected = [], []
    for library, results in ((rushlight, found), (torch, expected)):
        library.manual_seed(0)
        results += [value.detach().numpy() for value in program(library)]
    assert len(found) == len(expected) > 0
    for one, other in zip(found, expected):
        np.testing.assert_allclose(one, other, 2e-4, 2e-5)
