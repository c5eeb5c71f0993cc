"""Measurements are summed up and compared as PyTorch does it."""

import importlib
import random
import re

import pytest

import rushlight as rl

torch = pytest.importorskip("torch", reason="the oracle is not installed")
SIDES = [importlib.import_module(f"{m.__name__}.utils.benchmark") for m in (rl, torch)]


def draw(seed):
    """Times of some tasks, the same for both."""
    choose = random.Random(seed)
    rows = []
    for threads in (1, 4):
        for row in ("a", "a longer name"):
            for column in ("one", "two", "a long description")[
                : choose.randrange(1, 4)
            ]:
                base = 10 ** choose.uniform(-8, -1)
                spread = choose.choice((0.001, 0.05, 0.5, 2))
                times = [
                    base * (1 + spread * choose.random())
                    for _ in range(choose.randrange(1, 9))
                ]
                rows.append((threads, row, column, choose.choice((1, 100)), times))
    return rows


def measured(side, rows, **more):
    made = []
    for threads, row, column, runs, times in rows:
        task = side.TaskSpec(
            "f(x)", "x = 1", label="calls", sub_label=row, description=column,
            num_threads=threads, **more,
        )  # fmt: skip
        made.append(side.Measurement(runs, [t * runs for t in times], task))
    return made


@pytest.mark.parametrize("seed", range(12))
def test_what_is_said_of_a_measurement_is_pytorchs(seed):
    ours, theirs = (measured(side, draw(seed)) for side in SIDES)
    for a, b in zip(ours, theirs, strict=True):
        for name in ("median", "mean", "iqr", "times"):
            assert getattr(a, name) == pytest.approx(
                getattr(b, name), rel=1e-5, abs=1e-13
            )
        for name in (
            "significant_figures",
            "has_warnings",
            "title",
            "env",
            "as_row_name",
        ):
            assert getattr(a, name) == getattr(b, name), name
        assert str(a).split("\n")[1:] == str(b).split("\n")[1:]
        assert a.meets_confidence(0.3) == b.meets_confidence(0.3)


