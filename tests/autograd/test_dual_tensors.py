"""Tangents on tensors beside reverse mode, transformations, modules and Functions."""

import copy
import pickle

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.autograd import forward_ad as fw
from rushlight.nn import functional as F

torch = pytest.importorskip("torch")
X, T = [1.0, -2.0, 3.0], [0.5, 1.0, 2.0]


def dual(requires_grad=False):
    x = rl.tensor(X, requires_grad=requires_grad)
    return x, fw.make_dual(x, rl.tensor(T))


def tangent(tensor):
    return fw.unpack_dual(tensor).tangent


def test_reverse_mode_stays_on_in_a_dual_level():
    w = rl.ones(2, requires_grad=True)
    with fw.dual_level():
        assert (w * 3).requires_grad
        assert nn.Linear(1, 1).weight.requires_grad
        x, d = dual(requires_grad=True)
        assert d.requires_grad
        assert rl.autograd.grad((d * d).sum(), x)[0].tolist() == [2.0, -4.0, 6.0]


def test_tangents_of_gradients_are_second_derivatives():
    with fw.dual_level():
        x, d = dual(requires_grad=True)
        (slope,) = rl.autograd.grad((d.exp() * d).sum(), d, create_graph=True)
        found = tangent(slope)
        (third,) = rl.autograd.grad(found.sum(), x)
    x, t = rl.tensor(X), rl.tensor(T)
    rl.testing.assert_close(found.detach(), (x + 2) * x.exp() * t)
    rl.testing.assert_close(third, (x + 3) * x.exp() * t)


def test_parameters_take_part_and_carry_no_tangent_of_their_data():
    with fw.dual_level():
        _, d = dual()
        p = nn.Parameter(rl.tensor(X))
        assert tangent(p * d).tolist() == [0.5, -2.0, 6.0]
        assert tangent(nn.Parameter(d)) is None


def test_parameters_are_made_of_tensors_of_transformations():
    x = rl.tensor(X)
    batch = rl.func.vmap(lambda u: nn.Parameter(u * 2) * 3)(x)
    assert batch.tolist() == [6.0, -12.0, 18.0]
    slope = rl.func.grad(lambda u: (nn.Parameter(u * 2) * u).sum())(x)
    assert slope.tolist() == [2.0, -4.0, 6.0]


def test_copies_and_files_are_of_the_value():
    with fw.dual_level():
        _, d = dual()
        for other in (copy.deepcopy(d), pickle.loads(pickle.dumps(d)), d.data):
            assert other.tolist() == X
            assert tangent(other) is None
        assert "tangent=" in repr(d)
    assert "tangent=" not in repr(d)


def test_tangents_are_not_seen_where_forward_mode_is_off():
    with fw.dual_level():
        _, d = dual()
        with fw._set_fwd_grad_enabled(False):
            assert tangent(d) is None
            product = d * 2
        assert tangent(product) is None
        assert tangent(d).tolist() == T


def test_out_and_jvp_and_sparse_tensors_are_refused():
    x = rl.tensor(X)
    with fw.dual_level():
        _, d = dual()
        with pytest.raises(NotImplementedError, match="it is an out= function"):
            rl.add(d, 1, out=rl.empty(3))
        with pytest.raises(RuntimeError, match="Nested forward mode AD"):
            rl.func.jvp(rl.sin, (x,), (x,))
        with pytest.raises(NotImplementedError, match="storage of SparseTensorImpl"):
            fw.make_dual(x.to_sparse(), x.to_sparse())
        with pytest.raises(RuntimeError, match="already has a forward gradient"):
            fw.make_dual(d, x)
        with pytest.raises(NotImplementedError, match="not been implemented yet"):
            weight = fw.make_dual(rl.ones(2, 2), rl.ones(2, 2))
            rl.embedding_renorm_(weight, rl.tensor([0]), 1.0, 2.0)

    def nested(u):
        with fw.dual_level():
            return u

    with pytest.raises(RuntimeError, match="Nested forward mode AD"):
        rl.func.jvp(nested, (x,), (x,))


@pytest.mark.filterwarnings("ignore:`torch.jit.script")
def test_renormalized_embeddings_keep_the_weights_tangent():
    def look_up(package, level, functional):
        weight = package.tensor([[3.0, 4.0], [0.1, 0.2], [6.0, 8.0]])
        rows = package.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
        with level.dual_level():
            d = level.make_dual(weight, rows)
            out = functional.embedding(package.tensor([0, 1]), d, max_norm=1.0)
            pairs = level.unpack_dual(out), level.unpack_dual(d)
        return [[part.tolist() for part in pair] for pair in pairs]

    theirs = look_up(torch, torch.autograd.forward_ad, torch.nn.functional)
    assert look_up(rl, fw, F)[0][1] == theirs[0][1]
    assert look_up(rl, fw, F)[1][1] == theirs[1][1]


def custom(forward, jvp):
    parts = {"forward": staticmethod(forward), "jvp": staticmethod(jvp)}
    return type("Custom", (rl.autograd.Function,), parts)


def pushed(forward, jvp):
    with fw.dual_level():
        d = fw.make_dual(rl.tensor(X), rl.tensor(T))
        found = custom(forward, jvp).apply(d)
        outputs = found if isinstance(found, tuple) else (found,)
        return [t if t is None else t.tolist() for t in map(tangent, outputs)]


def in_place(ctx, x):
    ctx.mark_dirty(x)
    return x.mul_(2)


def partly(ctx, x):
    signs = x.sign()
    ctx.mark_non_differentiable(signs)
    return x * 2, signs


def saved(ctx, x):
    ctx.save_for_forward(x)
    return x * x


@pytest.mark.parametrize(
    ("forward", "jvp", "expected"),
    [
        (saved, lambda ctx, g: 2 * ctx.saved_tensors[0] * g, [[1.0, -4.0, 12.0]]),
        (partly, lambda ctx, g: (g * 2, None), [[1.0, 2.0, 4.0], None]),
        (lambda ctx, x: x[1:], lambda ctx, g: g[1:], [[1.0, 2.0]]),
        (lambda ctx, x: x, lambda ctx, g: g.view_as(g), [T]),
        (in_place, lambda ctx, g: g.mul_(2), [[1.0, 2.0, 4.0]]),
    ],
)
def test_functions_with_a_context_push_tangents_by_their_jvp(forward, jvp, expected):
    assert pushed(forward, jvp) == expected


@pytest.mark.parametrize(
    ("forward", "jvp", "text"),
    [
        (saved, lambda ctx, g: (g, g), r"invalid number .* \(expected 1 but got 2\)"),
        (saved, lambda ctx, g: 3, r"expected Variable or None \(got int\)"),
        (partly, lambda ctx, g: (g, g), "gradient at position 1, but"),
        (lambda ctx, x: x[1:], lambda ctx, g: g[1:] * 1, "jvp is not returning a view"),
        (lambda ctx, x: x, lambda ctx, g: g, "jvp is not returning a view"),
        (in_place, lambda ctx, g: g * 2, "not modifying the forward mode gradients"),
    ],
)
def test_what_a_jvp_may_not_return_is_refused_in_pytorchs_words(forward, jvp, text):
    with pytest.raises(RuntimeError, match=text):
        pushed(forward, jvp)
