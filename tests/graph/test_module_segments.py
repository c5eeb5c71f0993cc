"""Modules' calls that skip their Python give what the Python would have given."""

import copy
import gc
import sys
import threading
import weakref

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.nn import functional as F
from rushlight.utils._python_dispatch import TorchDispatchMode


def net():
    rl.manual_seed(0)
    layers = [
        nn.Conv2d(1, 3, 3, padding=1),
        nn.BatchNorm2d(3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Linear(12, 5),
        nn.LayerNorm(5),
    ]
    return nn.Sequential(*layers).eval()


def answering(model):
    @rl.compile
    def answer(x):
        with rl.no_grad():
            return model(x)

    return answer


def stretches_of(compiled):
    """The stretches below the roots of a function's paths."""
    found, waiting = [], list(compiled._runner.roots.values())
    while waiting:
        call = waiting.pop()
        for _, *kept in (call.segments or {}).values():
            found += kept
        waiting += call.children
    return found


def times(compiled):
    return sum(one.times for one in stretches_of(compiled))


def settled(model, x):
    """The compiled answer once its module's Python is skipped."""
    answer = answering(model)
    for _ in range(5):
        answer(x)
    before = times(answer)
    answer(x)
    assert times(answer) == before + 1
    return answer


def image():
    return rl.arange(16.0).reshape(1, 1, 4, 4).sin()


def uncompiled(model, x):
    with rl.no_grad():
        return model(x)


def agrees(answer, model, x):
    for _ in range(4):
        found, wanted = answer(x), uncompiled(model, x)
        assert type(found) is type(wanted)
        assert found.dtype == wanted.dtype and found.stride() == wanted.stride()
        assert rl.allclose(found, wanted, atol=1e-6), (found, wanted)


def patched(owner, name, value):
    """A change that the test undoes."""

    def change(model, monkeypatch):
        monkeypatch.setattr(owner, name, value)

    return change


def tripled(self, x):
    return x * 3


def other_code(model, monkeypatch):
    monkeypatch.setattr(nn.ReLU.forward, "__code__", tripled.__code__)


def hooked_globally(model, monkeypatch):
    handle = nn.modules.module.register_module_forward_hook(lambda m, i, out: out + 1)
    Changes.undo.append(handle.remove)


class Changes:
    undo = []


def raw(model, name, value):
    vars(model)[name] = value


CHANGES = {
    "a forward hook": lambda m, _: m[2].register_forward_hook(lambda m, i, o: o + 1),
    "a hook before": lambda m, _: m.register_forward_pre_hook(lambda m, i: (i[0] * 2,)),
    "a hook on all modules": hooked_globally,
    "a module's own forward": lambda m, _: raw(m[2], "forward", lambda x: x * 3),
    "another forward of a class": patched(nn.ReLU, "forward", tripled),
    "a class's method": patched(
        nn.Conv2d, "_conv_forward", lambda s, x, w, b: F.pad(x, [0] * 5 + [2])
    ),
    "other code of a method": other_code,
    "another function": patched(rl.nn.modules.activation.call, "relu", lambda x: x * 3),
    "another attribute": lambda m, _: setattr(m[7], "eps", 1.0),
    "another attribute, unheard": lambda m, _: raw(m[7], "eps", 1.0),
    "training": lambda m, _: m[1].train(),
    "another module": lambda m, _: m.__setitem__(2, nn.Tanh()),
    "another module, unheard": lambda m, _: m._modules.__setitem__("2", nn.Tanh()),
    "a module less": lambda m, _: m.__delitem__(2),
    "a module more": lambda m, _: m.append(nn.Tanh()),
    "another class": lambda m, _: setattr(m[2], "__class__", nn.Tanh),
    "another parameter": lambda m, _: setattr(
        m[6], "weight", nn.Parameter(rl.ones(5, 12))
    ),
    "a parameter, unheard": lambda m, _: m[6]._parameters.__setitem__(
        "weight", nn.Parameter(rl.ones(5, 12))
    ),
    "a wider parameter": lambda m, _: (
        setattr(m[6], "weight", nn.Parameter(rl.ones(7, 12))),
        setattr(m[6], "bias", None),
        m.__delitem__(7),
    ),
    "no bias": lambda m, _: setattr(m[6], "bias", None),
    "a parameter written to": lambda m, _: m[6].weight.data.mul_(2),
    "a parameter's data": lambda m, _: setattr(m[6].weight, "data", rl.ones(5, 12)),
    "a parameter's data, turned": lambda m, _: setattr(
        m[6].weight, "data", rl.arange(60.0).reshape(12, 5).t()
    ),
    "parameters that share memory": lambda m, _: setattr(
        m[7].weight, "data", m[7].bias.data
    ),
    "another type": lambda m, _: m[4].register_forward_hook(lambda m, i, o: o.float()),
    "a buffer written to": lambda m, _: m[1].running_mean.fill_(0.5),
    "another buffer": lambda m, _: setattr(m[1], "running_mean", rl.ones(3)),
    "a compiled module": lambda m, _: m[2].compile(),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_seen(name, monkeypatch):
    model, x = net(), image()
    answer = settled(model, x)
    try:
        CHANGES[name](model, monkeypatch)
        agrees(answer, model, x)
    finally:
        while Changes.undo:
            Changes.undo.pop()()


def test_a_change_is_seen_back_and_forth():
    model, x = net(), image()
    answer = settled(model, x)
    for padding in ((1, 1), (1, 1), (1, 1)):
        handle = model[2].register_forward_hook(lambda m, i, o: o * 2)
        agrees(answer, model, x)
        handle.remove()
        model[0].padding = padding
        agrees(answer, model, x)


STATES = {
    "gradients": rl.enable_grad,
    "inference": rl.inference_mode,
    "autocast": lambda: rl.autocast("cpu", dtype=rl.bfloat16),
}


@pytest.mark.parametrize("name", STATES)
def test_a_thread_in_another_state_has_it(name):
    model, x = net(), image()
    compiled = rl.compile(model)
    with rl.no_grad():
        for _ in range(5):
            compiled(x)
    for _ in range(4):
        with STATES[name]():
            found, wanted = compiled(x), model(x)
        assert found.dtype == wanted.dtype
        assert found.requires_grad == wanted.requires_grad
        assert found.is_inference() == wanted.is_inference()
        assert rl.allclose(found, wanted, atol=1e-6)


def test_modes_see_every_function_and_operator():
    model, x = net(), image()
    answer = settled(model, x)

    class Functions(rl.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    class Operators(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    for mode in (Functions, Operators):
        counts = []
        for call in (answer, lambda x: uncompiled(model, x)):
            seen = []
            with mode():
                call(x)
            counts.append(len(seen))
        assert counts[0] >= counts[1] > 0


def test_tracing_and_profiling_see_every_frame():
    model, x = net(), image()
    answer = settled(model, x)
    seen = set()
    for switch in (sys.setprofile, sys.settrace):
        seen.clear()
        before = sys.gettrace() if switch is sys.settrace else sys.getprofile()
        switch(lambda frame, event, arg: seen.add(frame.f_code))
        try:
            answer(x)
        finally:
            switch(before)
        assert nn.Linear.forward.__code__ in seen


def test_dropout_draws_the_same_numbers():
    model, x = net(), image()
    model[5].train()
    answer = answering(model)
    for seed in range(6):
        rl.manual_seed(seed)
        found = answer(x), answer(x), rl.rand(3)
        rl.manual_seed(seed)
        wanted = uncompiled(model, x), uncompiled(model, x), rl.rand(3)
        for one, other in zip(found, wanted, strict=True):
            assert rl.allclose(one, other, atol=1e-6)


INPUTS = {
    "sizes": lambda x: rl.cat([x, x]),
    "strides": lambda x: x.transpose(2, 3),
    "an offset": lambda x: rl.cat([x, x * 2])[1:],
    "a gradient wanted": lambda x: x.clone().requires_grad_(),
    "a parameter": nn.Parameter,
}


@pytest.mark.parametrize("name", INPUTS)
def test_another_input_is_seen(name):
    model, x = net(), image()
    answer = settled(model, x)
    agrees(answer, model, INPUTS[name](x))
    agrees(answer, model, x)


def test_inputs_of_several_sizes_have_stretches_of_their_own():
    model, answer = net(), answering(net())
    inputs = [rl.cat([image()] * n) for n in (1, 2, 3, 5)]
    for _ in range(6):
        for x in inputs:
            assert rl.allclose(answer(x), uncompiled(model, x), atol=1e-6)
    before = times(answer)
    for x in inputs:
        answer(x)
    assert times(answer) == before + len(inputs)


def test_an_input_of_another_type_is_refused_as_ever():
    model, x = net(), image()
    answer = settled(model, x)
    with pytest.raises(RuntimeError):
        answer(x.double())
    agrees(answer, model, x)


def test_an_input_may_be_a_parameter_of_the_module():
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)).eval()
    answer = settled(model, rl.ones(4, 4))
    agrees(answer, model, model[0].weight)
    agrees(answer, model, model[2].weight.detach())
    agrees(answer, model, rl.ones(4, 4))


def test_weights_that_are_tied_and_untied():
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)).eval()
    x = rl.ones(2, 4)
    answer = settled(model, x)
    model[2].weight = model[0].weight
    agrees(answer, model, x)
    model[2].weight = nn.Parameter(model[0].weight.detach().clone() * 2)
    agrees(answer, model, x)


