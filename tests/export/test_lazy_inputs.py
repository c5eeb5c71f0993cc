"""A part of ``python -m tests.export.lazy_inputs``."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="the oracle's samples need it")

import rushlight as rl  # noqa: E402
from rushlight.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from tests.export import lazy_inputs, sweep  # noqa: E402

ALWAYS = (
    *("fill", "zero_", "fft.rfft", "nn.functional.linear", "nn.functional.celu"),
    *("nn.functional.avg_pool1d", "histogram", "histogramdd", "clamp", "matmul"),
)
CHOSEN = [
    (at, name)
    for at, name in sweep.names()
    if name not in lazy_inputs.KNOWN and (at % 17 == 0 or name in ALWAYS)
]


@pytest.mark.parametrize("kind", lazy_inputs.KINDS)
def test_recorded_operators_read_operands_in_others_memory(kind):
    bad = [
        f"{name}, {text}"
        for at, name in CHOSEN
        for text in lazy_inputs.differences(at, kind)
    ]
    assert not bad, "\n".join(bad)


@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize("write", ["zero_", "mul_", "fill_"])
def test_one_of_several_places_is_written_once(write, at):
    """Of an element that a view shows twice, the value that was written stays."""

    class Program(rl.nn.Module):
        def forward(self, x):
            place = x.expand(2, *x.shape)[at]
            getattr(place, write)(*(() if write == "zero_" else (2.0,)))
            return x + 1

    x = rl.tensor([1.5, float("inf"), float("nan")])
    wanted = Program()(x.clone())
    for program in (
        rl.export.export(Program(), (x.clone(),)).run_decompositions().module(),
        rl.func.functionalize(Program()),
    ):
        given = x.clone()
        rl.testing.assert_close(program(given), wanted, equal_nan=True)


def test_compositions_below_a_level_are_recorded_as_what_the_level_calls():
    x = rl.linspace(-1, 1, 12).reshape(4, 3)
    for function in (rl.nn.functional.celu, lambda x: rl.clamp(x, x * 0, x * 0 + 0.5)):
        program = make_fx(rl.vmap(function))(x)
        assert not program.graph.find_nodes(op="get_attr")
        rl.testing.assert_close(program(x + 0.3), function(x + 0.3))
