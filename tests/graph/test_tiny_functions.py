"""Functions of few small operators run as they come, once they have come often."""

import pytest

import rushlight as rl
from rushlight import nn
from rushlight._inductor import config
from rushlight.graph import savings


@pytest.fixture(autouse=True)
def sizes_wait(monkeypatch):
    monkeypatch.setattr(config, "other_size_calls", 64)
    monkeypatch.setattr(savings, "INTERVAL", 0)  # calls are timed at once


def chain(x):
    return (x * 2 + 1).relu()


def called(compiled, x, times=150):
    for _ in range(times):
        found = compiled(x)
    return found


@pytest.mark.parametrize("make", [lambda: chain, nn.ReLU, lambda: nn.Linear(4, 4)])
def test_a_tiny_function_runs_as_it_comes_once_it_was_timed(make, monkeypatch):
    function, x = make(), rl.randn(2, 4)
    compiled = rl.compile(function)
    monkeypatch.setattr(savings.Trial, "pays", lambda trial: False)
    rl.testing.assert_close(called(compiled, x, 60), function(x))
    assert not compiled._runner.passing
    rl.testing.assert_close(called(compiled, x), function(x))
    assert 0 < compiled._runner.passing <= 1024
    rl.testing.assert_close(called(compiled, x, 1100), function(x))
    assert compiled._runner.passing


@pytest.mark.parametrize("pays", [True, False])
def test_what_timing_says_is_done(monkeypatch, pays):
    trials = []
    monkeypatch.setattr(savings.Trial, "pays", lambda one: trials.append(one) or pays)
    compiled, x = rl.compile(chain), rl.randn(16, 16, requires_grad=True)
    for _ in range(140):
        x.grad = None
        compiled(x).sum().backward()
        rl.testing.assert_close(x.grad, 2.0 * (x * 2 + 1 > 0))
    assert bool(compiled._runner.passing) != pays and compiled._runner.trial is None
    [trial] = trials
    assert [*map(len, trial.calls)] == [*map(len, trial.sweeps)] == [32, 32]
    assert min(min(times) for times in (*trial.calls, *trial.sweeps)) > 0


@pytest.mark.parametrize(
    ("calls", "sweeps", "counted", "pays"),
    [
        (([5, 9], [4, 20]), ([], []), False, True),
        (([5, 9], [5, 4.95]), ([], []), True, False),
        (([5] * 8, [6] * 8), ([9] * 8, [7] * 8), False, True),
        (([5] * 8, [6] * 8), ([9] * 8, [9] * 8), True, False),
        (([5] * 8, [6] * 8), ([9] * 8, [1] * 7), False, False),
        (([5] * 8, [4] * 8), ([9] * 8, [99]), True, True),
    ],
)
def test_the_least_times_are_compared(calls, sweeps, counted, pays):
    trial = savings.Trial(None, 0, counted, None)
    trial.calls, trial.sweeps = calls, sweeps
    assert trial.pays() is pays


def test_other_arguments_and_errors_are_not_timed(monkeypatch):
    def function(x, fails=False):
        if fails:
            raise ValueError("it fails")
        return chain(x)

    monkeypatch.setattr(savings.Trial, "pays", lambda trial: False)
    compiled, x = rl.compile(function), rl.randn(4, 4)
    called(compiled, x, 80)
    trial = compiled._runner.trial
    before = trial.count
    called(compiled, rl.randn(5, 5), 3)
    assert trial.count == before
    with pytest.raises(ValueError, match="it fails"):
        compiled(x, fails=True)
    assert sum(map(len, trial.calls)) == before
    called(compiled, x, 80)
    assert compiled._runner.passing


def test_deterministic_algorithms_leave_it_to_counting(monkeypatch):
    monkeypatch.setattr(savings, "Trial", None)
    rl.use_deterministic_algorithms(True)
    try:
        compiled = rl.compile(chain)
        called(compiled, rl.randn(2, 4))
    finally:
        rl.use_deterministic_algorithms(False)
    assert compiled._runner.passing


def test_a_function_inside_of_another_is_not_timed(monkeypatch):
    monkeypatch.setattr(savings.Trial, "pays", lambda trial: False)
    inner, x = rl.compile(chain), rl.randn(16, 16)
    called(inner, x, 70)
    outer = rl.compile(lambda x: inner(x) + 1)
    before = inner._runner.trial.count
    rl.testing.assert_close(called(outer, x, 60), chain(x) + 1)
    assert inner._runner.trial.count == before


def test_larger_arguments_are_followed_all_the_same(monkeypatch):
    monkeypatch.setattr(savings.Trial, "pays", lambda trial: trial.most > 8)
    compiled = rl.compile(chain)
    called(compiled, rl.randn(2, 4))
    passing, large = compiled._runner.passing, rl.randn(300, 300)
    rl.testing.assert_close(called(compiled, large, 80), chain(large))
    assert compiled._runner.passing == passing
    assert len(compiled._runner.graphs) == 2


def modules():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4)), rl.randn(2, 4)


def wide():
    return chain, rl.randn(300, 300)


@pytest.mark.parametrize("make", [modules, wide])
def test_what_following_pays_for_is_followed(make):
    function, x = make()
    compiled = rl.compile(function)
    called(compiled, x, 200)
    assert not compiled._runner.passing


@pytest.mark.parametrize("how", [{"fullgraph": True}, {"dynamic": True}])
def test_who_asks_for_a_graph_has_one(how):
    compiled = rl.compile(chain, **how)
    called(compiled, rl.randn(2, 4), 200)
    assert not compiled._runner.passing


