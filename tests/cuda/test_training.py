"""Models that learn on an imagined card as they do on the host, step for step."""

from __future__ import annotations

import copy
import io

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.nn import functional as F


@pytest.fixture(autouse=True)
def _machine(machine, monkeypatch):
    machine.start(cards=2, memory=1 << 28)
    monkeypatch.setenv("RUSHLIGHT_CUDA", "1")


class LeNet(nn.Sequential):
    """Two convolutions and three linear layers, for images of 12 by 12."""

    def __init__(self):
        super().__init__(
            *(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(4, 8, 3), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten()),
            *(nn.Linear(32, 24), nn.Tanh(), nn.Linear(24, 10)),
        )


class Block(nn.Module):
    """Attention and two layers, each around a residual."""

    def __init__(self, width):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = (
            nn.Linear(width, 2 * width),
            nn.Linear(2 * width, width),
        )

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.attend(self.first(x)).view(batch, length, 3, 2, width // 2)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.narrow(F.gelu(self.wide(self.second(x))))


class Gpt(nn.Module):
    """A small transformer of letters."""

    def __init__(self, letters=11, width=16, length=8):
        super().__init__()
        self.letters, self.places = (
            nn.Embedding(letters, width),
            nn.Embedding(length, width),
        )
        self.blocks = nn.Sequential(Block(width), Block(width))
        self.last, self.head = (
            nn.LayerNorm(width),
            nn.Linear(width, letters, bias=False),
        )

    def forward(self, x):
        places = rl.arange(x.shape[1], device=x.device)
        h = self.blocks(self.letters(x) + self.places(places))
        return self.head(self.last(h)).flatten(0, 1)


def trained(model, batches, device, optimizer, steps):
    """Losses and parameters of some steps."""
    model = copy.deepcopy(model).to(device)
    optimizer = optimizer(model.parameters())
    losses = []
    for step in range(steps):
        x, y = (t.to(device) for t in batches[step % len(batches)])
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses, [p.detach().cpu() for p in model.parameters()]


def agree(model, batches, optimizer, steps, tolerance):
    here, wanted = trained(model, batches, "cpu", optimizer, steps)
    there, found = trained(model, batches, "cuda", optimizer, steps)
    assert there == pytest.approx(here, rel=tolerance)
    assert here[-1] < here[0]
    for one, other in zip(found, wanted, strict=True):
        assert (one - other).abs().max() < 20 * tolerance


def test_lenet_learns_the_same():
    rl.manual_seed(0)
    batches = [(rl.randn(6, 1, 12, 12), rl.randint(0, 10, (6,))) for _ in range(2)]
    agree(LeNet(), batches, lambda p: rl.optim.SGD(p, 0.1, momentum=0.9), 8, 1e-4)


def test_a_small_gpt_learns_the_same():
    rl.manual_seed(0)
    batches = [(rl.randint(0, 11, (3, 8)), rl.randint(0, 11, (3, 8))) for _ in range(2)]
    agree(Gpt(), batches, lambda p: rl.optim.AdamW(p, 1e-2), 6, 1e-3)


@pytest.mark.parametrize("name", ["Adam", "RMSprop", "Adagrad", "NAdam", "Adadelta"])
def test_optimizers_take_the_same_steps(name):
    rl.manual_seed(0)
    start, target = rl.randn(4, 3), rl.randn(4, 3)

    def ended(device):
        x = start.clone().to(device).detach().requires_grad_()
        optimizer = getattr(rl.optim, name)([x])
        for _ in range(3):
            optimizer.zero_grad()
            (x - target.to(device)).square().sum().backward()
            optimizer.step()
        return x.detach().cpu()

    assert rl.allclose(ended("cpu"), ended("cuda"), atol=1e-6)


def test_scaled_losses_in_half_precision_are_unscaled_and_skipped():
    x = rl.ones(3, device="cuda", requires_grad=True)
    optimizer = rl.optim.SGD([x], 0.5)
    scaler = rl.amp.GradScaler("cuda", init_scale=8.0)
    y = (x[None].half() @ rl.ones(3, 1, device="cuda").half()).sum()
    assert y.dtype is rl.float16
    scaler.scale(y).backward()
    assert x.grad.tolist() == [8.0] * 3
    scaler.step(optimizer)
    scaler.update()
    assert x.tolist() == [0.5] * 3
    x.grad = rl.full((3,), float("inf"), device="cuda")
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert x.tolist() == [0.5] * 3 and scaler.get_scale() == 4.0


@pytest.mark.imagined
def test_checkpoints_go_from_one_device_to_another():
    model = nn.Linear(3, 2).to("cuda")
    file = io.BytesIO()
    rl.save(model.state_dict(), file)
    for place, kind in (
        (None, "cuda"),
        ("cpu", "cpu"),
        (rl.device("cuda", 1), "cuda"),
        ({"cuda:0": "cuda:1"}, "cuda"),
    ):
        file.seek(0)
        state = rl.load(file, map_location=place)
        assert state["weight"].device.type == kind
        assert rl.equal(state["weight"].cpu(), model.weight.detach().cpu())
    assert state["weight"].device.index == 1


def test_batches_in_locked_memory_reach_the_card_while_the_host_goes_on():
    data = rl.utils.data.TensorDataset(rl.arange(12.0).view(6, 2), rl.arange(6))
    loader = rl.utils.data.DataLoader(data, batch_size=2, pin_memory=True)
    seen = []
    for x, y in loader:
        assert x.is_pinned() and y.is_pinned()
        seen.append((x.to("cuda", non_blocking=True), y.to("cuda", non_blocking=True)))
    assert rl.cat([x for x, _ in seen]).cpu().tolist() == data.tensors[0].tolist()
    assert rl.cat([y for _, y in seen]).cpu().tolist() == list(range(6))


def test_functions_of_functions_take_gradients_there(machine):
    machine.start(cards=1)
    x = rl.arange(6.0).view(2, 3).cuda()
    slope = rl.func.grad(lambda x: x.square().sum())
    assert rl.equal(slope(x).cpu(), 2 * x.cpu())
    assert rl.equal(rl.func.vmap(slope)(x).cpu(), 2 * x.cpu())
