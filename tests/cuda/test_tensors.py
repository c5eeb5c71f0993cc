"""Tensors on a card that is not there: made, moved, computed, printed, let go."""

from __future__ import annotations

import gc
import pickle

import pytest

import rushlight as rl
from rushlight.runtime.cuda import libraries
from tests.cuda.driver import Misuse


def test_a_tensor_goes_to_a_card_and_comes_back(machine):
    x = rl.arange(6.0).reshape(2, 3)
    there = x.to("cuda")
    assert there.device == rl.device("cuda", 0) and there.is_cuda
    assert there.cpu().tolist() == x.tolist()
    assert rl.cuda.memory_allocated() == 512
    del there
    gc.collect()
    assert rl.cuda.memory_allocated() == 0


@pytest.mark.imagined
def test_tensors_that_outlive_their_machine_are_nobody_s(machine):
    old = rl.ones(1000, device="cuda")
    place = old.data_ptr()
    machine.start(cards=1)
    new = [rl.full((1000,), 2.0, device="cuda") for _ in range(4)]
    taken = rl.cuda.memory_allocated()
    assert place not in [t.data_ptr() for t in new]
    with pytest.raises(Misuse, match="another machine's"):
        old.cpu()
    with pytest.raises(Misuse, match="another machine's"):
        old.add_(1).sum().item()
    del old
    gc.collect()
    assert rl.cuda.memory_allocated() == taken
    assert all(t.cpu().eq(2).all() for t in new)
    new.clear()
    gc.collect()
    assert rl.cuda.memory_allocated() == 0


def test_windows_and_other_orders_come_back_as_they_are_seen(machine):
    x = rl.arange(24.0).reshape(2, 3, 4).to("cuda")
    assert x[1].cpu().tolist() == x.cpu()[1].tolist()
    assert x.permute(2, 0, 1).cpu().tolist() == x.cpu().permute(2, 0, 1).tolist()
    assert x[:, ::2, 1].cpu().tolist() == x.cpu()[:, ::2, 1].tolist()
    assert x[1, 2, 3].item() == 23.0


def test_what_is_on_the_card_that_is_meant_is_not_copied(machine):
    x = rl.arange(4.0).cuda()
    assert x.cuda() is x.to("cuda") is x.to(rl.device("cuda")) is x.cuda(0) is x
    assert x.to("cuda", rl.float32) is x and x.to("cuda", copy=True) is not x
    assert rl.as_tensor(x, device="cuda") is x
    assert rl.asarray(x, device="cuda").data_ptr() == x.data_ptr()
    layer = rl.nn.Linear(2, 2).cuda()
    place = layer.weight.data_ptr()
    assert layer.to("cuda").weight.data_ptr() == place
    with rl.cuda.device(1):
        assert x.cuda().device.index == x.to("cuda").device.index == 1
        assert x.cuda(0) is x
        assert rl.ones(2).cuda(0).device.index == 0


def test_pickles_bring_tensors_back_to_their_cards(machine):
    x = rl.arange(6.0).reshape(2, 3).to("cuda:1")
    for given in (x, x.t(), x[:0], rl.nn.Parameter(x)):
        again = pickle.loads(pickle.dumps(given))
        assert again.device == x.device and again.tolist() == given.tolist()
        assert type(again) is type(given) and again.stride() == given.stride()
    layer = rl.nn.Linear(2, 2).cuda()
    weight = pickle.loads(pickle.dumps(layer)).weight
    assert weight.is_cuda and rl.equal(weight, layer.weight)


def test_cards_exchange_tensors(machine):
    x = rl.arange(4.0).to("cuda:0")
    y = x.to("cuda:1")
    assert y.device.index == 1 and y.cpu().tolist() == [0, 1, 2, 3]
    with pytest.raises(RuntimeError, match="same device"):
        x + y


def test_arithmetic_happens_on_the_card(machine):
    x, y = rl.linspace(-2, 2, 40).reshape(5, 8), rl.linspace(1, 3, 8)
    there, other = x.to("cuda"), y.to("cuda")
    launches = len(machine.fake.names("cuLaunchKernel"))
    found = rl.where(there > 0, there * other + 1.5, rl.tanh(there) / other)
    assert found.is_cuda
    assert len(machine.fake.names("cuLaunchKernel")) == launches + 6
    expected = rl.where(x > 0, x * y + 1.5, rl.tanh(x) / y)
    assert rl.allclose(found.cpu(), expected)


def test_results_are_written_in_place_and_into_out(machine):
    x = rl.arange(12.0).reshape(3, 4).to("cuda")
    x[1].mul_(2)
    rl.add(x, 1, out=x)
    x[:, 2] = 7
    x.t()[0] += rl.ones(3, device="cuda")
    expected = rl.arange(12.0).reshape(3, 4)
    expected[1] *= 2
    expected += 1
    expected[:, 2] = 7
    expected.t()[0] += 1
    assert x.cpu().tolist() == expected.tolist()


