"""Modules' calls that skip their Python while gradients are recorded: the same graph."""

import copy

import pytest

import rushlight as rl
from rushlight import nn
from tests.graph.test_module_segments import CHANGES, Changes, image, net, stretches_of


def stepping(model):
    """A training step without an update: the result, and the gradients of all that learns."""

    def step(x):
        for one in model.parameters():
            one.grad = None
        y = model(x)
        (y[0] if isinstance(y, tuple) else y).square().sum().backward()
        return y

    return step


def taken(compiled):
    return sum(one.times for one in stretches_of(compiled))


def gradients(model):
    return [
        None if one.grad is None else one.grad.clone() for one in model.parameters()
    ]


def same(one, other):
    if one is None or other is None:
        return one is other
    return one.dtype == other.dtype and rl.allclose(one, other, atol=1e-5)


def agrees(model, step, x, seed=1):
    """One step compiled, and one of a copy that is not: results, gradients and buffers."""
    other = copy.deepcopy(model)
    before = [one._version for one in (*model.buffers(), *other.buffers())]
    rl.manual_seed(seed)
    found = step(x)
    drawn = rl.rand(3)
    rl.manual_seed(seed)
    wanted = stepping(other)(x)
    assert rl.equal(drawn, rl.rand(3))
    one, two = (y[0] if isinstance(y, tuple) else y for y in (found, wanted))
    assert one.stride() == two.stride() and same(one, two)
    assert one.requires_grad == two.requires_grad
    assert type(one.grad_fn).__name__ == type(two.grad_fn).__name__
    grads = list(zip(gradients(model), gradients(other), strict=True))
    # a bias before a normalization has no gradient but what is rounded off the others'
    scale = max([float(b.abs().max()) for _, b in grads if b is not None])
    for a, b in grads:
        assert same(a, b) or rl.allclose(a, b, atol=1e-5 * scale)
    for a, b in zip(model.buffers(), other.buffers(), strict=True):
        assert same(a, b)
    after = [one._version for one in (*model.buffers(), *other.buffers())]
    writes = [new - old for new, old in zip(after, before, strict=True)]
    assert writes[: len(writes) // 2] == writes[len(writes) // 2 :]


def settled(model, x):
    step = rl.compile(stepping(model))
    for _ in range(5):
        step(x)
    before = taken(step)
    agrees(model, step, x)
    assert taken(step) > before
    return step


MODELS = {
    "a net in training": lambda: (net().train(), rl.cat([image()] * 3)),
    "a net that answers": lambda: (net(), image()),
    "a perceptron": lambda: (
        nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Dropout(0.3), nn.Linear(4, 2)),
        rl.randn(3, 4),
    ),
    "in place": lambda: (
        nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 2)),
        rl.randn(3, 4),
    ),
    "an encoder": lambda: (nn.TransformerEncoderLayer(8, 2, 16), rl.randn(5, 2, 8)),
    "a recurrent net": lambda: (nn.LSTM(3, 4, 2), rl.randn(5, 2, 3)),
    "words": lambda: (nn.Embedding(5, 3), rl.tensor([[0, 4], [2, 2]])),
}


@pytest.mark.parametrize("name", MODELS)
def test_steps_without_a_modules_python_are_the_steps_with_it(name):
    rl.manual_seed(0)
    model, x = MODELS[name]()
    step = settled(model, x)
    agrees(model, step, x, seed=5)
    if x.is_floating_point():
        agrees(model, step, rl.cat([x, x]))  # another size
        agrees(model, step, x.clone().requires_grad_())
        agrees(model, step, x)


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_a_change_is_seen_where_gradients_are_recorded(name, monkeypatch):
    model, x = net().train(), rl.cat([image()] * 3)
    step = settled(model, x)
    shared = name == "parameters that share memory"
    try:
        CHANGES[name](model, monkeypatch)
        for _ in range(3 if not shared else 0):  # a copy shares nothing
            agrees(model, step, x)
    finally:
        while Changes.undo:
            Changes.undo.pop()()


def test_what_learns_and_what_does_not_is_seen():
    model, x = net().train(), rl.cat([image()] * 3)
    step = settled(model, x)
    model[6].weight.requires_grad_(False)
    for _ in range(3):
        agrees(model, step, x)
    model[6].weight.requires_grad_(True)
    model.eval()
    for _ in range(3):
        agrees(model, step, x)


def test_hooks_on_tensors_and_on_what_is_saved_are_called():
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
    x, seen = rl.randn(3, 4), []
    step = settled(model, x)
    model[0].weight.register_hook(lambda grad: seen.append("grad") or grad * 2)
    step(x)
    assert seen == ["grad"]
    with rl.autograd.graph.saved_tensors_hooks(
        lambda t: seen.append("pack") or t, lambda t: seen.append("unpack") or t
    ):
        step(x)
        found = list(seen)
        del seen[:]
        stepping(model)(x)
    assert found.count("pack") == seen.count("pack") > 0
    assert found.count("unpack") == seen.count("unpack") > 0


def test_gradients_of_gradients_go_through_a_course():
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))

    def penalty(x):
        (first,) = rl.autograd.grad(model(x).sum(), x, create_graph=True)
        return rl.autograd.grad(first.square().sum(), model[0].weight)[0]

    compiled, x = rl.compile(penalty), rl.randn(3, 4, requires_grad=True)
    for _ in range(8):
        assert same(compiled(x), penalty(x))
    assert taken(compiled) > 0


def test_a_module_called_twice_in_one_step_has_two_nodes():
    layer = nn.Linear(4, 4)

    def twice(x):
        layer.zero_grad()
        layer(layer(x).tanh()).sum().backward()
        return layer.weight.grad.clone()

    compiled, x = rl.compile(twice), rl.randn(3, 4)
    for _ in range(8):
        assert same(compiled(x), twice(x))
    assert taken(compiled) > 0


class Tripled(rl.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 3


def custom(self, x):
    return Tripled.apply(x)


def switched(self, x):
    with rl.no_grad():
        scale = x * 2
    return x * scale


def detached(self, x):
    return x * x.data


def test_what_no_operator_does_keeps_a_modules_python():
    """A custom function's node, a switch of gradients, or a tensor made elsewhere."""
    for forward in (custom, switched, detached):
        namespace = dict(vars(nn.modules.activation), Tripled=Tripled, rl=rl)
        kind = type("ReLU", (nn.ReLU,), {"__module__": nn.ReLU.__module__})
        kind.forward = type(forward)(forward.__code__, namespace)
        model, x = nn.Sequential(nn.Linear(4, 4), kind()), rl.randn(3, 4)
        step = rl.compile(stepping(model))
        for _ in range(8):
            agrees(model, step, x)


def test_a_course_keeps_nothing_alive_and_lets_results_go():
    import gc
    import weakref

    x = rl.randn(3, 4)

    @rl.compile
    def step(model):
        model(x).sum().backward()

    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    for _ in range(6):
        step(model)
    assert taken(step) > 0
    gone = [weakref.ref(model), weakref.ref(model[0].weight)]
    del model
    gc.collect()
    assert [ref() for ref in gone] == [None, None]
