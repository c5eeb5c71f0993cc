"""Optimizers that handle scaled gradients themselves are handed what PyTorch hands them."""

import warnings

import pytest

import rushlight

torch = pytest.importorskip("torch")


def steps(lib, handed):
    """What an optimizer of a program's own sees in two steps, and its parameter then."""
    seen = []

    class Own(lib.optim.SGD):
        _step_supports_amp_scaling = True

    class Handed(Own):
        def step(self, closure=None, *, grad_scaler=None):
            found = grad_scaler._check_inf_per_device(self)
            seen.append([value.item() for value in found.values()])
            seen.append(grad_scaler._get_scale_async().item())
            found = grad_scaler._found_inf_per_device(self)
            seen.append((len(found), hasattr(self, "grad_scale")))
            grad_scaler.unscale_(self)
            return super().step(closure)

    class Attributes(Own):
        def step(self, closure=None):
            seen.append((self.grad_scale.item(), self.found_inf.item()))

    weight = lib.nn.Parameter(lib.ones(2))
    optimizer = (Handed if handed else Attributes)([weight], lr=0.5)
    scaler = lib.amp.GradScaler("cpu", init_scale=8.0)
    for _ in range(2):
        optimizer.zero_grad()
        scaler.scale(weight.sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    seen.append((weight.tolist(), scaler.get_scale(), hasattr(optimizer, "found_inf")))
    return seen


@pytest.mark.parametrize("handed", [True, False])
def test_an_optimizer_gets_the_scaler_or_the_scale(handed):
    found = []
    for lib in (rushlight, torch):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            found.append((steps(lib, handed), [w.category for w in told]))
    assert found[0] == found[1]
    assert found[0][1] == [FutureWarning, FutureWarning][: 2 * handed]
