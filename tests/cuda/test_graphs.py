"""Compiled programs that imagined cards launch as one graph: values, memory, refusals."""

from __future__ import annotations

import gc

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.core import logs
from rushlight.graph.compiled_function import counters
from rushlight.nn import functional as F
from tests.cuda.test_programs import MODELS, losses_of
from tests.cuda.test_training import LeNet

WORK = ("cuLaunchKernel", "cuGraphLaunch", "cuMemcpyAsync")


pytestmark = pytest.mark.usefixtures("compiling")


def graphed(function):
    return rl.compile(function, mode="reduce-overhead")


def work(machine, call, *args):
    """What a call asks the driver for, and what it gives."""
    begun = len(machine.fake.calls)
    found = call(*args)
    names = [name for name, _ in machine.fake.calls[begun:] if name in WORK]
    return names, found


@pytest.mark.parametrize("name", MODELS)
def test_inference_is_one_launch(name, machine):
    rl.manual_seed(0)
    make, batch = MODELS[name]
    model = make().to("cuda").eval()
    fast = graphed(model)
    with rl.no_grad():
        for number in range(9):
            x = batch()[0].to("cuda")
            wanted = model(x).cpu()
            names, found = work(machine, fast, x)
            assert rl.allclose(found.cpu(), wanted, atol=1e-5)
            if number >= 6:
                assert names.count("cuGraphLaunch") == 1
                assert "cuLaunchKernel" not in names
    assert not counters["inductor"]["cudagraph_skips"]


@pytest.mark.parametrize("name", MODELS)
def test_steps_of_training_are_eager_ones(name):
    from tests.cuda.test_programs import trained

    rl.manual_seed(0)
    make, batch = MODELS[name]
    model, batches = make(), [batch() for _ in range(2)]
    wanted, weights = trained(model, batches, None, 8)
    found, others = trained(model, batches, "reduce-overhead", 8)
    assert found == pytest.approx(wanted, rel=1e-4)
    for one, other in zip(weights, others, strict=True):
        assert rl.allclose(one, other, atol=1e-4)


def test_forward_and_backward_are_a_graph_each(machine):
    rl.manual_seed(0)
    model = LeNet().to("cuda")
    fast = graphed(model)
    x, y = (t.to("cuda") for t in MODELS["lenet"][1]())
    for number in range(8):
        model.zero_grad()
        F.cross_entropy(model(x), y).backward()
        wanted = [p.grad.cpu() for p in model.parameters()]
        model.zero_grad()
        begun = len(machine.fake.calls)
        loss = F.cross_entropy(fast(x), y)
        loss.backward()
        calls = [name for name, _ in machine.fake.calls[begun:]]
        for p, grad in zip(model.parameters(), wanted, strict=True):
            assert rl.allclose(p.grad.cpu(), grad, atol=1e-5)
        if number >= 6:
            assert calls.count("cuGraphLaunch") == 2
        del loss


def test_what_is_still_held_keeps_its_values():
    fast = graphed(lambda x: (x * 2 + 1, (x - 1).exp()))
    inputs = [rl.randn(40) for _ in range(9)]
    held = [fast(x.to("cuda")) for x in inputs]
    views = [one[3:7] for one, _ in held]
    for x, (one, two), view in zip(inputs, held, views, strict=True):
        assert rl.allclose(one.cpu(), x * 2 + 1)
        assert rl.allclose(two.cpu(), (x - 1).exp())
        assert rl.allclose(view.cpu(), (x * 2 + 1)[3:7])


def test_what_a_graph_gave_may_be_changed_resized_and_given_to_it_again():
    fast = graphed(lambda x: x * 2 + 1)
    x, wanted = rl.ones(8).to("cuda"), rl.ones(8)
    for _ in range(9):
        x, wanted = fast(x), wanted * 2 + 1
        x.add_(1)
        wanted.add_(1)
        assert rl.equal(x.cpu(), wanted)
    x.resize_(20)
    assert x.numel() == 20
    y = fast(rl.ones(8).to("cuda"))
    assert y.tolist() == [3.0] * 8


def test_what_is_written_in_place_is_written_wherever_it_lies():
    @graphed
    def program(total, x):
        total.add_(x.exp())
        return total.sum() + 1

    fixed, count = rl.zeros(6).to("cuda"), rl.zeros(6)
    keep = []
    for number in range(10):
        x = rl.randn(6)
        keep.append(x.to("cuda"))
        total = fixed if number < 6 else rl.zeros(6, device="cuda")
        count = count if number < 6 else rl.zeros(6)
        version = total._version
        found = program(total, keep[-1])
        count.add_(x.exp())
        assert rl.allclose(total.cpu(), count, atol=1e-5)
        assert found.item() == pytest.approx(count.sum().item() + 1, rel=1e-5)
        assert total._version > version


