"""Transformations of functions nest in any order, and agree with PyTorch."""

import itertools

import numpy as np
import pytest

import rushlight
from rushlight import func

torch = pytest.importorskip("torch", reason="the oracle is not installed")
# the oracle loads its own formulas of forward mode by something that it deprecates
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")

# Functions from vectors of four to vectors of four, for either library.
FUNCTIONS = {
    "elementwise": lambda m, x: x.sin() * x.exp() + x**3,
    "product": lambda m, x: m.outer(x, x).tanh() @ x,
    "softmax": lambda m, x: m.softmax(x * 2, 0) * x.sum(),
    "views": lambda m, x: m.stack([x, x * x]).t().reshape(2, 4)[1].flip(0) * x[0],
    "reductions": lambda m, x: x / x.norm() + x.logsumexp(0) + x.var(),
    "indices": lambda m, x: x[[3, 0, 0, 1]] * x.cumsum(0).index_select(0, m.tensor([2, 2, 1, 0])),
    "choices": lambda m, x: m.where(x > 0, x * x, x.exp()) + m.nn.functional.relu(x),
    "in place": lambda m, x: x.clone().mul_(x).add_(x.sum()),
    "written part": lambda m, x: written(m, x),
    "norm": lambda m, x: normed(m, x) * x,
    "sorted": lambda m, x: x.sort().values * x.max() + x.prod(),
}  # fmt: skip


def written(m, x):
    out = m.zeros(4, dtype=x.dtype) * x
    out[1:3] = x[:2] * x[2]
    return out + x


def normed(m, x):
    if m is rushlight:
        return m.nn.functional.layer_norm(x, (4,))
    # PyTorch takes mean and deviation for constants where it goes back over a tangent
    gap = x - x.mean()
    return gap * ((gap * gap).mean() + 1e-5).rsqrt()


def transform(f, kind, library):
    """``f`` under one transformation, again from vectors of four to vectors of four."""
    if kind == "grad":
        return library.grad(lambda x: f(x).pow(2).sum())
    if kind == "jvp":
        return lambda x: library.jvp(f, (x,), (x.cos(),))[1]
    if kind == "vjp":
        return lambda x: library.vjp(f, x)[1](x.cos())[0]
    return lambda x: library.vmap(f)(x.expand(3, 4) * x[:3, None]).sum(0)


X = np.array([0.7, -0.4, 1.3, 0.2])
KINDS = ("grad", "jvp", "vjp", "vmap")


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("pair", list(itertools.product(KINDS, KINDS)), ids="-".join)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_transformation_of_a_transformation_agrees(name, pair):
    results = []
    for module, library in ((torch, torch.func), (rushlight, func)):

        def f(x, module=module):
            return FUNCTIONS[name](module, x)

        for kind in pair:
            f = transform(f, kind, library)
        results.append(f(module.from_numpy(X.copy())).detach().numpy())
    np.testing.assert_allclose(results[1], results[0], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_jacobians_and_hessians_agree(name):
    found = []
    for module, library in ((torch, torch.func), (rushlight, func)):
        x = module.from_numpy(X.copy())

        def f(x, module=module):
            return FUNCTIONS[name](module, x)

        for take in (library.jacrev(f), library.jacfwd(f)):
            found.append(take(x).numpy())
        found.append(library.hessian(lambda x: f(x).sum())(x).numpy())
    for theirs, ours in zip(found[:3], found[3:]):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-10)


def test_gradients_of_captured_tensors_flow_through_a_transformation():
    w = rushlight.tensor([1.0, 2.0, 3.0], requires_grad=True)
    x = rushlight.tensor([0.5, -1.0, 2.0])
    g = func.grad(lambda x: (x * w).sum() * x[0])(x)
    assert g.requires_grad
    g.sum().backward()
    assert w.grad.tolist() == [1.0, -0.5, 2.5]
    plain = func.grad(lambda x: (x * x).sum())(x)
    assert not plain.requires_grad and plain.is_leaf


