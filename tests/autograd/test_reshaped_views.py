"""Views that are reshaped in place keep their values and their gradients."""

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

VIEWS = {
    "view_as_real": lambda m, x: m.view_as_real(x),
    "real": lambda m, x: x.real,
    "imag": lambda m, x: x.imag,
    "conj": lambda m, x: x.conj(),
    "conj of a row": lambda m, x: x[0].conj(),
    "select": lambda m, x: x[0],
    "imag of conj": lambda m, x: x.conj().imag,
}
# In place, and the same out of place: PyTorch forgets the reshaping where a view is
# replayed (of another type, or conjugated), so it is asked the second.
RESHAPES = {
    "transpose_": (lambda v: v.transpose_(0, -1), lambda v: v.transpose(0, -1)),
    "t_": (lambda v: v[0].t_(), lambda v: v[0].t()),
    "squeeze_": (lambda v: v.squeeze_(), lambda v: v.squeeze()),
    "squeeze_ of a dimension": (lambda v: v.squeeze_(0), lambda v: v.squeeze(0)),
    "unsqueeze_": (lambda v: v.unsqueeze_(0), lambda v: v.unsqueeze(0)),
    "swapaxes_": (lambda v: v.swapaxes_(0, -1), lambda v: v.swapaxes(0, -1)),
    "swapdims_": (lambda v: v.swapdims_(0, 1), lambda v: v.swapdims(0, 1)),
    "as_strided_": (
        lambda v: v.as_strided_((2,), (2,)),
        lambda v: v.as_strided((2,), (2,)),
    ),
    "two of them": (
        lambda v: v.transpose_(0, -1).unsqueeze_(1),
        lambda v: v.transpose(0, -1).unsqueeze(1),
    ),
}


def complex_leaf(m, grad):
    return m.tensor([[[1 + 5j, 2 + 6j], [3 + 7j, 4 + 8j]]], requires_grad=grad)


def described(view):
    plain = view.detach().resolve_conj().resolve_neg()
    return tuple(view.shape), view.stride(), view.storage_offset(), plain.tolist()


def gradient_of_view(m, view, reshape):
    leaf = complex_leaf(m, True)
    shown = reshape(VIEWS[view](m, leaf * 1))
    (shown * shown.detach().conj()).real.sum().backward()
    return described(shown), leaf.grad.resolve_conj().tolist()


def gradient_of_base(m, view, reshape):
    """The gradient where the base learns of it after the view was reshaped."""
    weight = m.tensor(2.0, requires_grad=True)
    base = complex_leaf(m, False)
    shown = reshape(VIEWS[view](m, base))
    base.mul_(weight)
    shown.abs().sum().backward()
    return described(shown), round(weight.grad.item(), 3)


def gradient_of_write(m, view, reshape):
    leaf = complex_leaf(m, True)
    base = leaf * 1
    reshape(VIEWS[view](m, base)).mul_(3)
    (base * base.detach().conj()).real.sum().backward()
    return described(base), leaf.grad.resolve_conj().tolist()


@pytest.mark.parametrize("reshape", RESHAPES)
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize(
    "gradient", [gradient_of_view, gradient_of_base, gradient_of_write]
)
def test_a_view_reshaped_in_place_has_pytorchs_gradient(gradient, view, reshape):
    def outcome(m, call):
        try:
            return gradient(m, view, call)
        except (RuntimeError, IndexError) as error:
            return type(error)

    in_place, out_of_place = RESHAPES[reshape]
    assert outcome(rl, in_place) == outcome(torch, out_of_place)
