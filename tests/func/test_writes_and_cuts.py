"""What transformations refuse to write, and what cuts their derivatives off."""

import itertools
import warnings

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch", reason="what PyTorch does is asked of it")


def taken(program, m):
    """The numbers of a program, or the kind of its refusal and the first words."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of batches that run example by example
        try:
            return program(m)
        except RuntimeError as error:
            return str(error)[:60]


def same(ours, theirs):
    if isinstance(ours, str) or isinstance(theirs, str):
        return ours == theirs
    if isinstance(ours, (tuple, list)):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    return ours.shape == theirs.shape and np.allclose(
        ours.detach().numpy(), theirs.detach().numpy(), 1e-5
    )


def pushed(m, f, x):
    return m.func.jvp(f, (x,), (x,))[1]


def dual(m, f, x):
    forward = m.autograd.forward_ad
    with forward.dual_level():
        return forward.unpack_dual(f(forward.make_dual(x, x))).tangent


# -- writes ----------------------------------------------------------------------------

OVERLAPPING = {
    "add_": lambda m, a: a[1:].add_(a[:-1]),
    "copy_": lambda m, a: a[1:].copy_(a[:-1]),
    "mul_ of a row": lambda m, a: a.mul_(a[1:2]),
    "mul_ transposed": lambda m, a: a[:2].mul_(a[:2].t()),
    "addcmul_": lambda m, a: a[1:].addcmul_(a[1:], a[:-1]),
    "lerp_": lambda m, a: a[1:].lerp_(a[:-1], 0.5),
    "index_add_": lambda m, a: a[1:].index_add_(0, m.tensor([0, 1]), a[:-1]),
    "scatter_": lambda m, a: a[1:].scatter_(0, m.tensor([[0, 1]]), a[:-1]),
    "clamp_": lambda m, a: a[1:].clamp_(a[:-1]),
    "sin_ of one element": lambda m, a: a[0].expand(4, 2).sin_(),
    "mul_ of one element": lambda m, a: a[0].expand(4, 2).mul_(3.0),
    "cumsum_ of one element": lambda m, a: a[0].expand(4, 2).cumsum_(0),
    "fill_ of one element": lambda m, a: a[0].expand(4, 2).fill_(3.0),
    "rows": lambda m, a: a[0].mul_(a[1]),
    "row by a number": lambda m, a: a[0].mul_(a[1, 0]),
    "itself": lambda m, a: a[1:].add_(a[1:]),
}
WAYS = {
    "alone": lambda m, f, x: f(x),
    "jvp": pushed,
    "jacfwd": lambda m, f, x: m.func.jacfwd(f)(x),
    "dual_level": dual,
    "grad": lambda m, f, x: m.func.grad(lambda u: f(u).sum())(x),
    "jacfwd of grad": lambda m, f, x: m.func.jacfwd(m.func.grad(lambda u: f(u).sum()))(
        x
    ),
    "grad of jvp": lambda m, f, x: m.func.grad(lambda u: pushed(m, f, u).sum())(x),
}
# PyTorch refuses to differentiate tangents that it has written.
RIGHT = {("rows", "grad of jvp"), ("row by a number", "grad of jvp")}


@pytest.mark.parametrize("write", OVERLAPPING)
@pytest.mark.parametrize("way", WAYS)
def test_memory_that_overlaps_is_refused_under_transformations_as_without(way, write):

    def program(m):
        def f(u):
            a = u * 1
            OVERLAPPING[write](m, a)
            return a * 2

        return WAYS[way](m, f, m.arange(1.0, 7.0).reshape(3, 2))

    ours, theirs = taken(program, rl), taken(program, torch)
    assert same(ours, theirs) != ((write, way) in RIGHT), f"{ours} for {theirs}"


def test_tangents_of_two_batches_meet_in_a_write():
    def program(m):
        def f(u):
            y = u * u
            z = m.zeros_like(u)
            z[0] = y[1]
            part = y.t()[-1]
            part.mul_(z.t()[0].cos())
            y[..., -1] = z[..., 0] * u[..., 0]
            return y

        x = m.arange(1.0, 7.0).reshape(2, 3)
        return m.func.vmap(m.func.jacfwd(m.func.jacfwd(f)))(m.stack([x, x * 0.5]))

    assert same(program(rl), program(torch))


VIEWS = {
    "reshape": lambda a: a.reshape(-1),
    "flatten": lambda a: a.flatten(),
    "contiguous": lambda a: a.contiguous(),
    "slice of reshape": lambda a: a.reshape(-1)[1:],
    "part of reshape": lambda a: a.reshape(2, -1).tensor_split(2)[0],
    "transposed": lambda a: a.swapaxes(0, 1),
}
PAIRS = {
    "the view": lambda a, c: c.mul_(3),
    "the base": lambda a, c: a.mul_(3),
    "both": lambda a, c: (c.sin_(), a.mul_(2)),
    "by a number": lambda a, c: c.fill_(0.5),
}
SEEN = {
    "jvp": lambda m, f, x: m.func.jvp(f, (x,), (x.sin(),))[1],
    "jvp along a tangent in another order": lambda m, f, x: m.func.jvp(
        f, (x,), (x.t().contiguous().t().sin(),)
    )[1],
    "dual_level": dual,
    "functionalize": lambda m, f, x: m.func.functionalize(f)(x),
    "copies for views": lambda m, f, x: m.func.functionalize(
        f, remove="mutations_and_views"
    )(x),
    "jvp of vmap": lambda m, f, x: pushed(
        m, lambda v: m.func.vmap(f, in_dims=1)(m.stack([v, v * 0.9], 1)), x
    ),
}


@pytest.mark.parametrize("way", SEEN)
def test_what_was_copied_where_no_view_was_possible_is_written_apart(way):
    for (view, take), (written, write), turned in itertools.product(
        VIEWS.items(), PAIRS.items(), (False, True)
    ):

        def program(m, take=take, write=write, turned=turned):
            def f(u):
                a = u.t() * 1 if turned else u * 1
                c = take(a)
                write(a, c)
                return a * 2 + c.sum() * a.sum() + c.reshape(-1)[0]

            return SEEN[way](m, f, m.arange(1.0, 7.0).reshape(2, 3))

        ours, theirs = taken(program, rl), taken(program, torch)
        assert same(ours, theirs), f"{view}, {written}: {ours} for {theirs}"


def test_a_view_without_gradients_leaves_the_history_of_its_sources_tangent():
    def program(m):
        def f(u):
            y = u * u
            y.sin_()
            y.mul_(2)
            with m.no_grad():
                part = y.reshape(-1)[1:]
            return (y * part.sum()).sum()

        x = m.arange(1.0, 7.0).reshape(2, 3) * 0.1
        slope = m.func.grad(lambda u: m.func.jacfwd(f)(u).sin().sum())
        return m.func.vmap(slope, in_dims=1)(m.stack([x, x * 2], 1))

    ours, theirs = taken(program, rl), taken(program, torch)
    assert same(ours, theirs), f"{ours} for {theirs}"


def test_a_zero_derivative_is_seen_in_batches():
    def program(m):
        third = m.func.jacfwd(m.func.jacrev(lambda u: u**1 * u.sum() + u**0))
        return m.func.vmap(lambda u: pushed(m, third, u))(m.ones(2, 3))

    assert same(program(rl), program(torch))


# -- cuts ------------------------------------------------------------------------------

CUTS = {
    "Parameter": lambda m, t: m.nn.Parameter(t),
    "_make_subclass": lambda m, t: m.Tensor._make_subclass(m.Tensor, t),
    "data": lambda m, t: t.data,
    "detach": lambda m, t: t.detach(),
    "as_subclass": lambda m, t: t.as_subclass(m.Tensor),
    "view(dtype)": lambda m, t: t.view(m.int32).view(m.float32),
    "view of the same type": lambda m, t: t.view(m.float32),
}
NESTS = {
    "grad": lambda m, f, x: m.func.grad(f)(x),
    "jvp": pushed,
    "dual_level": dual,
    "vmap of grad": lambda m, f, x: m.func.vmap(m.func.grad(f))(m.stack([x, x])),
    "grad of grad": lambda m, f, x: m.func.grad(lambda q: m.func.grad(f)(q).sum())(x),
    "grad of jvp": lambda m, f, x: m.func.grad(lambda q: pushed(m, f, q))(x),
    "jvp of grad": lambda m, f, x: pushed(m, m.func.grad(f), x),
    "jvp of jvp": lambda m, f, x: pushed(m, lambda q: pushed(m, f, q), x),
    "grad of vmap": lambda m, f, x: m.func.grad(
        lambda q: m.func.vmap(f)(m.stack([q, q])).sum()
    )(x),
}


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("nest", NESTS)
def test_derivatives_end_where_pytorchs_do_at_every_level(nest, cut):
    def program(m):
        return NESTS[nest](
            m, lambda u: (CUTS[cut](m, u * 2) * u * u).sum(), m.tensor([1.0, 2.0])
        )

    ours, theirs = taken(program, rl), taken(program, torch)
    assert same(ours, theirs), f"{ours} for {theirs}"


@pytest.mark.parametrize("kind", ["vmap", "grad", "jvp"])
def test_data_is_not_given_under_transformations(kind):
    def assign(t):
        t.data = t * 2
        return t.sum()

    x = rl.ones(2, 3)
    with pytest.raises(RuntimeError, match=r"mutating directly with `\.data`"):
        pushed(rl, assign, x) if kind == "jvp" else getattr(rl.func, kind)(assign)(x)


def test_bytes_of_another_type_are_no_view_and_are_written_through():
    def program(m):
        told = []
        for wanted in (False, True):
            for kind in ("int32", "float16", "float32", "float64", "complex64"):
                x = m.ones(2, 4).requires_grad_(wanted)
                for base in (x, x * 2):
                    view = base.view(getattr(m, kind))
                    again = base.view(getattr(m, kind)).view(m.float32)
                    view.add_(1)
                    told += [
                        (t.requires_grad, t.grad_fn is None, t._is_view(), t._base)
                        for t in (view, again)
                    ]
                    told.append((base._version, base.grad_fn is None))
                    told.append(base.detach().view(m.int32).tolist())
        return told

    assert program(rl) == program(torch)


def test_functions_without_writes_see_bytes_of_another_type():
    def program(m):
        def f(x):
            x.view(m.int32)[1:].add_(1)
            x.view(m.int16).mul_(2)
            return x * 1

        x = m.arange(4.0)
        return m.func.functionalize(f)(x).tolist(), x.tolist()

    assert program(rl) == program(torch)