def test_other_modules_in_one_function():
    first, second, x = net(), net(), image()
    second[6].weight.data.mul_(3)

    @rl.compile
    def answer(model, x):
        with rl.no_grad():
            return model(x)

    for _ in range(6):
        for model in (first, second):
            assert rl.allclose(answer(model, x), uncompiled(model, x), atol=1e-6)


def test_modules_are_not_kept_alive():
    x = image()

    @rl.compile
    def answer(model, x):
        with rl.no_grad():
            return model(x)

    model = net()
    for _ in range(5):
        answer(model, x)
    gone = [weakref.ref(model), weakref.ref(model[6].weight)]
    del model
    gc.collect()
    assert [ref() for ref in gone] == [None, None]
    again = net()
    agrees(lambda x: answer(again, x), again, x)


def test_arguments_and_views_that_come_back():
    for model in (
        nn.Sequential(nn.Identity()),
        nn.Sequential(nn.Dropout().eval()),
        nn.Sequential(nn.Flatten()),
        nn.Sequential(nn.ReLU(inplace=True)),
        nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True)),
        nn.Sequential(nn.Linear(4, 4), nn.Unflatten(1, (2, 2))),
    ):
        answer = answering(model.eval())
        for _ in range(6):
            x, y = rl.randn(3, 4), None
            y = x.clone()
            found, wanted = answer(x), uncompiled(model, y)
            assert (found is x) == (wanted is y)
            assert (found._base is x) == (wanted._base is y)
            assert (found._base is None) == (wanted._base is None)
            assert found._version == wanted._version and x._version == y._version
            assert rl.allclose(found, wanted, atol=1e-6) and rl.equal(x, y)


