"""The default device as a mode, beside PyTorch's."""

import pytest

import rushlight as rl
from rushlight.overrides import TorchFunctionMode

torch = pytest.importorskip("torch", reason="the oracle is not installed")
LIBRARIES = [rl, torch]


def contexts(m):
    from importlib import import_module

    return import_module(f"{m.__name__}.utils._device")


def devices(m):
    """What a program makes in a block of the mode, and where it lies."""
    x = m.ones(2)
    with contexts(m).DeviceContext("meta"):
        made = [
            m.ones(3),
            m.tensor([1.0]),
            m.arange(3),
            m.nn.Linear(2, 3).weight,
            m.zeros_like(x),
            m.empty(2, device="cpu"),
            m.fft.fftfreq(4),
        ]
        modes = m.overrides._get_current_function_mode_stack()
        inner = m.get_default_device()
    return (
        [one.device.type for one in made],
        [type(mode).__name__ for mode in modes],
        inner.type,
        m.get_default_device().type,
    )


def test_factories_of_the_block_follow_the_mode():
    assert devices(rl) == devices(torch)


def test_a_function_has_a_device():
    def run(m):
        made = contexts(m).set_device("meta")(lambda: m.rand(2))
        return made().device.type, m.rand(2).device.type

    assert run(rl) == run(torch)


def seen(m, base, outside):
    found = []

    class Watch(base):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            if func is m.ones:
                found.append(str((kwargs or {}).get("device")))
            return func(*args, **(kwargs or {}))

    device = contexts(m).DeviceContext("meta")
    first, second = (Watch(), device) if outside else (device, Watch())
    with first, second:
        m.ones(2)
    return found


@pytest.mark.parametrize("outside", [True, False])
def test_it_is_outside_of_all_other_modes(outside):
    theirs = seen(torch, torch.overrides.TorchFunctionMode, outside)
    assert seen(rl, TorchFunctionMode, outside) == theirs


def test_the_device_comes_back_after_an_error():
    def run(m):
        with pytest.raises(ZeroDivisionError), contexts(m).DeviceContext("meta"):
            _ = 1 / 0
        return m.ones(1).device.type

    assert [run(m) for m in LIBRARIES] == ["cpu", "cpu"]