def test_numbers_and_single_elements_of_the_host_go_along(machine):
    x = rl.arange(4.0).to("cuda")
    assert (2**x + rl.tensor(0.5)).cpu().tolist() == [1.5, 2.5, 4.5, 8.5]
    assert (x.half() * 3).cpu().tolist() == [0, 3, 6, 9]
    assert (x * 1j).cpu().tolist() == [0, 1j, 2j, 3j]


def test_tensors_of_the_host_and_of_a_card_do_not_mix(machine):
    with pytest.raises(RuntimeError, match="same device"):
        rl.ones(2, device="cuda") + rl.ones(2)
    there, here = rl.ones(2, 2, device="cuda"), rl.ones(2, 2)
    index = rl.zeros(2, 2, dtype=rl.int64)
    for call in (
        lambda: there @ here,
        lambda: here @ there,
        lambda: rl.nn.functional.linear(there, here),
        lambda: rl.gather(there, 0, index),
        lambda: rl.index_select(there, 0, index[0]),
        lambda: rl.index_select(here, 0, index[0].to("cuda")),
        lambda: rl.nn.functional.conv1d(there[None], here[None]),
        lambda: rl.nn.functional.layer_norm(there, (2,), here[0]),
    ):
        with pytest.raises(RuntimeError, match="same device"):
            call()
    assert rl.equal((there @ there * rl.tensor(2.0)).cpu(), rl.full((2, 2), 4.0))
    assert rl.equal(there[index[0]].cpu(), here), "indices may come from the host"
    with pytest.raises(RuntimeError, match="either on cpu or on the same device"):
        here[index[0].to("cuda")]


@pytest.mark.imagined
def test_what_only_the_host_has_is_refused_before_it_reads_anything(machine):
    there = rl.ones(2, 2, device="cuda")
    for library in libraries.ALL:
        library.forget()
    for call in (rl.linalg.svd, rl.linalg.cholesky, rl.linalg.inv, rl.fft.fft):
        with pytest.raises(NotImplementedError, match="cannot read a tensor on a GPU"):
            call(there)


def test_gradients_of_elementwise_functions_stay_on_the_card(machine):
    x = rl.linspace(-1, 1, 6).to("cuda").requires_grad_()
    y = rl.sigmoid(x * 3) * x
    y.backward(rl.ones(6, device="cuda"))
    host = x.detach().cpu().requires_grad_()
    (rl.sigmoid(host * 3) * host).backward(rl.ones(6))
    assert x.grad.is_cuda and rl.allclose(x.grad.cpu(), host.grad)


def test_a_tensor_is_printed_with_its_device(machine):
    text = repr(rl.arange(3).to("cuda"))
    assert text == "tensor([0, 1, 2], device='cuda:0')"


def test_a_full_card_is_told_with_the_operator_and_usable_afterwards(machine):
    machine.start(memory=48 << 20)
    x = rl.ones(1 << 20, device="cuda")
    with pytest.raises(rl.OutOfMemoryError, match="Tried to allocate 20.00 MiB"):
        kept = [x * k for k in range(1, 12)]
    kept = None
    assert kept is None and (x + 1)[-1].item() == 2


OPERATORS = (
    "add where nn.functional.gelu pow cat expand tril masked_fill addcmul floor_divide "
    "nan_to_num special.i1e complex svd multinomial"
).split()


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_are_right_there_or_refuse(machine, name):
    pytest.importorskip("torch")
    from tests.cuda.sweep import run

    told = run(f"^{name}$".replace(".", r"\."))
    assert told and set(told) <= {"same", "absent"}, dict(told)


@pytest.mark.parametrize("card", (1, 0))
def test_functions_become_graphs_with_their_gradients(machine, card):
    with rl.cuda.device(card):
        _replays_as_the_host(rl.device("cuda", card))


def _replays_as_the_host(device):
    def scaled(x):
        return rl.sigmoid(x) * 3

    start = rl.linspace(-1, 1, 6)
    sample = start.to(device).requires_grad_()
    graphed = rl.cuda.make_graphed_callables(scaled, (sample,))
    for shift in (0.0, 0.5):
        x = (start + shift).to(device).requires_grad_()
        y = graphed(x)
        y.backward(rl.ones(6, device=device))
        host = (start + shift).requires_grad_()
        scaled(host).backward(rl.ones(6))
        assert rl.allclose(y.detach().cpu(), scaled(host).detach())
        assert rl.allclose(x.grad.cpu(), host.grad)