def test_a_module_of_ones_own_is_run_and_those_in_it_are_not():
    calls = []

    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(4, 4), nn.Tanh())

        def forward(self, x):
            calls.append(len(calls))
            return self.inner(x) * len(calls)

    model, x = Own().eval(), rl.ones(2, 4)
    answer = settled(model, x)
    count = len(calls)
    answer(x)
    assert len(calls) == count + 1


def test_recurrent_layers_and_encoders():
    for model, x in (
        (nn.LSTM(3, 4, 2, batch_first=True), rl.randn(2, 5, 3)),
        (nn.GRU(3, 4, bidirectional=True), rl.randn(5, 2, 3)),
        (nn.TransformerEncoderLayer(8, 2, 16), rl.randn(5, 2, 8)),
        (nn.Embedding(5, 3), rl.tensor([[0, 4], [2, 2]])),
    ):
        model.eval()
        answer = settled(model, x)
        found, wanted = answer(x), uncompiled(model, x)
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        found = found if isinstance(found, tuple) else (found,)
        assert rl.allclose(found[0], wanted[0], atol=1e-5)
        if isinstance(model, nn.LSTM):
            agree = [rl.allclose(a, b, atol=1e-5) for a, b in zip(found[1], wanted[1])]
            assert agree == [True, True]
            model.bias_hh_l0.data.add_(1)
            assert rl.allclose(answer(x)[0], uncompiled(model, x)[0], atol=1e-5)
            assert rl.allclose(answer(x[:1])[0], uncompiled(model, x[:1])[0], atol=1e-5)


def test_bad_indices_are_told():
    model = nn.Embedding(5, 3).eval()
    answer = settled(model, rl.tensor([0, 4]))
    with pytest.raises((IndexError, RuntimeError)):
        answer(rl.tensor([0, 9])).sum().item()
    agrees(answer, model, rl.tensor([0, 4]))


def test_threads_call_one_function():
    model, x = net(), image()
    answer = settled(model, x)
    wanted, wrong = uncompiled(model, x), []

    def work():
        for _ in range(50):
            if not rl.allclose(answer(x), wanted, atol=1e-6):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_settings_of_the_process():
    model, x = net(), image()
    answer = settled(model, x)
    try:
        rl.set_default_dtype(rl.float64)
        agrees(answer, model, x)
        rl.set_default_dtype(rl.float32)
        rl.use_deterministic_algorithms(True)
        agrees(answer, model, x)
    finally:
        rl.set_default_dtype(rl.float32)
        rl.use_deterministic_algorithms(False)
    agrees(answer, model, x)
    rl._dynamo.reset()
    agrees(answer, model, x)


def test_copies_have_stretches_of_their_own():
    model, x = net(), image()
    settled(model, x)
    other = copy.deepcopy(model)
    other[6].weight.data.zero_()
    agrees(settled(other, x), other, x)


def test_it_can_be_turned_off():
    model, x = net(), image()
    with rl._inductor.config.patch(replay_modules=False):
        answer = answering(model)
        for _ in range(6):
            answer(x)
    assert stretches_of(answer) == []