@pytest.mark.parametrize("coloured", [None, False, True])
@pytest.mark.parametrize("warned", [False, True])
@pytest.mark.parametrize("trimmed", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_tables_are_pytorchs(seed, trimmed, warned, coloured):
    texts = []
    for side in SIDES:
        table = side.Compare(measured(side, draw(seed)))
        if trimmed:
            table.trim_significant_figures()
        if warned:
            table.highlight_warnings()
        if coloured is not None:
            table.colorize(rowwise=coloured)
        texts.append(str(table))
    assert texts[0] == texts[1]


def test_times_of_one_task_are_one_measurement():
    merged = [side.Measurement.merge(measured(side, draw(0) * 2)) for side in SIDES]
    for a, b in zip(*merged, strict=True):
        assert len(a.times) == len(b.times) and a.number_per_run == b.number_per_run


def test_units_and_digits_are_pytorchs():
    ours, theirs = SIDES
    for t in (1e-12, 3e-9, 2e-7, 1e-6, 0.0009999, 0.002, 1, 70):
        assert ours.select_unit(t) == theirs.select_unit(t)
        for n in (1, 2, 4):
            assert ours.trim_sigfig(t, n) == pytest.approx(theirs.trim_sigfig(t, n))
    for unit in ("ns", "us", "ms", "s"):
        assert ours.unit_to_english(unit) == theirs.unit_to_english(unit)


def test_statements_are_run_as_often_as_is_said():
    counts = []
    timer = SIDES[0].Timer("counts.append(torch.get_num_threads())", globals=vars())
    timer._timer.inner.__globals__["counts"] = counts
    timer.timeit(7)
    assert counts == [1] * 9
    assert rl.get_num_threads() >= 1


@pytest.mark.parametrize(
    "method, limits",
    [("blocked_autorange", {}), ("adaptive_autorange", {"max_run_time": 0.1})],
)
def test_blocks_are_long_enough_for_a_clock(method, limits):
    blocks = []
    timer = SIDES[0].Timer("x + 1", "x = 1")
    found = getattr(timer, method)(
        callback=lambda number, time: blocks.append(number), min_run_time=0.01, **limits
    )
    assert sum(found.raw_times) >= 0.01 and found.number_per_run >= 100
    assert blocks == [found.number_per_run] * len(found.raw_times)


@pytest.mark.parametrize(
    "program",
    [
        lambda side: side.Timer("x").repeat(),
        lambda side: side.Timer("x").autorange(),
        lambda side: side.Timer("x", language="rust"),
        lambda side: side.Timer(lambda: 1),
        lambda side: side.Timer("for"),
        lambda side: side.Timer("x", global_setup="y"),
    ],
)
def test_what_cannot_be_measured_is_refused(program):
    refusals = []
    for side in SIDES:
        with pytest.raises(Exception) as caught:
            program(side)
        refusals.append((caught.type.__name__, re.sub("'<.*", "", str(caught.value))))
    assert refusals[0] == refusals[1]


def drawn(library, side):
    n = side.FuzzedParameter("n", 2, 40, "loguniform")
    k = side.FuzzedParameter("k", 1, 3, "uniform")
    scale = side.FuzzedParameter("scale", 0.5, 2.0, "uniform")
    m = side.FuzzedParameter("m", 3, 9, "uniform", strict=True)
    x = side.FuzzedTensor("x", ("n", "m"), steps=("k",), max_elements=300)
    y = side.FuzzedTensor(
        "y", ("n", 3, "k"), probability_contiguous=0.2, dtype=library.int32
    )
    fuzzer = side.Fuzzer(
        [n, [k, scale]] + [m], [x, y], constraints=[lambda p: p["n"] > 3], seed=11
    )
    for tensors, properties, params in fuzzer.take(20):
        yield params
        for name, tensor in tensors.items():
            told = dict(properties[name])
            told["order"] = told["order"].tolist()
            told.pop("dtype")
            yield name, told, tuple(tensor.shape), tensor.stride()
    yield fuzzer.rejection_rate


def test_random_arguments_are_pytorchs():
    ours, theirs = (list(drawn(*pair)) for pair in zip((rl, torch), SIDES, strict=True))
    ours = [{k: v for k, v in o.items()} if isinstance(o, dict) else o for o in ours]
    assert ours == theirs


def test_values_have_their_probabilities_and_may_be_other_parameters():
    # PyTorch 2.13 refuses the tables whose probabilities add up to one
    side = SIDES[0]
    n = side.FuzzedParameter("n", 2, 5, "uniform")
    m = side.FuzzedParameter("m", distribution={side.ParameterAlias("n"): 0.5, 70: 0.5})
    drawn = [params for *_, params in side.Fuzzer([n, m], [], seed=0).take(40)]
    assert {params["m"] == params["n"] for params in drawn} == {True, False}
    assert all(params["m"] in (params["n"], 70) for params in drawn)
    with pytest.raises(AssertionError, match="not normalized"):
        side.FuzzedParameter("m", distribution={1: 0.5, 2: 0.6})


def test_sparse_arguments_keep_to_their_parameters():
    side = SIDES[0]
    fuzzer = side.Fuzzer(
        [
            side.FuzzedParameter("density", 0.1, 0.5, "uniform"),
            side.FuzzedParameter("sparse_dim", 1, 2, "uniform"),
            side.FuzzedParameter("coalesced", distribution={True: 0.5, False: 0.5}),
        ],
        [
            side.FuzzedSparseTensor(
                "x", (4, 6), sparse_dim="sparse_dim", density="density",
                coalesced="coalesced",
            )
        ],
        seed=1,
    )  # fmt: skip
    for tensors, properties, params in fuzzer.take(5):
        made, told = tensors["x"], properties["x"]
        assert made.is_sparse and made.sparse_dim() == params["sparse_dim"]
        assert told["is_coalesced"] == params["coalesced"] == made.is_coalesced()