def test_other_numbers_make_other_graphs_or_none():
    fast = graphed(lambda x, rate: x * rate + 1)
    x = rl.ones(4).to("cuda")
    for number in range(30):
        assert fast(x, number / 4).tolist() == [number / 4 + 1] * 4
    assert counters["inductor"]["cudagraph_skips"] == 1


def test_other_sizes_have_graphs_of_their_own():
    fast = graphed(lambda x: x.exp().sum(1))
    for number in range(12):
        x = rl.randn(3 + number % 3, 5)
        assert rl.allclose(fast(x.to("cuda")).cpu(), x.exp().sum(1), atol=1e-5)


@pytest.mark.parametrize(
    ("why", "function"),
    [
        ("host", lambda x: (rl.ones(4) + x.shape[0]).exp().to("cuda") * x),
    ],
)
def test_what_cannot_be_a_graph_runs_as_it_did(why, function, capsys):
    rl._logging.set_logs(cudagraphs=True)
    try:
        fast = graphed(function)
        for _ in range(5):
            assert fast(rl.ones(4).to("cuda")).is_cuda
    finally:
        rl._logging.set_logs()
    assert why in capsys.readouterr().err
    assert not logs.cudagraphs.active


def test_on_the_host_the_mode_changes_nothing():
    fast = graphed(lambda x: x.exp() + 1)
    for _ in range(4):
        assert rl.equal(fast(rl.ones(3)), rl.ones(3).exp() + 1)


def test_a_bad_index_is_an_error_and_the_next_call_is_right():
    table = rl.randn(4, 3).to("cuda")
    fast = graphed(lambda i: F.embedding(i, table) * 2)
    good, bad = rl.tensor([0, 3]), rl.tensor([0, 4])
    for _ in range(5):
        assert rl.equal(fast(good.to("cuda")).cpu(), table[good].cpu() * 2)
    with pytest.raises(IndexError, match="index out of range"):
        fast(bad.to("cuda")).cpu()
    assert rl.equal(fast(good.to("cuda")).cpu(), table[good].cpu() * 2)


def test_memory_stays_the_same_and_is_given_back():
    rl.manual_seed(0)
    gc.collect()
    before = rl.cuda.memory_allocated()
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4)).to("cuda")
    fast = graphed(model)
    held = []
    for _ in range(14):
        x = rl.randn(5, 16).to("cuda")
        fast(x).sum().backward()
        model.zero_grad()
        del x
        gc.collect()
        held.append(rl.cuda.memory_allocated())
    assert held[10:] == [held[10]] * 4
    rl._dynamo.reset()
    del model, fast
    gc.collect()
    assert rl.cuda.memory_allocated() == before


@pytest.mark.parametrize(
    "call", ["cuStreamBeginCapture", "cuStreamEndCapture", "cuGraphInstantiate"]
)
def test_where_nothing_can_be_written_down_programs_run(call, machine):
    fast = graphed(lambda x: x.exp() + 1)
    machine.fake.fail(call, 900)
    for _ in range(6):
        x = rl.randn(5)
        assert rl.allclose(fast(x.to("cuda")).cpu(), x.exp() + 1)
    assert counters["inductor"]["cudagraph_skips"] == 1


@pytest.mark.parametrize("call", ["cuLaunchKernel", "cuMemAlloc"])
def test_a_fault_while_work_is_written_down_leaves_all_usable(call, machine):
    fast = graphed(lambda x: (x.exp() + 1, x.sum(1).relu()))
    x = rl.randn(6, 5)
    for number in range(6):
        if number == 2:
            machine.fake.fail(call, 2 if call == "cuMemAlloc" else 719)
            machine.fake.fail(call, 2 if call == "cuMemAlloc" else 719)
        try:
            one, two = fast(x.to("cuda"))
        except RuntimeError as error:
            assert number == 2 and "CUDA" in str(error)
            continue
        finally:
            machine.fake.faults.clear()
        assert rl.allclose(one.cpu(), x.exp() + 1)
        assert rl.allclose(two.cpu(), x.sum(1).relu(), atol=1e-5)


