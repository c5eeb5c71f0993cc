"""Small programs after PyTorch's notes on CUDA, each with a wrong variant that is refused."""

import contextlib
import gc
import io

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.nn import functional as F

SIZE = 16


def ones(device="cuda", **options):
    return rl.ones(SIZE, device=device, **options)


# -- what is where ---------------------------------------------------------------------


def operands_of_one_card(other):
    return (ones() + ones(other)).sum().item() == 2 * SIZE


def a_block_of_a_card(index):
    with rl.cuda.device(index):
        return rl.ones(2, device="cuda").get_device() == 1


def the_current_card(index):
    rl.cuda.set_device(index)
    found = rl.empty(1, device="cuda").device.index
    rl.cuda.set_device(0)
    return found == 1


def a_module_where_its_input_is(device):
    return nn.Linear(SIZE, 2).to("cuda")(ones(device)).is_cuda


def a_result_on_its_card(device):
    out = rl.empty(SIZE, device=device)
    rl.add(ones(), ones(), out=out)
    return out.sum().item() == 2 * SIZE


def an_index_of_the_host(where, index_at):
    table = rl.arange(5.0, device=where)
    return table[rl.tensor([3], device=index_at)].item() == 3


def a_gradient_beside_its_tensor(device):
    x = ones(requires_grad=True)
    x.grad = ones(device)
    return x.grad.is_cuda


def arrays_by_way_of_the_host(bring):
    return float(bring(ones()).numpy().sum()) == SIZE


def files_name_their_card(place):
    file = io.BytesIO()
    rl.save(ones(), file)
    file.seek(0)
    return rl.load(file, map_location=place).device == rl.device("cuda", 1)


def conditions_and_values_together(device):
    return rl.where(ones() > 0, ones(), ones(device)).sum().item() == SIZE


# -- streams and events ------------------------------------------------------------------


def a_timed_event(timing):
    start, end = (rl.cuda.Event(enable_timing=timing) for _ in range(2))
    start.record()
    ones() * 2
    end.record()
    rl.cuda.synchronize()
    return start.elapsed_time(end) > 0


