"""Transforms: there and back, Jacobians, caches, shapes, and PyTorch beside them."""

from __future__ import annotations

import pickle

import numpy
import pytest

import rushlight as rl
from rushlight import distributions as D
from rushlight.distributions import constraints as C

torch = pytest.importorskip("torch")

X = numpy.random.default_rng(0).normal(size=(2, 3))


def positive(x):
    return numpy.exp(x)


# Name to what makes the transform from a module, and what goes in.
TRANSFORMS = {
    "abs": (lambda m, d: d.AbsTransform(), X),
    "affine": (lambda m, d: d.AffineTransform(1.0, -2.0), X),
    "affine of tensors": (
        lambda m, d: d.AffineTransform(
            m.tensor([0.5, 1.0, 2.0]), m.tensor([2.0, -0.3, 1.0]), 1
        ),
        X,
    ),
    "cat": (
        lambda m, d: d.CatTransform([d.ExpTransform(), d.TanhTransform()], 1, [1, 2]),
        X,
    ),
    "compose": (
        lambda m, d: d.ComposeTransform(
            [d.ExpTransform(), d.AffineTransform(1.0, 3.0)]
        ),
        X,
    ),
    "compose of vectors": (
        lambda m, d: d.ComposeTransform(
            [d.AffineTransform(0.5, 2.0), d.StickBreakingTransform()]
        ),
        X,
    ),
    "nothing": (lambda m, d: d.ComposeTransform([]), X),
    "correlation": (lambda m, d: d.CorrCholeskyTransform(), X),
    "distribution": (
        lambda m, d: d.CumulativeDistributionTransform(d.Normal(0.0, 1.5)),
        X,
    ),
    "exp": (lambda m, d: d.ExpTransform(), X),
    "inverse": (lambda m, d: d.ExpTransform().inv, positive(X)),
    "independent": (lambda m, d: d.IndependentTransform(d.ExpTransform(), 1), X),
    "cholesky": (lambda m, d: d.LowerCholeskyTransform(), X[:, :2]),
    "positive definite": (lambda m, d: d.PositiveDefiniteTransform(), X[:, :2]),
    "power": (lambda m, d: d.PowerTransform(m.tensor(2.5)), positive(X)),
    "negative power": (lambda m, d: d.PowerTransform(-0.5), positive(X)),
    "reshape": (lambda m, d: d.ReshapeTransform((2, 3), (3, 2)), X),
    "sigmoid": (lambda m, d: d.SigmoidTransform(), X),
    "softmax": (lambda m, d: d.SoftmaxTransform(), X),
    "softplus": (lambda m, d: d.SoftplusTransform(), X),
    "stack": (
        lambda m, d: d.StackTransform([d.ExpTransform(), d.SigmoidTransform()], 0),
        X,
    ),
    "stick breaking": (lambda m, d: d.StickBreakingTransform(), X),
    "tanh": (lambda m, d: d.TanhTransform(), X),
}
each_transform = pytest.mark.parametrize("name", TRANSFORMS)


def made(name, module=rl, **kwargs):
    make, x = TRANSFORMS[name]
    x = module.tensor(x.tolist(), dtype=module.float64)
    return make(module, module.distributions), x


def plain(text):
    return str(text).replace("torch.", "")


@each_transform
def test_values_and_jacobians_are_pytorchs(name):
    results = []
    for module in (rl, torch):
        transform, x = made(name, module)
        y = transform(x)
        values = [y, transform.inv(y)]
        try:
            values.append(transform.log_abs_det_jacobian(x, y))
        except NotImplementedError:
            values.append(None)
        results.append([v if v is None else v.numpy() for v in values])
    for mine, other in zip(*results):
        if other is None:
            assert mine is None
        else:
            numpy.testing.assert_allclose(mine, other, rtol=1e-6, atol=1e-9)
            assert mine.shape == other.shape


@each_transform
def test_kinds_domains_and_shapes_are_pytorchs(name):
    described = []
    for module in (rl, torch):
        transform, x = made(name, module)
        facts = [
            plain(repr(transform)),
            transform.bijective,
            type(transform.inv).__name__,
        ]
        facts += [plain(repr(transform.domain)), plain(repr(transform.codomain))]
        facts += [transform.domain.event_dim, transform.codomain.event_dim]
        shape = tuple(transform.forward_shape(x.shape))
        facts += [shape, tuple(transform.inverse_shape(module.Size(shape)))]
        try:
            facts.append(numpy.asarray(transform.sign).tolist())
        except NotImplementedError:
            facts.append(None)
        described.append(facts)
    assert described[0] == described[1]


