"""Convolutions by cuDNN on an imagined card: graphs, engines, switches, ours where it fails."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest

import rushlight as rl
from rushlight.backends import cudnn as switches
from rushlight.nn import functional as F
from rushlight.runtime.cuda import contexts, libraries
from tests.cuda import dnn
from tests.cuda.dnn import HALVED, LOOSE, PLAIN, UNITS

KINDS = (rl.float32, rl.float64, rl.float16, rl.bfloat16)
SIGNATURES = json.loads(Path(__file__).with_name("signatures.json").read_text())


@pytest.fixture(autouse=True)
def _machine(machine, monkeypatch):
    machine.start(cards=2, memory=1 << 27)
    monkeypatch.setenv("RUSHLIGHT_CUDA", "1")
    with switches.flags(enabled=True, allow_tf32=False):
        yield


@pytest.mark.parametrize("function", SIGNATURES["cudnn"])
def test_the_imagined_functions_take_what_nvidia_s_take(function):
    owners = dnn.Cudnn, dnn.Graph, dnn.Described
    made = next(getattr(o, function) for o in owners if hasattr(o, function))
    found = list(inspect.signature(made).parameters)[1:]
    wanted = SIGNATURES["cudnn"][function]
    positional = any(name.startswith("arg") for name in wanted)
    assert len(found) == len(wanted) if positional else found == wanted


def made(sizes, kind, seed=0):
    rl.manual_seed(seed)
    return (rl.randn(*sizes) / 2).to(kind)


# Sizes of input and weight, then what is given by name.
CALLS = {
    "plain": ((2, 4, 7, 6), (6, 4, 3, 3), {}),
    "padded": ((2, 4, 7, 6), (6, 4, 3, 3), {"padding": (1, 2)}),
    "strided": ((2, 4, 9, 8), (6, 4, 3, 2), {"stride": (2, 3), "padding": 1}),
    "dilated": ((1, 4, 9, 9), (2, 4, 3, 3), {"dilation": (2, 3), "padding": 2}),
    "groups": ((2, 6, 5, 5), (4, 3, 3, 3), {"groups": 2}),
    "depthwise": ((2, 3, 6, 6), (6, 1, 3, 3), {"groups": 3, "padding": 1}),
    "one by one": ((2, 4, 5, 3), (3, 4, 1, 1), {}),
    "line": ((2, 4, 9), (5, 4, 3), {"padding": 1, "stride": 2}),
    "volume": ((1, 2, 4, 5, 4), (4, 2, 2, 3, 2), {"padding": (0, 1, 1)}),
    "same": ((2, 2, 6, 5), (4, 2, 2, 4), {"padding": "same"}),
}
TRANSPOSED = {
    "turned": ((2, 4, 4, 5), (4, 3, 3, 3), {"stride": 2, "padding": 1}),
    "turned, padded": ((2, 4, 4, 4), (4, 3, 3, 3), {"stride": 2, "output_padding": 1}),
    "turned groups": ((1, 4, 4, 4), (4, 3, 2, 3), {"groups": 2, "dilation": (1, 2)}),
    "turned line": ((2, 3, 5), (3, 4, 3), {"stride": 2}),
    "turned volume": ((1, 2, 3, 3, 2), (2, 3, 2, 2, 2), {"stride": (1, 2, 1)}),
    "turned far": ((1, 2, 3, 3), (2, 2, 2, 2), {"dilation": 3, "output_padding": 2}),
}
FORMATS = {4: rl.channels_last, 5: rl.channels_last_3d}


def function(name):
    n = len((CALLS.get(name) or TRANSPOSED[name])[0]) - 2
    return getattr(F, f"conv{n}d" if name in CALLS else f"conv_transpose{n}d")


def gradients(name, kind, device, last=False):
    """The output of a call, and the gradients of its operands."""
    sizes, weight_sizes, named = CALLS.get(name) or TRANSPOSED[name]
    rows = (
        weight_sizes[0] if name in CALLS else weight_sizes[1] * named.get("groups", 1)
    )
    operands = [made(sizes, kind), made(weight_sizes, kind, 1), made((rows,), kind, 2)]
    if last:
        operands[0] = operands[0].contiguous(memory_format=FORMATS[len(sizes)])
    operands = [x.to(device).requires_grad_() for x in operands]
    out = function(name)(*operands, **named)
    out.backward(made(out.shape, kind, 3).to(device))
    return out, *(x.grad for x in operands)


def close(found, wanted, near=None):
    for one, other in zip(found, wanted, strict=True):
        digits = near or {2: 3e-2, 4: 1e-5, 8: 1e-12}[other.element_size()]
        assert one.is_cuda and one.dtype is other.dtype
        assert one.stride() == other.stride()
        assert rl.allclose(one.cpu().double(), other.double(), rtol=digits, atol=digits)


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
@pytest.mark.parametrize("name", [*CALLS, *TRANSPOSED])
def test_outputs_and_gradients_are_the_host_s(machine, name, kind):
    close(gradients(name, kind, "cuda"), gradients(name, kind, "cpu"))
    done = [graph.operation.kind for graph in machine.cudnn.graphs]
    if kind is rl.float64:  # whose factors the frontend hands over as float32
        assert not done
        return
    both = {"forward", "input"}
    # An output that is padded by more than a step is not one that the library knows.
    far = {"forward"}
    assert set(done) == (far if name == "turned far" else both | {"weight"})
    assert len(machine.cudnn.runs) == len(done)


@pytest.mark.parametrize("kind", KINDS[::2], ids=lambda k: k.name)
@pytest.mark.parametrize("name", ["padded", "groups", "volume", "turned"])
def test_channels_that_are_last_stay_last_without_a_copy(machine, name, kind):
    wanted = gradients(name, kind, "cpu", last=True)
    found = gradients(name, kind, "cuda", last=True)
    form = FORMATS[found[0].ndim]
    for one, other in zip(found[:2], wanted[:2], strict=True):
        assert one.is_contiguous(memory_format=form)
        near = 3e-2 if kind is rl.float16 else 1e-5
        assert rl.allclose(one.cpu().double(), other.double(), rtol=near, atol=near)
    image = machine.cudnn.graphs[0].operation.first
    assert image.stride[1] == 1 and image.dim[1] > 1


def test_numbers_are_multiplied_as_short_as_they_are(machine):
    for kind in KINDS[2:]:
        gradients("padded", kind, "cuda")
    assert {g.kind for g in machine.cudnn.graphs} == {
        dnn.data_type.HALF, dnn.data_type.BFLOAT16,
    }  # fmt: skip
    assert {g.sums for g in machine.cudnn.graphs} == {dnn.data_type.FLOAT}


def test_float32_is_rounded_to_tf32_only_where_the_switches_allow_it(machine):
    exact, cases = gradients("padded", rl.float32, "cpu"), []
    switches.allow_tf32 = True
    cases.append((True, switches.conv.fp32_precision))
    switches.conv.fp32_precision = "ieee"
    cases.append((False, switches.conv.fp32_precision))
    for allowed, word in cases:
        switches.conv.fp32_precision = word
        machine.cudnn.runs.clear()
        found = gradients("padded", rl.float32, "cuda")
        close(found, exact, 2e-3 if allowed else 1e-5)
        assert set(machine.cudnn.runs) == ({UNITS, LOOSE} if allowed else {PLAIN})
        rounded = (found[0].cpu() - exact[0]).abs().max() > 1e-5
        assert bool(rounded) == allowed
    assert HALVED not in machine.cudnn.runs


def test_deterministic_runs_take_no_engine_that_adds_in_any_order(machine):
    gradients("plain", rl.float16, "cuda")
    assert LOOSE in machine.cudnn.runs
    machine.cudnn.runs.clear()
    switches.deterministic = True
    gradients("plain", rl.float16, "cuda")
    assert LOOSE not in machine.cudnn.runs and machine.cudnn.runs
    switches.deterministic = False
    rl.use_deterministic_algorithms(True)
    try:
        machine.cudnn.runs.clear()
        gradients("plain", rl.float16, "cuda")
        assert LOOSE not in machine.cudnn.runs
    finally:
        rl.use_deterministic_algorithms(False)


def forward(name, kind=rl.float32, device="cuda"):
    sizes, weight_sizes, named = CALLS[name]
    operands = made(sizes, kind), made(weight_sizes, kind, 1)
    vector = made(weight_sizes[:1], kind, 2)
    return function(name)(*(x.to(device) for x in (*operands, vector)), **named)


def test_a_plan_is_made_once_for_a_geometry(machine):
    for _ in range(3):
        forward("padded")
    assert len(machine.cudnn.graphs) == 1 and len(machine.cudnn.runs) == 3
    forward("strided")
    assert len(machine.cudnn.graphs) == 2
    with switches.flags(enabled=True, allow_tf32=True):
        forward("padded")
    assert len(machine.cudnn.graphs) == 3


def test_the_fastest_of_the_plans_that_run_is_kept_where_that_is_asked_for(machine):
    slow, broken = dnn.Engine(room=2, turns=9), dnn.Engine(room=3, built=False)
    machine.cudnn.engines = slow, broken, PLAIN, slow
    wanted = forward("padded", device="cpu")
    with switches.flags(enabled=True, benchmark=True, allow_tf32=False):
        close([forward("padded")], [wanted])
        assert set(machine.cudnn.runs) == {slow, PLAIN}
        machine.cudnn.runs.clear()
        close([forward("padded")], [wanted])
        assert machine.cudnn.runs == [PLAIN]
    with switches.flags(
        enabled=True, benchmark=True, benchmark_limit=1, allow_tf32=False
    ):
        machine.cudnn.runs.clear()
        close([forward("strided")], [forward("strided", device="cpu")])
        assert set(machine.cudnn.runs) == {slow}


def test_what_the_library_compiles_first_adds_a_vector_only_where_plans_are_timed(
    machine,
):
    """A first step waits seconds for it; an addition of its own does not."""
    notes = frozenset({dnn.behavior_note.RUNTIME_COMPILATION})
    fused, slow = dnn.Engine(room=3, behavior=notes), dnn.Engine(room=2, turns=9)
    machine.cudnn.engines = fused, slow
    wanted = forward("padded", device="cpu")
    close([forward("padded")], [wanted])
    assert machine.cudnn.runs == [slow]
    machine.cudnn.engines = (fused,)
    close([forward("strided")], [forward("strided", device="cpu")])
    assert (
        machine.cudnn.runs == [slow, fused] and machine.cudnn.graphs[-1].added is None
    )
    machine.cudnn.engines = fused, slow
    with switches.flags(enabled=True, benchmark=True, allow_tf32=False):
        close([forward("padded")], [wanted])
    assert machine.cudnn.runs[-1] is fused


def test_a_vector_is_added_in_the_graph_or_behind_it(machine):
    wanted = forward("padded", device="cpu")
    close([forward("padded")], [wanted])
    assert machine.cudnn.graphs[0].added is not None
    machine.start(cards=1, memory=1 << 27)
    machine.cudnn.fused = False
    close([forward("padded")], [wanted])
    assert [g.added is None for g in machine.cudnn.graphs] == [False, True]


@pytest.mark.parametrize("name", ["groups", "strided", "line", "volume", "turned"])
@pytest.mark.parametrize("why", ["absent", "off", "no engine", "no plan"])
def test_kernels_of_ours_convolve_where_the_library_does_not(machine, name, why):
    if why == "absent":
        libraries.CUDNN.found, libraries.CUDNN.missing = None, "not installed"
    elif why == "off":
        switches.enabled = False
    else:
        machine.cudnn.engines = () if why == "no engine" else (dnn.Engine(built=False),)
    close(gradients(name, rl.float32, "cuda"), gradients(name, rl.float32, "cpu"))
    assert not machine.cudnn.runs
    if why in ("absent", "off"):
        assert not machine.cudnn.graphs


PLANES = {
    "small filters": ((2, 3, 9, 17), (6, 1, 3, 3), {"padding": 1}),
    "large filters": ((1, 2, 60, 70), (2, 1, 9, 9), {"padding": (4, 0)}),
    "steps and gaps": ((6, 4, 61, 75), (8, 1, 7, 5), {"stride": 3, "dilation": (1, 2)}),
}


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("name", PLANES)
def test_threads_have_an_element_of_planes_each_without_the_library(
    machine, name, biased
):
    switches.enabled = False
    sizes, filters, named = PLANES[name]
    x, w = made(sizes, rl.float32), made(filters, rl.float32, 1)
    operands = [x, w, made(filters[:1], rl.float32, 2) if biased else None]
    wanted = F.conv2d(*operands, groups=sizes[1], **named)
    there = [None if t is None else t.cuda() for t in operands]
    close([F.conv2d(*there, groups=sizes[1], **named)], [wanted])
    assert any(name.startswith("depthwise") for name in machine.launched())


def test_operands_that_begin_between_words_are_copied_first(machine):
    x, w = made((3, 4, 5, 5), rl.float32), made((2, 4, 3, 3), rl.float32, 1)
    flat = rl.cat([rl.zeros(1), x.flatten()]).cuda()
    odd = flat[1:].view(3, 4, 5, 5)
    assert odd.data_ptr() % 16
    close([F.conv2d(odd, w.cuda())], [F.conv2d(x, w)])
    assert len(machine.cudnn.runs) == 1


def test_work_goes_into_the_queue_that_is_current_and_onto_the_operands_card(machine):
    x, w = made((1, 2, 5, 5), rl.float32), made((2, 2, 3, 3), rl.float32, 1)
    wanted = F.conv2d(x, w)
    there = [t.to("cuda:1") for t in (x, w)]
    assert F.conv2d(*there).device == rl.device("cuda:1")
    stream = rl.cuda.Stream(device=1)
    stream.wait_stream(rl.cuda.current_stream(1))
    with rl.cuda.stream(stream):
        found = F.conv2d(*there)
        handle = machine.cudnn.graphs[-1].handle
        assert machine.cudnn.handles[handle].stream == int(stream.cuda_stream)
    stream.synchronize()
    close([found], [wanted])


def test_another_thread_has_a_handle_and_plans_of_its_own(machine):
    import threading

    forward("padded")
    thread = threading.Thread(target=forward, args=("padded",))
    thread.start()
    thread.join()
    assert len({graph.handle for graph in machine.cudnn.graphs}) == 2


def test_an_error_of_a_run_names_the_library_and_the_function(machine):
    forward("padded")
    machine.cudnn.graphs[0].fault = "CUDNN_STATUS_EXECUTION_FAILED"
    with pytest.raises(
        rl.AcceleratorError, match="cuDNN error: CUDNN_STATUS_EXEC"
    ) as e:
        forward("padded")
    assert "function: execute" in str(e.value)


def test_a_graph_is_recorded_without_timing_and_replays(machine):
    x = made(CALLS["padded"][0], rl.float32).cuda()
    w = made(CALLS["padded"][1], rl.float32, 1).cuda()
    with switches.flags(enabled=True, benchmark=True, allow_tf32=False):
        graph = rl.cuda.CUDAGraph()
        with rl.cuda.graph(graph):
            out = F.conv2d(x, w, padding=(1, 2))
        x.copy_(x * 2)
        graph.replay()
        close([out], [F.conv2d(x.cpu(), w.cpu(), padding=(1, 2))])


@pytest.mark.imagined
def test_old_plans_are_let_go(machine, monkeypatch):
    from rushlight.runtime.cuda import cudnn

    monkeypatch.setattr(cudnn, "KEPT", 2)
    for width in range(3, 8):
        F.conv2d(rl.ones(1, 1, 3, width).cuda(), rl.ones(1, 1, 1, 1).cuda())
    assert len(contexts.ctx(0).convolutions) == 2


@pytest.mark.imagined
def test_the_facts_of_the_library_are_asked_of_it(machine):
    assert switches.version() == 91002 and switches.is_available()
    assert switches.is_acceptable(rl.ones(2).cuda())
    assert not switches.is_acceptable(rl.ones(2))
    assert not switches.is_acceptable(rl.ones(2, dtype=rl.int32).cuda())


def test_words_of_precision_are_inherited():
    backends = rl.backends
    assert switches.conv.fp32_precision == switches.fp32_precision == "none"
    switches.fp32_precision = "tf32"
    assert switches.conv.fp32_precision == "tf32" and switches.allow_tf32
    switches.conv.fp32_precision = "ieee"
    assert not switches.allow_tf32 and switches.rnn.fp32_precision == "tf32"
    switches.conv.fp32_precision = switches.fp32_precision = "none"
    backends.fp32_precision = "tf32"
    try:
        assert switches.conv.fp32_precision == switches.fp32_precision == "tf32"
    finally:
        backends.fp32_precision = "none"
    with pytest.raises(RuntimeError, match="Unknown precision: half"):
        switches.conv.fp32_precision = "half"