def test_none_run_as_they_come_where_that_is_switched_off(monkeypatch):
    monkeypatch.setattr(config, "follow_bytes", 0)
    compiled = rl.compile(chain)
    called(compiled, rl.randn(2, 4), 200)
    assert not compiled._runner.passing


def test_gradients_and_changed_parameters_are_those_of_the_function():
    layer = nn.Linear(4, 4)
    compiled, x = rl.compile(layer), rl.randn(2, 4)
    for _ in range(150):
        layer.zero_grad()
        compiled(x).square().sum().backward()
        found = layer.weight.grad.clone()
        layer.zero_grad()
        layer(x).square().sum().backward()
        rl.testing.assert_close(found, layer.weight.grad)
        with rl.no_grad():
            layer.weight -= 0.01 * layer.weight.grad
    assert compiled._runner.passing


def lone(x):
    return x.tanh()


def centered_columns(x):
    return x - x.mean(0)


@pytest.mark.parametrize(
    "function", [lone, centered_columns, lambda x: x.erf().var(-1)]
)
def test_what_a_program_does_not_do_better_runs_as_it_comes(function):
    compiled, x = rl.compile(function), rl.randn(200, 300)
    rl.testing.assert_close(called(compiled, x), function(x))
    assert compiled._runner.passing


def test_sweeps_back_count_with_the_function():
    def swept(function, x):
        compiled = rl.compile(function)
        for _ in range(150):
            compiled(x).sum().backward()
        return compiled._runner.passing

    x = rl.randn(64, 64, requires_grad=True)
    assert swept(lambda x: rl.nn.functional.silu(x) * 2, x)
    assert not swept(lambda x: (x - x.mean(0)) / x.std(0), x)
    with rl.no_grad():
        assert called(rl.compile(lambda x: (x - x.mean(0)) / x.std(0)), x) is not None


def scaled(x, by, places=None):
    return x * by


def product(x, by):
    return x * by


def test_what_runs_as_it_comes_takes_arguments_as_the_function_does():
    compiled, x = rl.compile(product), rl.randn(3)
    for _ in range(100):
        rl.testing.assert_close(compiled(x, 2.0), x * 2)
        rl.testing.assert_close(compiled(by=3.0, x=x), x * 3)
        rl.testing.assert_close(compiled(x, by=x), x * x)
    assert compiled._runner.passing
    with pytest.raises(
        TypeError, match=r"product\(\) missing 1 required positional .*'by'"
    ):
        compiled(x)
    with pytest.raises(TypeError, match="got an unexpected keyword argument 'to'"):
        compiled(x, to=1)


@pytest.mark.parametrize(
    "function",
    [
        scaled,
        lambda x, *more: x * more[0],
        lambda *_, by: _[0] * by,
        lambda _x, by: _x * by,
    ],
)
def test_functions_of_other_arguments_run_as_they_come(function):
    compiled, x = rl.compile(function), rl.randn(3)
    given = {"by": 2.0} if "by" in function.__code__.co_varnames else {}
    for _ in range(100):
        found = compiled(x, **given) if given else compiled(x, 2.0)
    assert compiled._runner.passing
    rl.testing.assert_close(found, x * 2)


def test_larger_arguments_are_followed_once_others_pass(monkeypatch):
    monkeypatch.setattr(savings.Trial, "pays", lambda trial: False)
    compiled = rl.compile(lambda x, y: (x - y.mean(0)) / y.std(0))
    called(lambda x: compiled(x, x), rl.randn(2, 4), 150)
    assert compiled._runner.passing
    x, before = rl.randn(300, 300), compiled._runner.passing
    for _ in range(4):
        compiled(x, x)
    assert compiled._runner.passing == before


@pytest.mark.parametrize("made", [lambda: product, lambda: nn.Bilinear(3, 3, 2)])
def test_a_stance_is_asked_where_calls_pass(made):
    function, x = made(), rl.randn(2, 3)
    compiled = rl.compile(function)
    with rl.no_grad():
        called(lambda x: compiled(x, x), x, 150)
        assert compiled._runner.passing
        with rl.compiler.set_stance("force_eager"):
            rl.testing.assert_close(compiled(x, x), function(x, x))
        with rl.compiler.set_stance("fail_on_recompile"):
            with pytest.raises(RuntimeError, match="Detected recompile"):
                compiled(x[:1], x[:1])


def test_hooks_of_a_compiled_module_are_called_where_calls_pass():
    layer = nn.Linear(4, 4)
    compiled, x, heard = rl.compile(layer), rl.randn(2, 4), []
    for _ in range(100):
        compiled(x)
    assert compiled._runner.passing
    for module, name in ((compiled, "outer"), (layer, "inner")):
        module.register_forward_hook(lambda *_, name=name: heard.append(name))
    compiled(x)
    assert heard == ["inner", "outer"]
    with rl.no_grad():
        rl.testing.assert_close(compiled(input=x), layer(x))


def test_threads_that_count_beyond_the_last_call_end_timing(monkeypatch):
    monkeypatch.setattr(savings.Trial, "pays", lambda trial: False)
    compiled, x = rl.compile(chain), rl.randn(16, 16)
    called(compiled, x, 70)
    compiled._runner.trial.count = savings.BLOCK * savings.BLOCKS + 1
    compiled(x)
    assert compiled._runner.trial is None and compiled._runner.passing


def test_a_reset_ends_timing():
    compiled = rl.compile(chain)
    called(compiled, rl.randn(16, 16), 70)
    assert compiled._runner.trial is not None
    rl.compiler.reset()
    assert compiled._runner.trial is None