@each_transform
def test_the_jacobian_is_that_of_the_map(name):
    transform, x = made(name)
    if not transform.bijective or transform.domain.event_dim > 1:
        pytest.skip("no bijection of numbers or vectors")
    if transform.domain.event_dim == 0 and name not in ("cat", "stack"):
        x = x.reshape(-1).requires_grad_()
        y = transform(x)
        (slope,) = rl.autograd.grad(y.sum(), x)
        expected = slope.abs().log()
    elif transform.domain.event_dim == 1:
        x = x[0].clone().requires_grad_()
        y = transform(x)
        rows = y.reshape(-1)
        if name == "correlation":
            rows = y[rl.ones(3, 3).tril(-1) > 0]
        rows = rows[: x.numel()]
        grads = [rl.autograd.grad(row, x, retain_graph=True)[0] for row in rows]
        jacobian = numpy.stack([g.numpy() for g in grads])
        expected = rl.tensor(numpy.linalg.slogdet(jacobian)[1])
    else:
        pytest.skip("slices have Jacobians of their own")
    found = transform.log_abs_det_jacobian(x, y)
    numpy.testing.assert_allclose(
        found.detach().numpy(), expected.detach().numpy(), rtol=1e-6, atol=1e-8
    )


@each_transform
def test_a_cache_gives_back_the_very_tensors(name):
    transform, x = made(name)
    cached = transform.with_cache()
    assert cached.with_cache() is cached
    y = cached(x)
    assert cached.inv(y) is x
    if not isinstance(transform, D.ComposeTransform):
        assert cached(x) is y
        again = cached.inv(y.clone())
        assert cached(again) is not y


def test_a_cache_holds_one_pair_or_none():
    with pytest.raises(ValueError, match="cache_size must be 0 or 1"):
        D.ExpTransform(cache_size=2)


@each_transform
def test_the_inverse_of_the_inverse_is_the_transform(name):
    transform, x = made(name)
    assert transform.inv.inv is transform
    assert transform == transform
    assert transform.inv == transform.inv
    copied = pickle.loads(pickle.dumps(transform))
    assert copied(x).shape == transform(x).shape


def test_one_scale_for_all_of_an_event_counts_for_each_element():
    x = rl.zeros(2, 3)
    for scale in (2.0, rl.tensor(2.0), rl.full((3,), 2.0), rl.full((1, 3), 2.0)):
        slope = D.AffineTransform(1.0, scale, event_dim=1).log_abs_det_jacobian(x, x)
        assert slope.tolist() == pytest.approx([3 * numpy.log(2.0)] * 2)


def test_transforms_are_equal_where_their_parameters_are():
    assert D.ExpTransform() == D.ExpTransform()
    assert D.ExpTransform() != D.SigmoidTransform()
    assert D.AffineTransform(1.0, 2.0) == D.AffineTransform(1.0, 2.0)
    assert D.AffineTransform(1.0, 2.0) != D.AffineTransform(1.0, 3.0)
    assert D.AffineTransform(rl.zeros(2), 1.0) == D.AffineTransform(0.0, 1.0)
    assert D.PowerTransform(2.0) == D.PowerTransform(rl.tensor(2.0))
    assert D.ComposeTransform([D.ExpTransform()]) == D.ComposeTransform(
        [D.ExpTransform()]
    )


@pytest.mark.parametrize(
    ("transform", "shape"),
    [
        (D.SoftmaxTransform(), ()),
        (D.CorrCholeskyTransform(), (4,)),
        (D.ReshapeTransform((2,), (2, 1)), (3,)),
        (D.IndependentTransform(D.ExpTransform(), 2), None),
    ],
)
def test_shapes_that_do_not_fit_are_value_errors(transform, shape):
    with pytest.raises(ValueError, match="Too few|Shape mismatch|flattened"):
        if shape is None:
            transform(rl.zeros(3))
        else:
            transform.forward_shape(rl.Size(shape))


