"""Compiled programs on imagined cards: what they compute, launch and hold."""

from __future__ import annotations

import copy
import gc

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.nn import functional as F
from tests.cuda.test_training import Gpt, LeNet

LAUNCHES = ("cuLaunchKernel", "cublasLtMatmul")


pytestmark = pytest.mark.usefixtures("compiling")


class Encoder(nn.Module):
    """A layer of a transformer, written with modules."""

    def __init__(self, width=16):
        super().__init__()
        self.attend = nn.MultiheadAttention(width, 2, batch_first=True)
        self.norm, self.last = nn.LayerNorm(width), nn.LayerNorm(width)
        self.wide, self.narrow = nn.Linear(width, 32), nn.Linear(32, width)

    def forward(self, x):
        x = self.norm(x + self.attend(x, x, x, need_weights=False)[0])
        return self.last(x + self.narrow(F.relu(self.wide(x))))


def mlp():
    return nn.Sequential(nn.Linear(12, 32), nn.GELU(), nn.Linear(32, 5))


MODELS = {
    "mlp": (mlp, lambda: (rl.randn(6, 12), rl.randint(0, 5, (6,)))),
    "lenet": (LeNet, lambda: (rl.randn(6, 1, 12, 12), rl.randint(0, 10, (6,)))),
    "encoder": (Encoder, lambda: (rl.randn(3, 8, 16), rl.randint(0, 16, (3, 8)))),
    "gpt": (Gpt, lambda: (rl.randint(0, 11, (3, 8)), rl.randint(0, 11, (3, 8)))),
}


def launches(machine):
    """How many kernels were launched so far."""
    return len(machine.fake.names("cuLaunchKernel"))


@pytest.mark.parametrize("name", MODELS)
def test_compiled_inference_is_eager_inference(name, machine):
    rl.manual_seed(0)
    make, batch = MODELS[name]
    model = make().to("cuda").eval()
    fast = rl.compile(model)
    with rl.no_grad():
        for _ in range(4):
            x = batch()[0].to("cuda")
            begun = launches(machine)
            wanted = model(x)
            middle = launches(machine)
            found = fast(x)
            ended = launches(machine)
            assert found.is_cuda and found.shape == wanted.shape
            assert rl.allclose(found.cpu(), wanted.cpu(), atol=1e-5)
    assert ended - middle <= middle - begun


def trained(model, batches, mode, steps=5):
    """Losses and parameters of some steps on a card."""
    model = copy.deepcopy(model).to("cuda")
    optimizer = rl.optim.SGD(model.parameters(), 0.1, momentum=0.9)

    def step(x, y):
        optimizer.zero_grad()
        out = model(x)
        loss = F.cross_entropy(out.flatten(0, -2), y.flatten())
        loss.backward()
        return loss

    step = rl.compile(step, mode=mode) if mode else step
    losses = []
    for k in range(steps):
        x, y = (t.to("cuda") for t in batches[k % len(batches)])
        losses.append(step(x, y).item())
        optimizer.step()
    return losses, [p.detach().cpu() for p in model.parameters()]


@pytest.mark.parametrize("name", MODELS)
def test_compiled_training_is_eager_training(name):
    rl.manual_seed(0)
    make, batch = MODELS[name]
    model, batches = make(), [batch() for _ in range(2)]
    wanted, weights = trained(model, batches, None)
    found, others = trained(model, batches, "default")
    assert found == pytest.approx(wanted, rel=1e-4)
    for one, other in zip(weights, others, strict=True):
        assert rl.allclose(one, other, atol=1e-4)


@pytest.mark.parametrize("name", ["encoder", "gpt"])
def test_a_compiled_model_launches_less(name, machine):
    rl.manual_seed(0)
    make, batch = MODELS[name]
    model, x = make().to("cuda").eval(), batch()[0].to("cuda")
    fast = rl.compile(model)
    with rl.no_grad():
        for _ in range(3):
            fast(x)
        begun = launches(machine)
        model(x)
        middle = launches(machine)
        fast(x)
    assert launches(machine) - middle < 0.9 * (middle - begun)


