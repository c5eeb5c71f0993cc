"""Grad modes, writes on views, zero gradients and nests under transformations.

Every program runs on both libraries: values, shapes, containers and exceptions agree.
"""

import itertools
import warnings
from collections import OrderedDict

import pytest

import rushlight as rl

torch = pytest.importorskip("torch", reason="the oracle is not installed")


class Pair:
    """A container that both libraries are told of."""

    def __init__(self, a, b):
        self.a, self.b = a, b


for library in (rl, torch):
    library.utils._pytree.register_pytree_node(
        Pair, lambda pair: ([pair.a, pair.b], None), lambda parts, _: Pair(*parts)
    )


def plain(result):
    """What a program gives, as numbers and names of types."""
    if isinstance(result, (rl.Tensor, torch.Tensor)):
        kind = str(result.dtype).rpartition(".")[2]
        # one zero is as good as the other
        return tuple(result.shape), kind, (result.detach() + 0).tolist()
    if isinstance(result, Pair):
        return "Pair", plain(result.a), plain(result.b)
    if isinstance(result, dict):
        return type(result).__name__, {key: plain(v) for key, v in result.items()}
    if isinstance(result, (tuple, list)):
        return type(result).__name__.rpartition(".")[2], [plain(v) for v in result]
    return result


def answer(program, m):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return plain(program(m))
        except (RuntimeError, TypeError, ValueError) as error:
            return type(error).__name__
        finally:
            m.set_grad_enabled(True)


def agree(program):
    wanted, found = answer(program, torch), answer(program, rl)
    assert same(found, wanted), f"{found} for {wanted}"