CONSTRAINTS = {
    "real": None, "real_vector": None, "boolean": None, "positive": None,
    "nonnegative": None, "unit_interval": None, "nonnegative_integer": None,
    "positive_integer": None, "simplex": None, "one_hot": None, "square": None,
    "lower_triangular": None, "lower_cholesky": None, "corr_cholesky": None,
    "symmetric": None, "positive_definite": None, "positive_semidefinite": None,
    "greater_than": (0.5,), "greater_than_eq": (1,), "less_than": (0.5,),
    "interval": (-1.0, 1), "half_open_interval": (0, 1.0), "integer_interval": (0, 2),
    "multinomial": (3,),
}  # fmt: skip
MATRICES = numpy.array(
    [
        [[1.0, 0.0], [0.0, 1.0]],
        [[2.0, 0.5], [0.5, 1.0]],
        [[1.0, 3.0], [3.0, 1.0]],
        [[1.0, 0.0], [0.6, 0.8]],
        [[-1.0, 0.0], [0.2, 0.8]],
        [[0.25, 0.75], [numpy.nan, 0.5]],
    ]
)


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_constraints_judge_and_print_as_pytorchs_do(name):
    judged = []
    for module in (rl, torch):
        constraint = getattr(module.distributions.constraints, name)
        if CONSTRAINTS[name] is not None:
            constraint = constraint(*CONSTRAINTS[name])
        members = constraint.check(module.tensor(MATRICES.tolist()))
        facts = constraint.event_dim, constraint.is_discrete, repr(constraint)
        judged.append((members.tolist(), facts))
    assert judged[0] == judged[1]


@pytest.mark.parametrize("registry", ["biject_to", "transform_to"])
@pytest.mark.parametrize("name", CONSTRAINTS)
def test_registries_lead_into_the_constraint(registry, name):
    outcomes = []
    for module in (rl, torch):
        constraint = getattr(module.distributions.constraints, name)
        if CONSTRAINTS[name] is not None:
            constraint = constraint(*CONSTRAINTS[name])
        try:
            transform = getattr(module.distributions, registry)(constraint)
        except NotImplementedError as error:
            outcomes.append(str(error))
            continue
        x = module.tensor([[0.3, -1.0, 0.2], [0.5, 0.2, 1.0], [-0.2, 0.1, 0.4]])
        y = transform(x)
        assert constraint.check(y).all()
        outcomes.append((type(transform).__name__, y.numpy().round(5).tolist()))
    assert outcomes[0] == outcomes[1]


def test_parts_of_a_tensor_have_constraints_of_their_own():
    both = C.stack([C.positive, C.real], dim=-1)
    assert both.check(rl.tensor([[1.0, -1.0], [-1.0, 1.0]])).tolist() == [
        [True, True],
        [False, True],
    ]
    joined = C.cat([C.positive, C.unit_interval], dim=0, lengths=[1, 2])
    assert joined.check(rl.tensor([3.0, 0.5, 2.0])).tolist() == [True, True, False]
    y = D.biject_to(joined)(rl.tensor([-1.0, -2.0, 2.0]))
    assert joined.check(y).all()
    y = D.transform_to(both)(rl.tensor([[-1.0, -2.0]]))
    assert both.check(y).all()


def test_dependent_constraints_say_what_they_know():
    assert C.is_dependent(C.dependent)
    with pytest.raises(ValueError, match="Cannot determine validity"):
        C.dependent.check(rl.ones(1))
    with pytest.raises(NotImplementedError, match="cannot be determined statically"):
        _ = C.dependent.event_dim
    known = C.dependent(is_discrete=True, event_dim=1)
    assert known.is_discrete
    assert known.event_dim == 1
    assert C.is_dependent(D.Uniform.support)
    assert D.Uniform.support.event_dim == 0


def test_new_constraints_can_be_registered():
    class Even(C.Constraint):
        def check(self, value):
            return value % 2 == 0

    with pytest.raises(NotImplementedError, match="Cannot transform Even constraints"):
        D.transform_to(Even())
    registry = D.constraint_registry.ConstraintRegistry()

    @registry.register(Even)
    def make(constraint):
        return D.AffineTransform(0.0, 2.0)

    assert registry(Even())(rl.tensor(3.0)).item() == 6
    with pytest.raises(TypeError, match="Expected constraint to be either"):
        registry.register(3, make)
