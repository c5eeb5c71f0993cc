"""Open sizes have PyTorch's names: numbers that their places among the arguments hash to."""

import pytest

import rushlight as rl
import rushlight.export
import rushlight.fx.experimental.proxy_tensor
from rushlight.ir.symbolic import symbol_name

torch = pytest.importorskip("torch")
from torch.fx.experimental import proxy_tensor as their_proxies  # noqa: E402

OPEN, AUTO = "DYNAMIC", "AUTO"


def nested(x, y, more):
    return x * 2, y + 1, more["a"][0] * 2, more["b"] - 1


def joined(x, y):
    return x * 2, y.t() + 1


def scaled(x, n):
    return x * n


# name -> function, sizes of the arguments (numbers are themselves), what is open
PROGRAMS = {
    "sizes of two arguments": (joined, ((3, 4), (5, 7)), ((OPEN, OPEN), (OPEN, None))),
    "inside of lists and dicts": (
        nested,
        ((3, 4), (5, 7), {"a": [(6,)], "b": (8,)}),
        ((AUTO, None), (None, AUTO), {"a": [(AUTO,)], "b": ("q",)}),
    ),
    "one name for several": (joined, ((3, 4), (3, 7)), (("n", None), ("n", "m"))),
    "computed sizes": (
        nested,
        ((3, 4), (6, 7), {"a": [(4,)], "b": (8,)}),
        (("n", None), ("2*n", None), {"a": [("n+1",)], "b": (None,)}),
    ),
    "a name that no size has alone": (joined, ((6, 4), (5, 7)), (("2*n", None), None)),
    "an integer": (scaled, ((3,), 5), ((OPEN,), OPEN)),
}


def arguments(lib, sizes):
    if isinstance(sizes, tuple) and all(isinstance(one, int) for one in sizes):
        return lib.ones(sizes)
    if isinstance(sizes, dict):
        return {key: arguments(lib, one) for key, one in sizes.items()}
    if isinstance(sizes, (tuple, list)):
        return type(sizes)(arguments(lib, one) for one in sizes)
    return sizes


def specs(lib, text, known):
    if isinstance(text, dict):
        return {key: specs(lib, one, known) for key, one in text.items()}
    if isinstance(text, (tuple, list)):
        return type(text)(specs(lib, one, known) for one in text)
    Dim = lib.export.Dim
    if text is None:
        return None
    if text in (OPEN, AUTO):
        return getattr(Dim, text)
    for name in "nmq":
        known.setdefault(name, Dim(name, max=100))
    return eval(text, known)


def exported(lib, name):
    function, sizes, what = PROGRAMS[name]

    class Program(lib.nn.Module):
        """Its arguments have names, which the sources of sizes have."""

    Program.forward = {
        nested: lambda self, x, y, more: nested(x, y, more),
        joined: lambda self, x, y: joined(x, y),
        scaled: lambda self, x, n: scaled(x, n),
    }[function]
    return lib.export.export(
        Program(), arguments(lib, sizes), dynamic_shapes=specs(lib, what, {})
    )


def sizes_of(graph, kind):
    for node in graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, kind):
            yield str(tuple(value.shape))
        elif node.op == "placeholder":
            yield str(value)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PROGRAMS)
def test_sizes_and_bounds_are_printed_as_pytorch_prints_them(name):
    ours, theirs = exported(rl, name), exported(torch, name)
    found = {str(key): str(one) for key, one in ours.range_constraints.items()}
    wanted = {str(key): str(one) for key, one in theirs.range_constraints.items()}
    if name == "a name that no size has alone":  # theirs begins at 2, whatever is said
        wanted["s69"] = "VR[0, 100]"
    assert found == wanted
    assert list(sizes_of(ours.graph, rl.Tensor)) == list(
        sizes_of(theirs.graph, torch.Tensor)
    )


def test_recorded_functions_name_sizes_by_their_tensors():
    def function(x, n, y):
        return x * n + y.sum()

    found = []
    for lib, proxies in ((rl, rl.fx.experimental.proxy_tensor), (torch, their_proxies)):
        given = lib.ones(3, 4), 7, lib.ones(3, 5)
        graph = proxies.make_fx(function, tracing_mode="symbolic")(*given).graph
        found.append(list(sizes_of(graph, lib.Tensor)))
    assert found[0] == found[1]


def test_a_number_that_is_taken_is_the_next_one():
    taken: set = set()
    names = [symbol_name("L['x'].size()[0]", taken) for _ in range(3)]
    assert names == ["s77", "s78", "s79"]


def test_programs_of_computed_sizes_are_read_from_pytorchs_files(tmp_path):
    theirs = exported(torch, "computed sizes")
    torch.export.save(theirs, str(tmp_path / "theirs.pt2"))
    program = rl.export.load(str(tmp_path / "theirs.pt2"))
    assert [str(one) for one in program.range_constraints] == [
        "s77",
        "2*s77",
        "s77 + 1",
    ]
    given = rl.ones(5, 4), rl.ones(10, 7), {"a": [rl.ones(6)], "b": rl.ones(8)}
    assert program.module()(*given)[0].shape == (5, 4)