def same(left, right):
    if isinstance(left, float) and isinstance(right, float):
        return abs(left - right) <= 1e-5 * max(1, abs(right))
    if isinstance(left, (tuple, list)) and isinstance(right, (tuple, list)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return list(left) == list(right) and all(same(left[k], right[k]) for k in left)
    return left == right


# -- grad modes ------------------------------------------------------------------------

MODES = {
    "no_grad": lambda m: m.no_grad(),
    "set_grad_enabled": lambda m: m.set_grad_enabled(False),
    "inference_mode": lambda m: m.inference_mode(),
    "enable_grad in no_grad": lambda m: m.enable_grad(),
}
INNER = {
    "vmap": lambda m, f: lambda q: m.func.vmap(f)(q).sum(),
    "jvp": lambda m, f: lambda q: m.func.jvp(f, (q,), (m.ones_like(q),))[1],
    "value of jvp": lambda m, f: lambda q: m.func.jvp(f, (q,), (m.ones_like(q),))[0],
    "grad": lambda m, f: lambda q: m.func.grad(f)(q).sum(),
    "vjp": lambda m, f: lambda q: m.func.vjp(f, q)[1](m.ones(()))[0].sum(),
    "jacrev": lambda m, f: lambda q: m.func.jacrev(f)(q).sum(),
    "jacfwd": lambda m, f: lambda q: m.func.jacfwd(f)(q).sum(),
}


def backward(m, function):
    def gradient(q):
        q = q.clone().requires_grad_()
        function(q).backward()
        return q.grad

    return gradient


OUTER = {"grad": lambda m, f: m.func.grad(f), "backward": backward}


@pytest.mark.parametrize("outer", OUTER)
@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("mode", MODES)
def test_a_grad_mode_inside_holds_for_outer_levels(mode, inner, outer):
    def program(m):
        def f(u):
            with MODES[mode](m):
                z = u * 2
            return (u * z).sum()

        x = m.tensor([[1.0, 2.0, 3.0]])
        return OUTER[outer](m, INNER[inner](m, f))(x)

    agree(program)


@pytest.mark.parametrize("kind", ["vmap", "grad", "vjp", "jvp"])
def test_a_grad_mode_outside_holds_for_what_leaves_a_transformation(kind):
    def program(m):
        def f(u):
            with m.enable_grad():
                return (u * u).sum()

        q = m.ones(2, 3, requires_grad=True)
        with m.no_grad():
            if kind == "vjp":
                pull = m.func.vjp(f, q)[1]
                inside = pull(m.ones(()))[0]
            elif kind == "jvp":
                inside = m.func.jvp(f, (q,), (q.detach(),))[1]
            else:
                inside = getattr(m.func, kind)(f)(q)
        return inside.requires_grad

    agree(program)


def test_a_target_computed_without_gradients_is_constant_to_outer_gradients():
    def program(m):
        def loss(w, x):
            with m.no_grad():
                target = (w * x).sin()
            return ((w * x).cos() - target).square().sum()

        x = m.tensor([[0.3, 1.0], [2.0, -1.0]])
        total = lambda w: m.func.vmap(loss, in_dims=(None, 0))(w, x).sum()  # noqa: E731
        return m.func.grad(total)(m.tensor([0.5, -0.2]))

    agree(program)


def test_gradients_are_taken_in_inference_mode():
    def program(m):
        with m.inference_mode():
            x = m.tensor([1.0, 2.0])
            cube = lambda u: (u**3).sum()  # noqa: E731
            inside = [
                m.func.grad(cube)(x),
                m.func.grad(lambda u: m.func.grad(cube)(u).sum())(x),
                m.func.jvp(cube, (x,), (x,)),
                m.func.jacrev(lambda u: u**3)(x),
                m.func.hessian(cube)(x),
                m.func.vmap(lambda u: u * 2)(x),
            ]
        return [*inside, m.func.grad(cube)(x)]

    agree(program)


@pytest.mark.parametrize("outer", ["grad", "jacrev", "vjp"])
def test_the_tangent_of_a_view_without_gradients_is_constant_to_outer_ones(outer):
    def program(m):
        def f(u):
            y = u * u
            with m.no_grad():
                part = y.view(-1)[1:]
            return (y.sum() * part.sin()).sum()

        x = m.tensor([[0.3, 1.0], [2.0, -1.0]])
        along = lambda q: m.func.jvp(f, (q,), (q.cos(),))[1]  # noqa: E731
        if outer == "vjp":
            return m.func.vjp(along, x)[1](m.ones(()))
        return getattr(m.func, outer)(along)(x)

    agree(program)


# -- writes on views -------------------------------------------------------------------


def write_first_row(m, t):
    y = t.t().clone()  # not row-major
    y[0] = y[-1] * 2
    return y


def write_columns(m, t):
    y = (t.t() * 1).contiguous().t()
    y[:, 0].mul_(t[:, 1])
    y.t()[1].add_(y[:, 0])
    return y


def write_through_permuted(m, t):
    y = t.unsqueeze(0).permute(2, 1, 0).clone()
    y.squeeze(2).t()[1:].copy_(t[:-1].sin())
    return y


def write_imaginary_parts(m, t):
    y = m.complex(t, t * 2).t().clone()
    m.view_as_real(y)[..., 1].mul_(t.t())
    y.conj()[0].mul_(2)
    return m.view_as_real(y * y)


def write_slices_of_slices(m, t):
    y = t.flip(1).clone()
    part = y[1:][:, ::2]
    part.exp_()
    part.zero_()
    part[0] += t[0, 1]
    return y * t


WRITES = [
    write_first_row,
    write_columns,
    write_through_permuted,
    write_imaginary_parts,
    write_slices_of_slices,
]
BATCHED = {
    "jacrev": lambda m, f, x: m.func.jacrev(f)(x),
    "jacrev in chunks": lambda m, f, x: m.func.jacrev(f, chunk_size=2)(x),
    "one row at a time": lambda m, f, x: m.func.jacrev(f, chunk_size=1)(x),
    "jacfwd": lambda m, f, x: m.func.jacfwd(f)(x),
    "jacobian": lambda m, f, x: m.autograd.functional.jacobian(f, x, vectorize=True),
    "vmap": lambda m, f, x: m.func.vmap(m.func.grad(lambda t: f(t).sin().sum()))(
        m.stack([x, x * 2])
    ),
    "vmap of the last": lambda m, f, x: m.func.vmap(
        m.func.grad(lambda t: f(t).sin().sum()), in_dims=2
    )(m.stack([x, x * 2], 2)),
    "hessian": lambda m, f, x: m.func.hessian(lambda t: f(t).sin().sum())(x),
    "jacrev of jacrev": lambda m, f, x: m.func.jacrev(
        m.func.jacrev(lambda t: f(t).sin().sum())
    )(x),
}


@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.__name__)
@pytest.mark.parametrize("way", BATCHED)
def test_writes_on_views_are_differentiated_in_batches(way, write):
    x = [[1.0, 2.0], [3.0, 0.5], [0.25, 1.5]]
    agree(lambda m: BATCHED[way](m, lambda t: write(m, t), m.tensor(x)))