def test_no_grad_inside_hides_from_the_inner_gradient_only():
    def f(x):
        with rushlight.no_grad():
            c = x * 2
        return (c * x).sum()

    x = rushlight.tensor([1.0, 3.0])
    assert func.grad(f)(x).tolist() == [2.0, 6.0]
    with rushlight.no_grad():
        assert func.grad(lambda x: (x * x).sum())(x).tolist() == [2.0, 6.0]


def test_nothing_is_left_open_by_a_function_that_fails():
    def fails(x):
        raise KeyError("inside")

    for make in (func.grad(fails), func.vmap(fails), func.jacrev(fails)):
        with pytest.raises(KeyError):
            make(rushlight.ones(2))
    x = rushlight.ones(2, requires_grad=True)
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_tensors_that_escape_are_values():
    kept = []
    func.grad(lambda x: kept.append(x) or (x * x).sum())(rushlight.tensor([2.0]))
    assert (kept[0] * 3).tolist() == [6.0]


def test_captured_tensors_are_not_changed_in_place():
    total = rushlight.zeros(2)

    def f(x):
        total.add_(x)
        return x.sum()

    with pytest.raises(RuntimeError, match="mutate a captured Tensor"):
        func.grad(f)(rushlight.ones(2))
    with pytest.raises(RuntimeError, match="being vmapped over in a vmap"):
        func.vmap(f)(rushlight.ones(3, 2))


def test_numbers_of_a_batch_are_refused_and_numbers_of_gradients_are_given():
    with pytest.raises(RuntimeError, match=r"calling \.item\(\)"):
        func.vmap(lambda x: x * x.item())(rushlight.ones(3))
    with pytest.raises(RuntimeError, match="data-dependent control flow"):
        func.vmap(lambda x: x if x > 0 else -x)(rushlight.ones(3))
    with pytest.raises(RuntimeError, match="output dynamic shape"):
        func.vmap(lambda x: x.nonzero())(rushlight.ones(3, 2))
    assert func.grad(lambda x: x * x.item())(rushlight.tensor(3.0)).item() == 3.0


def test_random_operators_follow_the_randomness_of_vmap():
    x = rushlight.zeros(4, 3)
    with pytest.raises(RuntimeError, match="randomness error mode"):
        func.vmap(lambda x: x + rushlight.rand(3))(x)
    same = func.vmap(lambda x: x + rushlight.rand(3), randomness="same")(x)
    assert rushlight.equal(same[0], same[3])
    other = func.vmap(lambda x: x + rushlight.rand(3), randomness="different")(x)
    assert not rushlight.equal(other[0], other[3])


def test_per_sample_gradients_of_a_convolutional_net_agree_with_a_loop():
    rushlight.manual_seed(0)
    net = rushlight.nn.Sequential(
        rushlight.nn.Conv2d(1, 4, 3),
        rushlight.nn.ReLU(),
        rushlight.nn.MaxPool2d(2),
        rushlight.nn.Flatten(),
        rushlight.nn.Linear(36, 5),
    )
    params = {k: v.detach() for k, v in net.named_parameters()}
    x, y = rushlight.randn(6, 1, 8, 8), rushlight.randint(5, (6,))

    def loss(params, x, y):
        out = func.functional_call(net, params, (x.unsqueeze(0),))
        return rushlight.nn.functional.mse_loss(out[0], rushlight.eye(5)[0] * 1.0) + (
            rushlight.nn.functional.log_softmax(out, 1)[0].sum() * 0.1
        )

    found = func.vmap(func.grad(loss), (None, 0, 0))(params, x, y)
    for i in range(6):
        one = func.grad(loss)(params, x[i], y[i])
        for name in one:
            rushlight.testing.assert_close(found[name][i], one[name])


