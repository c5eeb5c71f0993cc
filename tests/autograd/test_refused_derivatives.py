"""Derivatives that do not exist are refused in the backward pass, as PyTorch refuses them."""

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

PROGRAMS = {
    "the shape of igamma": lambda m, a, b: m.igamma(a, b),
    "the shape of igammac": lambda m, a, b: m.igammac(a, b.detach()),
    "the exponent of zeta": lambda m, a, b: m.special.zeta(a + 1, b),
    "unique numbers": lambda m, a, b: m.unique(a),
    "unique rows": lambda m, a, b: m.unique(m.stack([a, b]), dim=0),
    "unique runs": lambda m, a, b: m.unique_consecutive(a),
    "reflectors": lambda m, a, b: m.geqrf(a.outer(b))[0],
    "no derivative at all": lambda m, a, b: m.heaviside(a, b),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_refused_derivatives_are_pytorchs_errors(name):
    errors = []
    for module in (rl, torch):
        a = module.tensor([0.5, 1.5, 2.5], requires_grad=True)
        b = module.tensor([0.3, 1.0, 4.0], requires_grad=True)
        out = PROGRAMS[name](module, a, b)
        with pytest.raises(RuntimeError) as error:
            out.sum().backward()
        errors.append((error.type, str(error.value).split("\n")[0]))
    assert errors[0] == errors[1]