@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.__name__)
def test_a_graph_made_outside_is_differentiated_in_batches(write):
    def program(m):
        x = m.tensor([[1.0, 2.0], [3.0, 0.5], [0.25, 1.5]], requires_grad=True)
        y = write(m, x)
        starts = m.eye(y.numel()).reshape(-1, *y.shape)
        return m.autograd.grad(y, x, starts, is_grads_batched=True)

    agree(program)


def test_a_tangent_is_written_into_zeros_of_all_examples():
    def program(m):
        def f(t):
            y = m.zeros_like(t)
            row = y[1:]
            y[0] = t[1] ** 2
            row.copy_(t[:1] * row)
            row.add_(t[0].sin())
            return (y * t).sum()

        x = m.tensor([1.0, 2.0])
        ways = (m.func.jacrev, m.func.jacfwd)
        both = itertools.product(ways, ways)
        return [m.func.hessian(f)(x), *(a(b(f))(x) for a, b in both)]

    agree(program)


# -- zero gradients --------------------------------------------------------------------

ZEROS = {
    "grad": lambda m, f, x: m.func.vmap(m.func.grad(f))(x),
    "grad of columns": lambda m, f, x: m.func.vmap(m.func.grad(f), in_dims=1)(x),
    "vjp": lambda m, f, x: m.func.vmap(lambda u: m.func.vjp(f, u)[1](m.ones(())))(x),
    "jvp": lambda m, f, x: m.func.vmap(lambda u: m.func.jvp(f, (u,), (u,)))(x),
    "jacrev": lambda m, f, x: m.func.vmap(m.func.jacrev(f))(x),
    "jacfwd": lambda m, f, x: m.func.vmap(m.func.jacfwd(f))(x),
    "hessian": lambda m, f, x: m.func.vmap(m.func.hessian(f))(x),
    "grad of vmap": lambda m, f, x: m.func.grad(
        lambda q: m.func.vmap(m.func.grad(f))(q).sum()
    )(x),
    "one of two": lambda m, f, x: m.func.vmap(
        m.func.grad(lambda u, v: f(u) + v.sum(), argnums=(0, 1))
    )(x, x),
}


@pytest.mark.parametrize("way", ZEROS)
def test_zero_gradients_have_the_shape_of_their_input(way):
    def program(m):
        return ZEROS[way](m, lambda u: (u > 0).float().sum(), m.ones(2, 4))

    agree(program)


def test_every_derivative_of_a_power_is_zero_at_last():
    def program(m):
        def after(count):
            f = lambda x: x**2  # noqa: E731
            for _ in range(count):
                f = m.func.grad(f)
            return f(m.tensor(3.0))

        x = m.tensor(3.0, requires_grad=True)
        y = x**2
        for _ in range(3):
            (y,) = m.autograd.grad(y, x, create_graph=True)
        return [after(count) for count in range(5)], y

    agree(program)


# -- nests -----------------------------------------------------------------------------

NESTS = {
    "sort": lambda m, u: m.sort(u),
    "max": lambda m, u: u.max(0),
    "topk": lambda m, u: u.topk(2),
    "svd": lambda m, u: m.linalg.svd(m.diag(u)),
    "slogdet": lambda m, u: m.linalg.slogdet(m.diag(u)),
    "ordered": lambda m, u: OrderedDict(b=u, a=u * 2),
    "registered": lambda m, u: Pair(u, [u * 2]),
}


def pulled(m, f, x):
    value, pull = m.func.vjp(f, x)
    return value, pull(m.utils._pytree.tree_map(m.ones_like, value))


TAKEN = {
    "vmap": lambda m, f, x: m.func.vmap(f)(x),
    "jvp": lambda m, f, x: m.func.jvp(f, (x[0],), (x[0],)),
    "vjp": lambda m, f, x: pulled(m, f, x[0]),
    "jacrev": lambda m, f, x: m.func.jacrev(f)(x[0]),
    "jacfwd": lambda m, f, x: m.func.jacfwd(f)(x[0]),
    "grad's aux": lambda m, f, x: m.func.grad(lambda u: (u.sum(), f(u)), has_aux=True)(
        x[0]
    ),
    "vmap of grad's aux": lambda m, f, x: m.func.vmap(
        m.func.grad(lambda u: (u.sum(), f(u)), has_aux=True)
    )(x),
    "jvp's aux": lambda m, f, x: m.func.jvp(
        lambda u: (u.sum(), f(u)), (x[0],), (x[0],), has_aux=True
    ),
}