@pytest.mark.parametrize("seed", range(6))
def test_graphs_are_launched_on_any_queue_in_order(seed, machine):
    machine.start(seed=seed)
    fast = graphed(lambda x: (x * 2).exp() - 1)
    queues = [rl.cuda.current_stream(), rl.cuda.Stream(), rl.cuda.Stream()]
    held = []
    for number in range(9):
        x = rl.randn(32)
        queue = queues[number % 3]
        with rl.cuda.stream(queue):
            found = fast(x.to("cuda"))
            held.append((x, found, found.cpu()))
    rl.cuda.synchronize()
    for x, found, copied in held:
        assert rl.allclose(copied, (x * 2).exp() - 1, atol=1e-5)
        assert rl.allclose(found.cpu(), (x * 2).exp() - 1, atol=1e-5)


def test_inside_of_a_users_graph_programs_run_as_they_are():
    fast = graphed(lambda x: x * 3 + 1)
    x = rl.ones(4).to("cuda")
    for _ in range(4):
        fast(x)
    whole = rl.cuda.CUDAGraph()
    with rl.cuda.graph(whole):
        y = fast(x)
    x.fill_(2)
    whole.replay()
    assert y.tolist() == [7.0] * 4


def drawn(x):
    """Numbers of several kinds, drawn one after the other."""
    normal = rl.randn_like(x) + x
    dropped = F.dropout(normal, 0.5), F.dropout(normal * 1, 0.5, inplace=True)
    channels = F.dropout1d(normal.view(20, 5, 3), 0.5)
    return *dropped, channels, rl.rand(3, device="cuda"), rl.randint_like(x, 99)


def test_programs_draw_what_their_operators_would_draw(machine):
    x = rl.randn(300).to("cuda")
    fast = graphed(drawn)
    rl.cuda.manual_seed(5)
    wanted = [[t.cpu() for t in drawn(x)] for _ in range(9)]
    place = rl.cuda.default_generators[0].get_offset()
    rl.cuda.manual_seed(5)
    for number, expected in enumerate(wanted):
        names, found = work(machine, fast, x)
        for one, other in zip(expected, found, strict=True):
            assert rl.equal(one, other.cpu())
        if number >= 6:  # the seed and the place are told, and the graph launched
            assert names[-2:] == ["cuLaunchKernel", "cuGraphLaunch"]
            assert names.count("cuLaunchKernel") == 1
    assert rl.cuda.default_generators[0].get_offset() == place
    assert not counters["inductor"]["cudagraph_skips"]


def test_a_seed_is_heard_by_graphs_that_were_written_down_before():
    fast = graphed(lambda x: rl.rand_like(x) + x)
    x = rl.zeros(20).to("cuda")
    for _ in range(6):
        fast(x)
    for seed in (3, (1 << 64) - 2):
        rl.cuda.manual_seed(seed)
        found = [fast(x).cpu() for _ in range(2)]
        rl.cuda.manual_seed(seed)
        assert rl.equal(found[0], rl.rand(20, device="cuda").cpu())
        assert rl.equal(found[1], rl.rand(20, device="cuda").cpu())


def test_steps_with_dropout_are_eager_ones():
    def steps(mode):
        rl.manual_seed(0)
        rl.cuda.manual_seed(0)
        layers = nn.Linear(8, 32), nn.Dropout(0.3), nn.ReLU(), nn.Linear(32, 4)
        model = nn.Sequential(*layers).to("cuda")
        fast = model if mode is None else rl.compile(model, mode=mode)
        return losses_of(model, fast, 9)

    assert steps("reduce-overhead") == pytest.approx(steps(None), rel=1e-5)


def test_work_that_a_user_writes_down_draws_anew_each_time():
    graph, x = rl.cuda.CUDAGraph(), rl.zeros(50, device="cuda")
    own = rl.Generator("cuda").manual_seed(7)
    with rl.cuda.graph(graph):
        y = rl.rand(50, device="cuda") + x
        z = rl.rand(50, device="cuda", generator=own)
    rl.cuda.manual_seed(3)
    found = []
    for _ in range(3):
        graph.replay()
        found.append((y.cpu(), z.cpu()))
    rl.cuda.manual_seed(3)
    other = rl.Generator("cuda").manual_seed(7)
    for one, two in found:
        assert rl.equal(one, rl.rand(50, device="cuda").cpu())
        assert rl.equal(two, rl.rand(50, device="cuda", generator=other).cpu())


def test_a_place_that_is_settled_while_work_is_written_down_is_refused():
    source = rl.cuda.default_generators[0]
    before = source.get_offset()
    with rl.cuda.graph(rl.cuda.CUDAGraph()):
        rl.zeros(4, device="cuda").exp()
        with pytest.raises(RuntimeError, match="draw the same ones each time"):
            source.take(4)
    assert source.get_offset() == before


