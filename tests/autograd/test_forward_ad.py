"""Dual numbers: tangents go where values go, views and writes in place included."""

import pytest

import rushlight as rl
from rushlight.autograd import forward_ad as fw


def tangent_of(f, x, t):
    with fw.dual_level():
        return fw.unpack_dual(f(fw.make_dual(x, t))).tangent


X, T = rl.tensor([1.0, -2.0, 3.0]), rl.tensor([0.5, 1.0, 2.0])


def test_a_tangent_is_the_derivative_along_it():
    rl.testing.assert_close(tangent_of(lambda x: x**2, X, T), 2 * X * T)
    rl.testing.assert_close(tangent_of(rl.sin, X, T), X.cos() * T)
    rl.testing.assert_close(tangent_of(lambda x: x @ x, X, T), 2 * (X @ T))


def test_a_view_of_a_dual_sees_later_writes_and_a_write_to_a_view_reaches_the_base():
    def f(x):
        y = x.clone()
        row = y[1:]
        y.mul_(x)
        row.add_(x[:2])
        return y

    expected = 2 * X * T + rl.cat([rl.zeros(1), T[:2]])
    rl.testing.assert_close(tangent_of(f, X, T), expected)


def test_tensors_made_inside_take_tangents_in_place():
    def f(x):
        out = rl.zeros(2, 3)
        out[1] = x * 3
        out[0].copy_(x)
        return out

    rl.testing.assert_close(tangent_of(f, X, T), rl.stack([T, 3 * T]))


def test_filling_forgets_the_tangent():
    assert (
        tangent_of(lambda x: x.clone().fill_(2.0) * x, X, T).tolist()
        == (2 * T).tolist()
    )
    assert tangent_of(lambda x: x.clone().zero_(), X, T).tolist() == [0.0, 0.0, 0.0]


def test_reverse_over_forward_gives_second_derivatives():
    x = X.clone().requires_grad_()
    with fw.dual_level():
        y = fw.unpack_dual((fw.make_dual(x, T) ** 3).sum())
    (second,) = rl.autograd.grad(y.tangent, x)
    rl.testing.assert_close(second, 6 * X * T)


def test_integers_and_comparisons_have_no_tangent():
    assert tangent_of(lambda x: x > 0, X, T) is None
    assert tangent_of(lambda x: x.argmax(), X, T) is None
    assert tangent_of(lambda x: x.long(), X, T) is None
    assert tangent_of(lambda x: x.detach(), X, T) is None


def test_a_dual_is_a_value_after_its_level():
    with fw.dual_level():
        dual = fw.make_dual(X, T)
    assert fw.unpack_dual(dual).tangent is None
    assert (dual + 1).tolist() == (X + 1).tolist()


def test_mistakes_are_named():
    with pytest.raises(RuntimeError, match="no level exists"):
        fw.make_dual(X, T)
    with pytest.raises(RuntimeError, match="no level is currently open"):
        fw.exit_dual_level()
    with fw.dual_level():
        with pytest.raises(
            RuntimeError, match="different size than that of the original"
        ):
            fw.make_dual(X, T[:2])
        with pytest.raises(ValueError, match="floating point or complex"):
            fw.make_dual(X.long(), T.long())
        with pytest.raises(RuntimeError, match="Nested forward mode AD"):
            fw.enter_dual_level()


C = rl.tensor([0.3 + 0.4j, -1.0 + 0.2j], dtype=rl.complex128, requires_grad=True)
R = rl.tensor([0.5, -1.2, 2.0], dtype=rl.float64, requires_grad=True)


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (lambda x: x.exp() * x.sum(), R),
        (lambda x: (x.sin(), x[1:] * x[0]), R),
        (lambda x: x.softmax(0).cumsum(0), R),
        (lambda z: z.exp() * z.conj(), C),
        (lambda z: z.abs(), C),
        (lambda z: z.real * z.imag, C),
        (lambda x: rl.complex(x, x * x), R),
    ],
)
def test_both_modes_and_batches_pass_gradcheck_real_and_complex(f, x):
    options = {"check_forward_ad": True, "check_batched_forward_grad": True}
    assert rl.autograd.gradcheck(f, x, check_batched_grad=True, **options)
    assert rl.autograd.gradcheck(f, x, fast_mode=True)
    assert rl.autograd.gradgradcheck(f, x, check_fwd_over_rev=True)


def test_gradcheck_finds_a_wrong_complex_gradient():
    class Wrong(rl.autograd.Function):
        @staticmethod
        def forward(ctx, z):
            return z * 1j

        @staticmethod
        def backward(ctx, grad):
            return grad * 1j  # not conjugated

    with pytest.raises(rl.autograd.GradcheckError, match="Jacobian mismatch"):
        rl.autograd.gradcheck(Wrong.apply, C)


def test_a_batch_of_gradients_is_taken_at_once():
    x = R.clone().detach().requires_grad_()
    y = x.sin() * x.sum()
    starts = rl.randn(4, 3, dtype=rl.float64)
    (found,) = rl.autograd.grad(y, x, starts, retain_graph=True, is_grads_batched=True)
    for start, row in zip(starts, found):
        (one,) = rl.autograd.grad(y, x, start, retain_graph=True)
        rl.testing.assert_close(row, one)


@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
def test_jacobians_and_hessians_agree_whichever_way_they_are_taken(strategy):
    from rushlight.autograd import functional

    def f(x, y):
        return x * y.sum(), (x * x).sum() * y

    a, b = R.detach(), rl.tensor([1.5, 0.5], dtype=rl.float64)
    plain = functional.jacobian(f, (a, b))
    found = functional.jacobian(f, (a, b), vectorize=True, strategy=strategy)
    for row, expected in zip(found, plain):
        for one, other in zip(row, expected):
            rl.testing.assert_close(one, other)

    def scalar(x):
        return (x**3).sum() * x[0]

    rl.testing.assert_close(
        functional.hessian(scalar, a, vectorize=True, outer_jacobian_strategy=strategy),
        functional.hessian(scalar, a),
    )


def test_tangents_are_seen_where_no_level_is_open_and_inside_of_one():
    assert fw._is_fwd_grad_enabled()
    with fw._set_fwd_grad_enabled(False):
        assert not fw._is_fwd_grad_enabled()
    with fw.dual_level():
        assert fw._is_fwd_grad_enabled()