@pytest.mark.parametrize("nest", NESTS)
@pytest.mark.parametrize("way", TAKEN)
def test_a_nest_comes_out_as_it_is(way, nest):
    def program(m):
        x = m.tensor([[3.0, 1.0, 2.0], [6.0, 5.0, 4.0]])
        return TAKEN[way](m, lambda u: NESTS[nest](m, u), x)

    agree(program)


def test_a_registered_container_goes_in():
    def program(m):
        x = m.tensor([[3.0, 1.0, 2.0], [6.0, 5.0, 4.0]])
        product = lambda pair: (pair.a * pair.b).sum()  # noqa: E731
        shared = {"a": 0, "b": None}
        return [
            m.func.vmap(lambda pair: Pair(pair.a * 2, pair.b))(Pair(x, x)),
            m.func.grad(product)(Pair(x, x * 2)),
            m.func.jvp(product, (Pair(x, x),), (Pair(x, x),)),
            m.func.vmap(lambda d: d["a"] + d["b"], in_dims=(shared,))(
                {"a": x, "b": x[0]}
            ),
        ]

    agree(program)


# -- what is taken and what is refused -------------------------------------------------


def batch_norm(m):
    norm = m.nn.BatchNorm1d(3)
    parameters, buffers = dict(norm.named_parameters()), dict(norm.named_buffers())
    x = m.tensor([[1.0, 2.0, 3.0], [3.0, 4.0, 7.0]])

    def loss(parameters, buffers):
        y = m.func.functional_call(norm, (parameters, buffers), x)
        return y.square().sum(), buffers

    return m.func.grad(loss, has_aux=True)(parameters, buffers), buffers


def flat_hessian(m):
    x = m.tensor([1.0, 2.0])
    return [
        m.autograd.functional.hessian(lambda u: u.sum(), x, vectorize=True),
        m.autograd.functional.hessian(
            lambda u, v: (u + v).sum(), (x, x), vectorize=True
        ),
    ]


def jacobian_without_a_graph(m):
    jacobian = m.autograd.functional.jacobian
    f = m.func.grad(lambda t: jacobian(lambda u: u**3, t).sum())
    return f(m.tensor([1.0, 2.0]))


def jacobian_with_a_graph(m):
    jacobian = m.autograd.functional.jacobian
    f = m.func.grad(lambda t: jacobian(lambda u: u**3, t, create_graph=True).sum())
    return f(m.tensor([1.0, 2.0]))


PROGRAMS = [
    batch_norm,
    flat_hessian,
    jacobian_without_a_graph,
    jacobian_with_a_graph,
    lambda m: m.func.jacrev(lambda t: t * t)(m.tensor([1 + 1j, 2])),
    lambda m: m.func.jacrev(lambda t: t * (1 + 2j))(m.tensor([1.0, 2.0])),
    lambda m: m.func.jacfwd(lambda t: t * t)(m.tensor([1 + 1j, 2])),
    lambda m: m.func.grad(lambda t: t.sum())(m.tensor([1, 2])),
    lambda m: m.func.grad(lambda t: t)(2.0),
    lambda m: m.func.vmap(lambda t: 3, out_dims=None)(m.ones(2)),
    lambda m: m.func.vmap(lambda t: 3)(m.ones(2)),
    lambda m: m.func.vmap(lambda t: (t, t))(m.ones(2), out_dims=(0,)),
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_is_taken_and_refused_is_pytorchs(program):
    agree(program)


def test_a_rule_for_batches_is_given_the_dimensions_in_lists():
    def program(m):
        class Scaled(m.autograd.Function):
            @staticmethod
            def forward(a, factors):
                return a * factors[0] + factors[1]["shift"]

            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.factor = inputs[1][0]

            @staticmethod
            def backward(ctx, grad):
                return grad * ctx.factor, None

            @staticmethod
            def vmap(info, dims, a, factors):
                seen.append(dims)
                return Scaled.apply(a, factors), 0

        seen = []
        x = m.tensor([[3.0, 1.0], [6.0, 5.0]])
        apply = lambda a, b: Scaled.apply(a, [b, {"shift": a}])  # noqa: E731
        f = m.func.vmap(apply)
        return f(x, x * 2), str(seen)

    agree(program)