def attended(leaves, chance=0.4, twice=False):
    """Results of attention with dropout, and gradients; or gradients of those."""
    drawn = rl.rand(3, device="cuda")  # the stream is somewhere else by then
    out = F.scaled_dot_product_attention(*leaves, None, chance)
    grads = rl.autograd.grad(out.float().square().sum(), leaves, create_graph=twice)
    if twice:
        total = sum(grad.float().square().sum() for grad in grads)
        grads = rl.autograd.grad(total, leaves)
    return drawn, out.detach(), *grads


def leaves_of(*sizes):
    sizes = sizes or (20, 33)
    counts = sizes[0], sizes[1], sizes[1]
    made = [rl.randn(1, 2, count, 16).half().to("cuda") for count in counts]
    return [t.requires_grad_() for t in made]


def written(call, *args):
    """A graph of a call, and what its launches write to."""
    graph = rl.cuda.CUDAGraph()
    with rl.cuda.graph(graph):
        found = call(*args)
    return graph, found


@pytest.mark.parametrize("sizes", [(20, 33), (130, 32)])
def test_attention_with_dropout_in_a_graph_is_by_units_and_draws_anew(machine, sizes):
    leaves = leaves_of(*sizes)
    graph, found = written(attended, leaves)
    rl.cuda.manual_seed((1 << 63) + 3)
    seen, places = [], []
    for _ in range(3):
        graph.replay()
        seen.append([t.cpu() for t in found])
        places.append(rl.cuda.default_generators[0].get_offset())
    assert not rl.equal(seen[0][1], seen[1][1])
    rl.cuda.manual_seed((1 << 63) + 3)
    begun = len(machine.launched())
    for results, place in zip(seen, places, strict=True):
        for one, other in zip(results, attended(leaves), strict=True):
            assert rl.equal(one, other.cpu())
        assert rl.cuda.default_generators[0].get_offset() == place
    kinds = {
        name.split("_")[1] for name in machine.launched()[begun:] if "_drop" in name
    }
    assert kinds == {"groups" if sizes[0] > 100 else "forward", "query", "key", "value"}


def test_a_graph_of_attention_holds_no_matrix_of_weights(machine):
    leaves = [t.detach() for t in leaves_of(400, 500)]
    rl.cuda.reset_peak_memory_stats()
    before = rl.cuda.memory_allocated()
    graph, found = written(lambda: F.scaled_dot_product_attention(*leaves, None, 0.5))
    assert rl.cuda.max_memory_allocated() - before < 2 * 400 * 500
    graph.replay()
    assert found.isfinite().all()


def test_gradients_in_a_graph_of_their_own_leave_out_what_results_did(machine):
    leaves = leaves_of()
    grad = rl.randn(1, 2, 20, 16).half().to("cuda")
    first, out = written(lambda: F.scaled_dot_product_attention(*leaves, None, 0.4))
    second, found = written(
        lambda: rl.autograd.grad(out, leaves, grad, retain_graph=True)
    )
    rl.cuda.manual_seed(11)
    seen = []
    for _ in range(2):
        first.replay()
        second.replay()
        seen.append([t.detach().cpu() for t in (out, *found)])
        eager = rl.autograd.grad(out, leaves, grad, retain_graph=True)
        for one, other in zip(seen[-1][1:], eager, strict=True):
            assert rl.equal(one, other.cpu())
    rl.cuda.manual_seed(11)
    for results in seen:
        again = F.scaled_dot_product_attention(*leaves, None, 0.4)
        wanted = again, *rl.autograd.grad(again, leaves, grad)
        for one, other in zip(results, wanted, strict=True):
            assert rl.equal(one, other.detach().cpu())


def test_gradients_of_gradients_in_a_graph_leave_out_the_same_weights(machine):
    leaves = leaves_of(5, 7)
    graph, found = written(lambda: attended(leaves, twice=True))
    rl.cuda.manual_seed(9)
    graph.replay()
    seen = [t.cpu() for t in found]
    rl.cuda.manual_seed(9)
    for one, other in zip(seen, attended(leaves, twice=True), strict=True):
        assert rl.equal(one, other.cpu())