def test_an_ensemble_runs_as_one_model():
    rushlight.manual_seed(0)
    models = [
        rushlight.nn.Sequential(
            rushlight.nn.Linear(3, 8), rushlight.nn.Tanh(), rushlight.nn.Linear(8, 2)
        )
        for _ in range(4)
    ]
    params, buffers = func.stack_module_state(models)
    x = rushlight.randn(5, 3)

    def run(params, buffers, x):
        return func.functional_call(models[0], (params, buffers), (x,))

    found = func.vmap(run, (0, 0, None))(params, buffers, x)
    for model, row in zip(models, found):
        rushlight.testing.assert_close(row, model(x))


@pytest.mark.parametrize("chunk_size", [1, 2, 5, 7])
def test_chunks_change_nothing(chunk_size):
    x = rushlight.randn(5, 3)
    expected = func.vmap(lambda x: (x.sin(), x.sum()))(x)
    found = func.vmap(lambda x: (x.sin(), x.sum()), chunk_size=chunk_size)(x)
    for a, b in zip(found, expected):
        assert rushlight.equal(a, b)
    f = lambda x: x.sin() * x.sum()  # noqa: E731
    rushlight.testing.assert_close(
        func.jacrev(f, chunk_size=chunk_size)(x[0]), func.jacrev(f)(x[0])
    )


def test_mistakes_are_named():
    x = rushlight.ones(3)
    with pytest.raises(RuntimeError, match="scalar Tensor, got tensor with 1 dims"):
        func.grad(lambda x: x)(x)
    with pytest.raises(RuntimeError, match="Got argnum=2"):
        func.grad(lambda x: x.sum(), argnums=2)(x)
    with pytest.raises(ValueError, match="at least one of the inputs|got no inputs"):
        func.vmap(lambda: x)()
    with pytest.raises(ValueError, match="same size in the mapped dimension"):
        func.vmap(lambda a, b: a)(rushlight.ones(2), x)
    with pytest.raises(ValueError, match="dimensionality 1"):
        func.vmap(lambda a: a, in_dims=1)(x)
    with pytest.raises(ValueError, match="must only return Tensors"):
        func.vmap(lambda a: 3)(x)
    with pytest.raises(RuntimeError, match="a different size than that"):
        func.jvp(lambda x: x, (x,), (rushlight.ones(2),))


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("name", ["cross_entropy", "mse_loss", "l1_loss"])
def test_losses_of_examples_agree_with_a_loop(name, reduction):
    rushlight.manual_seed(1)
    x = rushlight.randn(4, 3, 5)
    y = (
        rushlight.randint(5, (4, 3))
        if name == "cross_entropy"
        else rushlight.randn(4, 3, 5)
    )
    loss = getattr(rushlight.nn.functional, name)

    def f(x, y):
        return loss(x, y, reduction=reduction)

    for take in (f, func.grad(f)):
        found = func.vmap(take)(x, y)
        for i in range(4):
            rushlight.testing.assert_close(found[i], take(x[i], y[i]))


@pytest.mark.filterwarnings("error")
def test_single_numbers_of_two_types_promote_as_one_example_would():
    kinds = ("float32", "float64", "bfloat16", "int64", "uint8", "bool", "complex64")
    made = {kind: rushlight.ones(3, dtype=getattr(rushlight, kind)) for kind in kinds}
    for x in made.values():
        for y in made.values():
            for given, dims in (
                ((x, y), (0, 0)),
                ((x, y[0]), (0, None)),
                ((rushlight.stack([x] * 3), y), (0, 0)),
                ((x[0], rushlight.stack([y] * 3)), (None, 0)),
                ((x, y), (0, None)),
            ):
                found = func.vmap(rushlight.mul, in_dims=dims)(*given)
                one = [t if dim is None else t[0] for t, dim in zip(given, dims)]
                assert found.dtype == rushlight.mul(*one).dtype
        assert func.vmap(lambda a: a * 2.5)(x).dtype == (x[0] * 2.5).dtype


