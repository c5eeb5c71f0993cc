"""Modules that move to a card and back: their parameters stay the objects that they are."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight import nn


@pytest.fixture(autouse=True)
def _machine(machine):
    machine.start(cards=1)


def test_parameters_stay_the_objects_that_they_are():
    model = nn.Linear(3, 2)
    model(rl.ones(1, 3)).sum().backward()
    weight, bias, grad = model.weight, model.bias, model.weight.grad
    for device in ("cuda", "cpu"):
        model.to(device)
        assert model.weight is weight and model.bias is bias
        assert weight.device.type == device and weight.grad.device.type == device
        assert weight.grad is grad


def test_an_optimizer_made_before_the_move_trains_what_is_on_the_card():
    rl.manual_seed(0)
    losses = []
    for late in (False, True):
        model = nn.Linear(3, 1)
        with rl.no_grad():
            model.weight.fill_(0.5), model.bias.zero_()
        optimizer = (
            None if late else rl.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        )
        model.cuda()
        optimizer = optimizer or rl.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        x, kept = rl.ones(4, 3, device="cuda"), []
        for _ in range(4):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            kept.append(loss.item())
        losses.append(kept)
    assert losses[0] == losses[1] and losses[0][-1] != losses[0][0]


def test_a_weight_that_two_layers_share_is_shared_on_the_card():
    first, second = nn.Linear(3, 3), nn.Linear(3, 3)
    second.weight = first.weight
    model = nn.Sequential(first, second).cuda()
    assert model[0].weight is model[1].weight and model[0].weight.is_cuda
    assert len(list(model.parameters())) == 3


@pytest.mark.parametrize("device", ["cuda", "meta"])
def test_a_lazy_module_moves_before_its_shapes_are_known(device):
    model = nn.LazyLinear(4).to(device)
    assert model(rl.ones(2, 5, device=device)).shape == (2, 4)
    assert model.weight.shape == (4, 5) and model.weight.device.type == device
