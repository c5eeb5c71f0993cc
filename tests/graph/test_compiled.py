"""Compiled functions do what they do uncompiled: values, writes, errors, streams."""

import threading

import pytest

import rushlight as rl
from rushlight import nn
from rushlight._dynamo.exc import Unsupported
from rushlight.core.state import is_following


def thrice(function, *makers):
    """Runs a function as it is and compiled, three times each, on fresh arguments."""
    compiled = rl.compile(function)
    for _ in range(3):
        rl.manual_seed(1)
        expected = function(*(make() for make in makers))
        rl.manual_seed(1)
        yield compiled(*(make() for make in makers)), expected


def flat(value):
    if isinstance(value, rl.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in flat(item)]
    return [rl.tensor(float(value))]


def noise(*sizes):
    def make():
        rl.manual_seed(0)
        return rl.randn(*sizes)

    return make


def chain(x):
    return (x.sin() + x.cos() * 2.5).relu().sub(0.1).exp()


def branches(x):
    y = x * 2
    return y + 1 if y.sum() > 0 else y - 1


def reads(x):
    y = x.exp()
    number = y.max().item()
    return (y / number).sum().tolist(), y


def writes_its_argument(x):
    x.mul_(2).add_(1)
    return x[0], x.t()


def writes_through_views(x):
    y = x.clone()
    y[2:] += y[:2]
    y.view(-1)[::2].zero_()
    return y, y.sum(0)


def draws(x):
    a = rl.dropout(x, 0.5, True)
    b = rl.rand_like(x)
    return a + b, rl.bernoulli(b), rl.randn(3)


def seeds_within(x):
    a = rl.rand_like(x)
    rl.manual_seed(5)
    return a, rl.rand_like(x), rl.get_rng_state()


def lists(x):
    parts = x.chunk(2)
    return rl.cat([parts[1], parts[0]]), rl.stack(list(x.unbind(0)))


def gives_its_argument(x):
    return x, x.view(-1), x.detach()


def through_numpy(x):
    y = x + 1
    array = y.numpy()
    array[0] = 7
    return y * 2


def counts(x):
    return rl.nonzero(x > 0), x[x > 0], rl.unique(x.round())


def makes_tensors(x):
    return rl.zeros(3) + rl.arange(3), rl.full_like(x, 2.0), rl.tensor([1.0, 2.0]) * 2


def grown(x):
    y = rl.empty(0)
    rl.add(x, x, out=y)
    return y.resize_(2)


PROGRAMS = (
    *(chain, branches, reads, writes_its_argument, writes_through_views, draws),
    *(seeds_within, lists, gives_its_argument, through_numpy, counts, makes_tensors),
    grown,
)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_a_compiled_function_gives_what_it_gives_uncompiled(program):
    for found, expected in thrice(program, noise(4, 4)):
        for ours, theirs in zip(flat(found), flat(expected), strict=True):
            assert ours.shape == theirs.shape and ours.stride() == theirs.stride()
            assert rl.allclose(ours, theirs, 1e-6, 1e-6)


SIZED_BY_ELEMENTS = {
    "nonzero": lambda x: (x * 1 > 0).nonzero(),
    "mask": lambda x: (x * 2)[x > 0] + 1,
    "masked_select": lambda x: rl.masked_select(x * 2, x > 0),
    "unique": lambda x: rl.unique((x * 1).sign()),
    "bincount": lambda x: rl.bincount((x > 0).long()),
    "repeat_interleave": lambda x: rl.repeat_interleave(x, (x > 0).long()),
    "item": lambda x: x[: int((x > 0).sum().item())] * 2,
}


@pytest.mark.parametrize("name", SIZED_BY_ELEMENTS)
def test_sizes_that_hang_on_elements_are_those_of_each_call(name):
    program = SIZED_BY_ELEMENTS[name]
    compiled = rl.compile(program)
    for positive in (1, 4, 2, 0, 6):
        x = rl.arange(6.0) * -1 - 1
        x[:positive] = 2.0
        assert compiled(x).tolist() == program(x).tolist()


def test_writes_reach_the_arguments():
    compiled = rl.compile(writes_its_argument)
    for _ in range(3):
        x, y = noise(3, 3)(), noise(3, 3)()
        first, turned = compiled(x)
        writes_its_argument(y)
        assert rl.equal(x, y)
        assert first.data_ptr() == x.data_ptr() and turned.data_ptr() == x.data_ptr()


def network():
    rl.manual_seed(0)
    return nn.Sequential(
        nn.Linear(6, 8), nn.GELU(), nn.Dropout(0.2), nn.LayerNorm(8), nn.Linear(8, 3)
    )


