"""Sizes of nothing and one stay numbers; bounds hold for what is computed of a name."""

import io
import json
import zipfile

import pytest

import rushlight as rl
from rushlight.export import Dim, export, save


class Doubled(rl.nn.Module):
    def forward(self, x):
        return x * 2


@pytest.mark.parametrize("actual", [0, 1])
def test_sizes_of_zero_and_one_are_numbers_unless_they_must_not_be(actual):
    x = rl.ones(actual, 5)
    program = export(Doubled(), (x,), dynamic_shapes=({0: Dim.AUTO, 1: Dim.AUTO},))
    (node, *_) = program.graph.nodes
    assert type(node.meta["val"].shape[0]) is int
    assert [str(one) for one in program.range_constraints] == ["s27"]
    assert program.module()(rl.ones(actual, 9)).shape == (actual, 9)
    with pytest.raises(AssertionError, match=rf"size\(\)\[0\] == {actual}"):
        program.module()(rl.ones(actual + 1, 5))
    with pytest.raises(rl._dynamo.exc.UserError, match=rf"a constant \({actual}\)"):
        export(Doubled(), (x,), dynamic_shapes=({0: Dim.DYNAMIC},))


@pytest.mark.parametrize("factor, rest", [(2, 1), (3, 0), (1, 4), (2, -1)])
def test_bounds_of_a_name_hold_for_the_size_that_is_computed_of_it(factor, rest):
    n = Dim("n", min=3, max=5)
    program = export(
        Doubled(),
        (rl.ones(4 * factor + rest),),
        dynamic_shapes=({0: factor * n + rest},),
    )
    module = program.module()
    for good in (3, 4, 5):
        assert module(rl.ones(factor * good + rest)).shape == (factor * good + rest,)
    for bad in (2, 6):
        with pytest.raises(AssertionError, match="Guard failed"):
            module(rl.ones(factor * bad + rest))
    if factor > 1:
        with pytest.raises(AssertionError, match="Guard failed"):
            module(rl.ones(factor * 4 + rest + 1))


def outputs_of(function, target):
    """How a step's results are written into a file."""

    class Program(rl.nn.Module):
        def forward(self, x):
            return function(x)

    file = io.BytesIO()
    save(export(Program(), (rl.arange(6.0).reshape(3, 2),)), file)
    with zipfile.ZipFile(file) as archive:
        (name,) = [
            one for one in archive.namelist() if one.endswith("models/model.json")
        ]
        nodes = json.loads(archive.read(name))["graph_module"]["graph"]["nodes"]
    (found,) = [one["outputs"] for one in nodes if target in one["target"]]
    return [list(one)[0] for one in found]


def test_a_list_of_tensors_is_one_result_and_several_results_are_several():
    chosen = rl.cond
    assert outputs_of(lambda x: x.split(1), "split") == ["as_tensors"]
    assert outputs_of(lambda x: x.max(0)[0], "max") == ["as_tensor"] * 2
    found = outputs_of(
        lambda x: chosen(
            x.sum() > 0, lambda x: (x + 1, x - 1), lambda x: (x - 1, x + 1), (x,)
        )[0],
        "cond",
    )
    assert found == ["as_tensor"] * 2