def test_callables_with_dropout_in_attention_are_graphed(machine):
    layer = nn.MultiheadAttention(16, 2, dropout=0.5, batch_first=True)
    layer = layer.to("cuda", rl.float16)

    class Attending(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = layer

        def forward(self, x):
            return self.inner(x, x, x, need_weights=False)[0]

    def step(model, x):
        layer.zero_grad()
        out = model(x)
        out.float().square().sum().backward()
        return [out.detach().cpu(), *(p.grad.cpu() for p in layer.parameters())]

    x = rl.randn(2, 12, 16).half().to("cuda")
    model = Attending()
    rl.cuda.manual_seed(4)
    wanted = [step(model, x) for _ in range(2)]
    fast = rl.cuda.make_graphed_callables(model, (x.clone(),))
    rl.cuda.manual_seed(4)
    for expected in wanted:
        for one, other in zip(step(fast, x), expected, strict=True):
            assert rl.allclose(one, other, atol=2e-3, rtol=2e-2)


def test_a_step_of_training_with_indices_is_a_graph():
    def made():
        rl.manual_seed(0)
        model = nn.Sequential(nn.Embedding(9, 6), nn.Linear(6, 9)).to("cuda")
        return model, rl.optim.SGD(model.parameters(), 0.5)

    def step(model, sgd, x, y):
        sgd.zero_grad(set_to_none=False)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        sgd.step()
        return loss.detach()

    batches = [(rl.randint(9, (5,)), rl.randint(9, (5,))) for _ in range(4)]
    model, sgd = made()
    wanted = [step(model, sgd, *(t.cuda() for t in pair)).item() for pair in batches]
    model, sgd = made()
    x, y = (t.cuda() for t in batches[0])
    F.cross_entropy(model(x), y).backward()  # there are gradients
    graph, loss = written(step, model, sgd, x, y)
    found = []
    for one, other in batches:
        x.copy_(one)
        y.copy_(other)
        graph.replay()
        found.append(loss.item())
    assert found == pytest.approx(wanted, rel=1e-5)


WAITS = {
    "card": lambda out: rl.cuda.synchronize(),
    "device": lambda out: rl.backends.backend_for("cuda").streams.synchronize(
        out.device
    ),
    "queue": lambda out: rl.cuda.current_stream().synchronize(),
    "number": lambda out: out[0, 0].item(),
    "another": lambda out: rl.ones(2, device="cuda").tolist(),
}


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("name", WAITS)
def test_an_index_that_is_none_is_told_when_a_graph_is_waited_for(name, own):
    table, index = rl.arange(10.0).reshape(5, 2).to("cuda"), rl.tensor([4, 0]).cuda()
    graph, out = written(lambda: (table[index] * 2, F.embedding(index, table)))
    queue = rl.cuda.Stream() if own else rl.cuda.current_stream()
    with rl.cuda.stream(queue):
        graph.replay()
        WAITS[name](out[0])
        for wrong in (7, -6):
            index[1] = wrong
            graph.replay()
            graph.replay()  # what was noted stays until somebody looks
            with pytest.raises(IndexError, match=f"{wrong} (?s:.*), in a CUDA graph"):
                WAITS[name](out[0])
            WAITS[name](out[0])
            index[1] = 2
            graph.replay()
            assert out[1].tolist() == [[8.0, 9.0], [4.0, 5.0]]


def test_faults_of_a_graph_that_is_gone_are_nobody_s():
    table, index = rl.ones(5, 2).to("cuda"), rl.tensor([4, 0]).cuda()
    graph, _ = written(lambda: F.embedding(index, table))
    index[1] = 9
    graph.replay()
    graph.reset()
    rl.cuda.synchronize()
    assert rl.ones(2, device="cuda").tolist() == [1.0, 1.0]


def test_what_graphs_do_not_replay_is_refused_in_pytorchs_words():
    x = rl.ones(2, 3, device="cuda")
    for spoil, args, words in (
        (
            lambda m: m.register_forward_hook(lambda *_: None),
            (x,),
            "must not have hooks",
        ),
        (lambda m: m.register_forward_pre_hook(lambda *_: None), (x,), "must not have"),
        (
            lambda m: m.register_full_backward_hook(lambda *_: None),
            (x,),
            "after passing",
        ),
        (
            lambda m: m.register_buffer("kept", rl.ones(2, requires_grad=True)),
            (x,),
            "only parameters may be trainable",
        ),
        (lambda m: None, (2.0,), "must contain only Tensors"),
    ):
        model = nn.Linear(3, 3).to("cuda")
        spoil(model)
        with pytest.raises(AssertionError, match=words):
            rl.cuda.make_graphed_callables(model, args)
    with (
        rl.autocast("cuda", dtype=rl.float16),
        pytest.raises(RuntimeError, match="does not support the autocast caching"),
    ):
        rl.cuda.make_graphed_callables(nn.Linear(3, 3).to("cuda"), (x,))
    model, seen = nn.Linear(3, 3).to("cuda"), []
    fast = rl.cuda.make_graphed_callables(model, (x,))
    fast.register_forward_hook(lambda *_: seen.append(1))
    fast(x)
    assert seen == [1]