@pytest.mark.parametrize("value", [[1.0, 2.0], [0.0], []])
def test_an_operator_that_returns_its_argument_returns_it_in_every_level(value):
    x = rushlight.tensor(value)

    def same(t):
        found = rushlight.ops.aten.resolve_conj(t)
        assert found is t
        return (found * found).sum()

    assert func.grad(same)(x).tolist() == (2 * x).tolist()
    assert func.jvp(same, (x,), (x,))[1].item() == (2 * x * x).sum().item()


RANDOM = {
    "dropout": lambda m, x: m.nn.functional.dropout(x, 0.5),
    "dropout of channels": lambda m, x: m.nn.functional.dropout1d(x.view(2, 2), 0.5),
    "alpha dropout": lambda m, x: m.nn.functional.alpha_dropout(x, 0.5, True),
    "numbers made": lambda m, x: x + m.randn(4, dtype=x.dtype),
    "numbers like": lambda m, x: m.rand_like(x),
    "written": lambda m, x: x.clone().normal_(),
    "an order": lambda m, x: x + m.randperm(4),
    "gumbel": lambda m, x: m.nn.functional.gumbel_softmax(x),
}


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("name", sorted(RANDOM))
@pytest.mark.parametrize("randomness", ["different", "same"])
def test_random_numbers_of_a_batch_are_pytorchs(name, randomness):
    def run(m):
        m.manual_seed(3)
        x = m.from_numpy(np.outer([1.0, 2.0, 3.0], X))
        f = m.func.vmap(lambda one: RANDOM[name](m, one), randomness=randomness)
        return f(x).numpy()

    np.testing.assert_allclose(run(rushlight), run(torch), 1e-6, 1e-6)


@pytest.mark.parametrize("name", sorted(RANDOM))
def test_random_numbers_of_a_batch_are_refused_unless_they_are_asked_for(name):
    x = rushlight.tensor(np.outer([1.0, 2.0, 3.0], X))
    with pytest.raises(RuntimeError, match="while in randomness error mode"):
        func.vmap(lambda one: RANDOM[name](rushlight, one))(x)
    captured = x[0]
    with pytest.raises(RuntimeError, match="while in randomness error mode"):
        func.vmap(lambda one: RANDOM[name](rushlight, captured) + one.sum())(x)


COUNTS = {
    "repeats for each example": lambda m, x, n: x.repeat_interleave(n, dim=0),
    "their places": lambda m, x, n: m.repeat_interleave(n),
    "one for all": lambda m, x, n: x.repeat_interleave(m.tensor(2)),
    "classes": lambda m, x, n: m.nn.functional.one_hot(n, 4),
    "bincount": lambda m, x, n: m.bincount(n, minlength=4),
    "a number everywhere": lambda m, x, n: m.fill(x, x[0]),
}


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("name", sorted(COUNTS))
def test_what_looks_at_numbers_takes_a_batch_where_pytorchs_does(name):
    def run(m):
        x = m.from_numpy(np.outer([1.0, 2.0, 3.0], X))
        n = m.tensor([[1, 2, 0, 1], [0, 0, 3, 1], [1, 1, 1, 1]])
        return m.func.vmap(lambda x, n: COUNTS[name](m, x, n))(x, n).numpy()

    np.testing.assert_array_equal(run(rushlight), run(torch))


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_results_of_two_sizes_and_answers_that_are_no_tensors_are_refused():
    x, n = rushlight.ones(2, 2), rushlight.tensor([[1, 2], [1, 1]])
    with pytest.raises(
        RuntimeError, match="stack expects each tensor to be equal size"
    ):
        func.vmap(lambda x, n: x.repeat_interleave(n))(x, n)
    with pytest.raises(
        RuntimeError, match="Batching rule not implemented for aten::equal"
    ):
        func.vmap(lambda x: x if rushlight.equal(x, x) else -x)(x)
    with pytest.raises(RuntimeError, match="output dynamic shape"):
        func.vmap(rushlight.argwhere)(x)