def an_event_that_was_recorded(record):
    start, end = (rl.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    if record:
        end.record()
    end.synchronize()
    return start.elapsed_time(end) >= 0


def an_event_of_one_card(index):
    event = rl.cuda.Event()
    event.record(rl.cuda.current_stream(0))
    event.record(rl.cuda.current_stream(index))
    event.synchronize()
    return event.query()


def a_card_that_is_waited_for(device):
    rl.cuda.synchronize(device)
    return rl.cuda.current_stream().query()


def shared_events(interprocess, timing):
    return rl.cuda.Event(enable_timing=timing, interprocess=interprocess) is not None


# -- graphs ----------------------------------------------------------------------------


def captured(work, graph=None, **options):
    graph, queue = graph or rl.cuda.CUDAGraph(), rl.cuda.Stream()
    queue.wait_stream(rl.cuda.current_stream())
    with rl.cuda.stream(queue):
        work()
    rl.cuda.current_stream().wait_stream(queue)
    with rl.cuda.graph(graph, stream=queue, **options):
        out = work()
    return graph, out


def a_graph_of_work(finish):
    x = ones()
    graph, out = captured(lambda: finish(x * 2))
    x.fill_(3)
    graph.replay()
    return out.sum().item() == 6 * SIZE


def a_graph_that_was_captured(capture):
    x, graph = ones(), rl.cuda.CUDAGraph()
    if capture:
        captured(lambda: x + 1, graph)
    graph.replay()
    return True


def a_graph_of_its_own(again):
    x, graph = ones(), rl.cuda.CUDAGraph()
    captured(lambda: x + 1, graph)
    if again:
        captured(lambda: x + 2, graph)
    return True


def a_capture_on_a_side_stream(queue):
    x, graph = ones(), rl.cuda.CUDAGraph()
    rl.cuda.synchronize()
    with rl.cuda.stream(queue()):
        graph.capture_begin()
        x * 2
        graph.capture_end()
    return True


def a_mode_of_capture(mode):
    x = ones()
    return captured(lambda: x * 2, capture_error_mode=mode)[1] is not None


def a_pool_of_two_graphs(end):
    x = ones()
    first, one = captured(lambda: x * 2)
    second, two = captured(lambda: one + 1, pool=first.pool())
    first.replay()
    second.replay()
    if end:
        second.capture_end()
    return two.sum().item() == 3 * SIZE


# -- memory -----------------------------------------------------------------------------


def memory_that_is_there(count):
    return rl.empty(count, device="cuda", dtype=rl.uint8).numel() == count


def a_share_of_memory(fraction):
    rl.cuda.set_per_process_memory_fraction(fraction)
    rl.cuda.set_per_process_memory_fraction(1.0)
    return True


def locked_memory(device):
    source = ones(device).pin_memory()
    found = source.to("cuda", non_blocking=True)
    return source.is_pinned() and found.sum().item() == SIZE


def figures_of_a_card(index):
    ones()
    return rl.cuda.memory_stats(index)["allocation.all.peak"] >= 0


# -- numbers ----------------------------------------------------------------------------


def a_generator_of_its_card(device):
    source = rl.Generator(device=device).manual_seed(1)
    return rl.randn(3, generator=source, device="cuda").is_cuda


def states_of_generators(state):
    before = rl.cuda.get_rng_state()
    first = rl.rand(3, device="cuda")
    rl.cuda.set_rng_state(state(before))
    return rl.equal(first, rl.rand(3, device="cuda"))


# -- mixed precision ----------------------------------------------------------------------


def losses_under_autocast(loss):
    with rl.autocast("cuda"):
        return loss(ones() / 2, ones()).item() > 0


def a_kind_of_device(kind):
    with rl.autocast(kind, dtype=rl.float16):
        return (rl.ones(2, 2, device="cuda") @ rl.ones(2, 2, device="cuda")).is_cuda


def a_scaled_step(steps, unscalings, losses=1):
    weight = ones(requires_grad=True)
    sgd, scaler = rl.optim.SGD([weight], 0.5), rl.amp.GradScaler("cuda", 8.0)
    for _ in range(losses):
        scaler.scale(weight.sum()).backward()
    for _ in range(unscalings):
        scaler.unscale_(sgd)
    for _ in range(steps):
        scaler.step(sgd)
    scaler.update()
    return weight[0].item() == 0.5


def an_index_that_is_there(place):
    found = F.embedding(rl.tensor([place], device="cuda"), rl.ones(5, 2, device="cuda"))
    rl.cuda.synchronize()
    return found.shape == (1, 2)


HOST, CARD, OTHER = "cpu", "cuda", "cuda:1"
# A program, what it is given, what its wrong variant is given, and what that raises.
PROGRAMS = [
    (operands_of_one_card, (CARD,), (OTHER,), RuntimeError, "same device|expected device"),
    (a_block_of_a_card, (1,), (9,), RuntimeError, "invalid device ordinal"),
    (the_current_card, (1,), (7,), RuntimeError, "invalid device ordinal"),
    (a_module_where_its_input_is, (CARD,), (HOST,), RuntimeError, "device"),
    (a_result_on_its_card, (CARD,), (HOST,), RuntimeError, "device"),
    (an_index_of_the_host, (CARD, HOST), (HOST, CARD), RuntimeError, "indices should be"),
    (a_gradient_beside_its_tensor, (CARD,), (OTHER,), RuntimeError, "device"),
    (arrays_by_way_of_the_host, (rl.Tensor.cpu,), (lambda t: t,), TypeError, "cpu"),
    (files_name_their_card, (OTHER,), ("cuda:9",), RuntimeError, "device"),
    (conditions_and_values_together, (CARD,), (OTHER,), RuntimeError, "device"),
    (a_timed_event, (True,), (False,), ValueError, "enable_timing"),
    (an_event_that_was_recorded, (True,), (False,), ValueError, "recorded"),
    (an_event_of_one_card, (0,), (1,), RuntimeError, "does not match"),
    (a_card_that_is_waited_for, (CARD,), (HOST,), ValueError, "Expected a cuda device"),
    (shared_events, (True, False), (True, True), RuntimeError, "interprocess"),
    (a_graph_of_work, (lambda t: t,), (lambda t: t.sum().item(),), RuntimeError, "captur"),
    (a_graph_that_was_captured, (True,), (False,), RuntimeError, "replay"),
    (a_graph_of_its_own, (False,), (True,), RuntimeError, "already owns"),
    (
        a_capture_on_a_side_stream, (rl.cuda.Stream,), (rl.cuda.default_stream,),
        RuntimeError, "non-default stream",
    ),
    (a_mode_of_capture, ("relaxed",), ("lax",), RuntimeError, "capture error mode"),
    (a_pool_of_two_graphs, (False,), (True,), RuntimeError, "capture_end"),
    (memory_that_is_there, (1 << 10,), (1 << 40,), rl.OutOfMemoryError, "out of memory"),
    (a_share_of_memory, (0.5,), (1.5,), ValueError, "fraction"),
    (locked_memory, (HOST,), (CARD,), RuntimeError, "pin"),
    (figures_of_a_card, (0,), (5,), RuntimeError, "invalid device|ordinal"),
    (a_generator_of_its_card, (CARD,), (HOST,), RuntimeError, "generator"),
    (states_of_generators, (lambda s: s,), (lambda s: s[:5],), RuntimeError, "state"),
    (
        losses_under_autocast, (F.binary_cross_entropy_with_logits,),
        (F.binary_cross_entropy,), RuntimeError, "unsafe to autocast",
    ),
    (a_kind_of_device, (CARD,), ("gpu",), RuntimeError, "device"),
    (a_scaled_step, (1, 1), (2, 1), RuntimeError, "already been called"),
    (a_scaled_step, (1, 0), (1, 2), RuntimeError, "unscale_"),
    (a_scaled_step, (1, 1), (1, 1, 0), AssertionError, "_scale is None"),
    (an_index_that_is_there, (4,), (5,), IndexError, "operator: embedding"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def _machine(machine, monkeypatch):
    monkeypatch.setenv("RUSHLIGHT_CUDA", "1")
    machine.start(cards=2, memory=1 << 26)


def test_programs_of_the_documentation_run():
    assert len(PROGRAMS) >= 32
    for program, right, *_ in PROGRAMS:
        assert program(*right), program.__name__


def test_their_wrong_variants_are_refused_and_leave_the_card_usable(machine):
    for program, _, wrong, kind, words in PROGRAMS:
        with pytest.raises(kind, match=words):
            program(*wrong)
        gc.collect()
        with contextlib.suppress(RuntimeError):  # a capture that was cut off
            rl.cuda.synchronize()
        machine.start(cards=2, memory=1 << 26)
        assert ones().sum().item() == SIZE, program.__name__


def total_beside(wait, seed, machine):
    """A sum on a side stream of what the first stream makes."""
    machine.start(seed=seed)
    side = rl.cuda.Stream()
    x = rl.zeros(SIZE, device="cuda")
    rl.cuda.synchronize()
    x.fill_(1.0)
    if wait:
        side.wait_stream(rl.cuda.current_stream())
    with rl.cuda.stream(side):
        total = x.sum()
    rl.cuda.synchronize()
    return total.item()


def kept_beside(record, seed, machine):
    """What a side stream reads of memory that is given back meanwhile."""
    machine.start(seed=seed)
    side = rl.cuda.Stream()
    x = rl.full((SIZE,), 5.0, device="cuda")
    side.wait_stream(rl.cuda.current_stream())
    with rl.cuda.stream(side):
        found = x + 0
    if record:
        x.record_stream(side)
    del x
    rl.zeros(SIZE, device="cuda")
    rl.cuda.synchronize()
    return found.sum().item() / (5 * SIZE) * SIZE


@pytest.mark.imagined
@pytest.mark.parametrize("program", [total_beside, kept_beside])
def test_a_missing_wait_is_seen_in_some_order_and_none_is_missed(program, machine):
    assert {program(True, seed, machine) for seed in range(6)} == {float(SIZE)}
    assert len({program(False, seed, machine) for seed in range(12)}) > 1