def losses(wrap, optimizer, steps=5):
    """A training run; ``wrap`` compiles the module, the step, or nothing."""
    model = network()
    update = optimizer(model.parameters())
    x, t = noise(7, 6)(), rl.arange(7) % 3
    run = wrap["module"](model)

    def step():
        update.zero_grad()
        loss = nn.functional.cross_entropy(run(x), t)
        loss.backward()
        update.step()
        return loss

    step = wrap["step"](step)
    rl.manual_seed(3)
    return [step().item() for _ in range(steps)]


def as_it_is(function):
    return function


@pytest.mark.parametrize("optimizer", [rl.optim.SGD, rl.optim.Adam, rl.optim.RMSprop])
@pytest.mark.parametrize("part", ["module", "step"])
def test_training_goes_the_same_way(part, optimizer):
    plain = {"module": as_it_is, "step": as_it_is}
    expected = losses(plain, lambda p: optimizer(p, lr=1e-2))
    found = losses(plain | {part: rl.compile}, lambda p: optimizer(p, lr=1e-2))
    assert found == pytest.approx(expected, rel=1e-5)


def test_the_backward_pass_is_a_program_too():
    model = network()
    compiled = rl.compile(model)
    for _ in range(4):
        compiled(noise(7, 6)()).sum().backward()
    runner = compiled.__dict__["_runner"]
    assert len(runner.graphs) == 1
    assert [len(back.graphs) for back in runner.backwards.values()] == [1]


def test_an_error_is_raised_where_it_is_raised_uncompiled():
    seen = []

    @rl.compile
    def wrong(x, bad):
        y = x * 2
        seen.append(y)
        return y @ x if bad else y

    x = rl.ones(2, 3)
    wrong(x, False), wrong(x, False)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
            wrong(x, True)
        assert rl.equal(seen[-1], x * 2)
    assert rl.equal(wrong(x, False), x * 2)


def test_one_graph_is_asked_for_and_a_value_is_needed():
    @rl.compile(fullgraph=True)
    def reads_one(x):
        return x + x.sum().item()

    with pytest.raises(Unsupported, match=r"test_compiled.py.*in reads_one"):
        reads_one(rl.ones(2))


def test_explain_says_where_and_why():
    found = rl._dynamo.explain(branches)(rl.ones(3))
    assert (found.graph_count, found.graph_break_count) == (2, 1)
    assert found.break_reasons[0].user_stack[2] == "branches"
    assert "aten.mul.Tensor" in str(found)


def test_a_backend_is_given_graphs_and_examples():
    graphs = []

    def backend(module, examples):
        graphs.append((module, [tuple(one.shape) for one in examples]))
        return module.forward

    compiled = rl.compile(chain, backend=backend)
    x = noise(2, 3)()
    for _ in range(3):
        assert rl.equal(compiled(x), chain(x))
    assert len(graphs) == 1 and graphs[0][1] == [(2, 3)]
    assert "torch.ops.aten.sin.default" in graphs[0][0].code


def test_a_function_kept_out_runs_as_it_is():
    followed = []

    @rl._dynamo.disable
    def apart(x):

        followed.append(is_following())
        return x + 1

    compiled = rl.compile(lambda x: apart(x * 2) * 3)
    for _ in range(3):
        assert compiled(rl.ones(2)).tolist() == [9.0, 9.0]
    assert followed == [False] * 3


def test_threads_follow_for_themselves():
    compiled = rl.compile(chain)
    expected, found = chain(noise(5)()), []

    def work():
        found.extend(compiled(noise(5)()) for _ in range(5))

    x = noise(5)
    threads = [threading.Thread(target=work) for _ in range(1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found.append(compiled(x()))
    assert all(rl.allclose(one, expected) for one in found)


def test_what_was_captured_is_forgotten_when_asked():
    compiled = rl.compile(chain)
    for _ in range(3):
        compiled(rl.ones(2))
    assert compiled._runner.graphs
    rl._dynamo.reset()
    assert not compiled._runner.graphs
    assert rl.allclose(compiled(rl.ones(2)), chain(rl.ones(2)))


def test_learning_rates_are_parameters_of_programs():
    compiled = rl.compile(lambda x, rate: x * rate + 1)
    for rate in (0.1, 0.2, 0.3, 0.4):
        assert rl.allclose(compiled(rl.ones(3), rate), rl.ones(3) * rate + 1)
    assert len(compiled._runner.graphs) == 1


def test_a_tensor_that_repeats_its_elements_takes_itself():
    """Copied into itself nothing is written; another tensor is refused each time."""

    def itself(x):
        repeated = (x + 1).expand(3, 4)
        return repeated.copy_(repeated) * 2

    def another(x):
        return x.expand(3, 4).copy_(x.expand(3, 4))

    for ours, expected in thrice(itself, noise(4)):
        assert ours.equal(expected)
    compiled = rl.compile(another)
    for _ in range(3):
        with pytest.raises(RuntimeError, match="more than one element"):
            compiled(rl.ones(4))