def test_steps_hold_no_more_memory_than_the_first_ones():
    rl.manual_seed(0)
    model, batches = LeNet().to("cuda"), [MODELS["lenet"][1]() for _ in range(2)]
    optimizer = rl.optim.SGD(model.parameters(), 0.1, momentum=0.9)

    @rl.compile
    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    held = []
    for k in range(8):
        x, y = (t.to("cuda") for t in batches[k % 2])
        step(x, y)
        del x, y
        gc.collect()
        held.append(rl.cuda.memory_allocated())
    assert held[3:] == [held[3]] * 5


def test_tensors_of_the_host_and_of_cards_in_one_function_stay_where_they_are():
    @rl.compile
    def both(x, y, z):
        return x * 2 + 1, y.exp() + y, z.sigmoid() * z, (x + 1).to("cuda") + y

    for _ in range(4):
        x, y = rl.randn(5), rl.randn(5).to("cuda")
        z = rl.randn(5).to("cuda:1")
        one, two, three, four = both(x, y, z)
        assert (str(one.device), str(two.device), str(three.device)) == (
            *("cpu", "cuda:0", "cuda:1"),
        )
        assert rl.equal(one, x * 2 + 1)
        assert rl.allclose(two.cpu(), (y.exp() + y).cpu())
        assert rl.allclose(three.cpu(), (z.sigmoid() * z).cpu())
        assert rl.equal(four.cpu(), (x + 1) + y.cpu())


def test_tensors_of_two_cards_in_one_operator_are_refused_as_ever():
    fast = rl.compile(lambda x, y: x.exp() + y.exp())
    x, y = rl.ones(3, device="cuda:0"), rl.ones(3, device="cuda:1")
    for _ in range(3):
        with pytest.raises(RuntimeError, match="same device"):
            fast(x, y)
        assert rl.equal(fast(x, x).cpu(), (x.exp() + x.exp()).cpu())


def test_a_function_follows_the_card_that_is_current():
    fast = rl.compile(lambda: rl.ones(4, device="cuda") * 3 + 1)
    for index in (0, 1, 1, 0, 1):
        with rl.cuda.device(index):
            found = fast()
        assert found.device.index == index and found.tolist() == [4.0] * 4


@pytest.mark.parametrize("seed", range(6))
def test_work_goes_to_the_queue_that_was_current_when_it_was_asked_for(seed, machine):
    machine.start(seed=seed)
    other = rl.cuda.Stream()

    @rl.compile
    def program(x):
        y = x * 2 + 1
        other.wait_stream(rl.cuda.current_stream())
        with rl.cuda.stream(other):
            z = y.exp() - 1
        rl.cuda.current_stream().wait_stream(other)
        return z * y

    for _ in range(4):
        x = rl.randn(64).to("cuda")
        y = x.cpu() * 2 + 1
        assert rl.allclose(program(x).cpu(), (y.exp() - 1) * y)


@pytest.mark.parametrize("call", ["cuMemAlloc", "cuLaunchKernel"])
def test_a_fault_in_the_middle_leaves_all_usable(call, machine):
    @rl.compile
    def program(x):
        y = rl.mm(x, w)
        spare = rl.zeros(300_000, device="cuda")  # for which the driver is asked
        return (y.sigmoid() * x).sum(1), rl.mm(y, w).relu(), spare

    x, w = rl.randn(40, 60).to("cuda"), rl.randn(60, 60).to("cuda")
    wanted = [t.cpu() for t in program(x)]
    program(x)
    refused = 0
    for after in (0, 1, 3):
        gc.collect()
        rl.cuda.empty_cache()
        held = rl.cuda.memory_allocated()
        code = 2 if call == "cuMemAlloc" else 719
        machine.fake.fail(call, code, after)
        if call == "cuMemAlloc":  # again, once what is kept was given back
            machine.fake.fail(call, code, after)
        try:
            found = program(x)
        except RuntimeError as error:
            assert "out of memory" in str(error) or "CUDA error" in str(error)
            refused += 1
        else:
            del found
        machine.fake.faults.clear()
        assert rl.cuda.memory_allocated() == held
        for one, other in zip(program(x), wanted, strict=True):
            assert rl.allclose(one.cpu(), other, atol=1e-4)
    assert refused


def test_a_bad_index_is_told_by_its_operator():
    table = rl.randn(4, 3).to("cuda")
    fast = rl.compile(lambda i: F.embedding(i, table).exp() + 1)
    good, bad = rl.tensor([0, 3]).to("cuda"), rl.tensor([0, 4]).to("cuda")
    for _ in range(3):
        fast(good)
    with pytest.raises(IndexError, match="index out of range in self"):
        fast(bad).cpu()
    assert rl.allclose(fast(good).cpu(), table[good].cpu().exp() + 1)


ACTIVATIONS = {
    "relu": F.relu,
    "gelu": lambda x: F.gelu(x, approximate="tanh"),
    "exact gelu": F.gelu,
    "relu and more": lambda x: F.relu(x) * 2 + 1,
}


@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_is_the_librarys_behind_a_product(machine, name, kind):
    after, dtype = ACTIVATIONS[name], getattr(rl, kind)
    rl.manual_seed(0)
    x, w, b = (rl.randn(*n).to("cuda", dtype) for n in ((6, 16), (24, 16), (24,)))
    deep = rl.randn(2, 3, 16).to("cuda", dtype)
    calls = {
        "linear": lambda: after(F.linear(x, w, b)),
        "of batches": lambda: after(F.linear(deep, w, b)),
        "mm": lambda: after(x @ w.t()),
        "addmm": lambda: after(rl.addmm(b, x, w.t())),
        "scaled": lambda: after(rl.addmm(b, x, w.t(), alpha=2)),
        "of a matrix": lambda: after(rl.addmm(x @ w.t(), x, w.t())),
    }
    digits = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}[kind]
    for words, call in calls.items():
        with rl.no_grad():
            wanted, fast = call().cpu(), rl.compile(call)
            for _ in range(4):
                begun = len(machine.fake.calls)
                found = fast()
            calls_made = [name for name, _ in machine.fake.calls[begun:]]
        assert found.shape == wanted.shape and found.dtype is dtype
        assert rl.allclose(found.cpu(), wanted, rtol=digits, atol=digits)
        applied = name in ("relu", "gelu")
        if applied and words not in ("scaled", "of a matrix"):
            assert "cuLaunchKernel" not in calls_made, words


def test_sums_that_others_read_have_nothing_behind_them():
    x, w = rl.randn(6, 16).to("cuda"), rl.randn(24, 16).to("cuda")

    def both():
        sums = F.linear(x, w)
        return F.relu(sums), sums + 1

    with rl.no_grad():
        wanted, fast = both(), rl.compile(both)
        for _ in range(4):
            found = fast()
    for one, other in zip(found, wanted, strict=True):
        assert rl.allclose(one.cpu(), other.cpu(), atol=1e-5)


def losses_of(model, called, count):
    """What some steps of training lose that call a model as it is or compiled."""
    sgd = rl.optim.SGD(model.parameters(), 0.1)
    x, losses = rl.randn(5, 8).to("cuda"), []
    for _ in range(count):
        sgd.zero_grad()
        loss = called(x).square().mean()
        loss.backward()
        sgd.step()
        losses.append(loss.item())
    return losses


def test_steps_with_activations_behind_products_are_eager_ones():
    def steps(compiled):
        rl.manual_seed(0)
        layers = nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 16), nn.GELU("tanh")
        model = nn.Sequential(*layers).to("cuda")
        return losses_of(model, rl.compile(model) if compiled else model, 6)

    assert steps(True) == pytest.approx(steps(False), rel=1e-4)
