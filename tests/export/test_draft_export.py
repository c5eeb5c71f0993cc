"""Programs that `export` refuses, drafted beside PyTorch's: steps, bounds, what is told."""

import importlib
import logging
import re

import pytest

import rushlight as rl
from tests.export.steps import our_steps, their_steps

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def logs_are_closed(monkeypatch):
    """PyTorch leaves the log of each draft open."""
    kind = importlib.import_module("torch.export._draft_export").CaptureStructuredTrace
    begin, begun = kind.__enter__, []
    monkeypatch.setattr(kind, "__enter__", lambda log: begun.append(log) or begin(log))
    logging.getLogger("torch").setLevel(logging.CRITICAL)
    yield
    for log in begun:
        log.close()


def checked(lib, x):
    return x * 2 if x.sum().item() > 3 else x * 3


def item(lib, x, n):
    number = n.item()
    return x + number if number > 2 else x


def nested(lib, x, n):
    number = n.sum().item()
    if number > 50:
        return x
    return x, lib.zeros(number)


def counted(lib, x):
    return x + 1 if x.nonzero().shape[0] == 5 else x * 2


def masked(lib, x):
    found = x[x > 0]
    return found * 2 if found.shape[0] > 1 else found


def loop(lib, x, n):
    for _ in range(int(n[0])):
        x = x + 1
    return x


def thrice(lib, x):
    for _ in range(3):
        if x.sum() > 0:
            x = x * 2
    return x


def one_size(lib, x):
    return x * 2 if x.shape[0] == 5 else x


def some_sizes(lib, x):
    return x * 2 if x.shape[0] > 3 else x


def meets(lib, x):
    return x + lib.ones(5)


def plain(lib, x):
    return (x + 1).relu()


def named(lib):
    return ({0: lib.export.Dim("b", min=2, max=9)},)


def dynamic(lib):
    return ({0: lib.export.Dim.DYNAMIC},)


PROGRAMS = {
    "a float decides": ("f", checked, None),
    "a number decides": ("fn", item, None),
    "a number is a size": ("fi", nested, None),
    "places decide": ("f", counted, None),
    "a mask decides": ("f", masked, None),
    "a mask of any size decides": ("f", masked, dynamic),
    "a number of turns": ("fi", loop, None),
    "one line asks thrice": ("f", thrice, None),
    "one size": ("f", one_size, dynamic),
    "one size of a name": ("f", one_size, named),
    "some sizes of a name": ("f", some_sizes, named),
    "another tensor's size": ("f", meets, dynamic),
    "nothing": ("f", plain, None),
    "nothing, of any size": ("f", plain, dynamic),
}  # fmt: skip


def drafted(lib, name):
    kinds, function, shapes = PROGRAMS[name]

    class Program(lib.nn.Module):
        def forward(self, *args):
            return function(lib, *args)

    made = {
        "f": lib.ones(5),
        "i": lib.tensor([3, 2]),
        "n": lib.tensor(3),
    }
    args = tuple(made[kind] for kind in kinds)
    given = shapes and shapes(lib)
    if given is not None:  # of one argument that has no name
        given = (given,)
    program = lib.export.draft_export(Program(), args, dynamic_shapes=given)
    return program, program.module()(*args)


def told(program):
    """What a report says, but for the names of sizes."""
    return [
        (
            int(one.failure_type),
            re.sub(r"\bs\d+", "s", one.data["expr"]).replace(".0", ""),
            one.data.get("result"),
            one.data.get("occurrences"),
        )
        for one in program._report.failures
    ]


def numbers(value):
    if isinstance(value, (tuple, list)):
        return [numbers(one) for one in value]
    return value.tolist()


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_draft_has_pytorchs_steps_bounds_and_failures(name):
    (ours, found), (theirs, expected) = drafted(rl, name), drafted(torch, name)
    steps = [one for one in their_steps(theirs.graph) if one != "ne.Scalar"]
    assert our_steps(ours.graph) == steps  # `bool` of a tensor is one more of theirs
    assert numbers(found) == numbers(expected)
    assert told(ours) == told(theirs)
    assert ours._report.successful() == theirs._report.successful()
    bounds = [str(one) for one in ours.range_constraints.values()]
    for one in theirs.range_constraints.values():
        text = str(one).replace("9223372036854775806", "int_oo")
        assert text in bounds or "oo" in text


def with_kernels(lib):
    """An operator without a fake kernel, and one whose fake kernel is wrong."""
    space = lib.library.Library("drafted", "FRAGMENT")
    space.define("unknown(Tensor x) -> Tensor")
    space.define("doubled(Tensor x) -> Tensor")
    space.impl("unknown", lambda x: x * 2, "CPU")
    space.impl("doubled", lambda x: lib.cat([x, x]), "CPU")
    lib.library.register_fake(
        "drafted::doubled", lambda x: lib.empty_like(x), lib=space
    )
    return space


def told_of_kernel(lib, name):
    """What a draft says of an operator, its results' sizes, and what it gives."""
    space = with_kernels(lib)

    class Program(lib.nn.Module):
        def forward(self, x):
            return getattr(lib.ops.drafted, name)(x) + 1

    program = lib.export.draft_export(Program(), (lib.ones(2),))
    (failure,) = program._report.failures
    sizes = [
        str(node.meta["val"].shape)[-5:]
        for node in program.graph.nodes
        if node.name in (name, "add")
    ]
    result = program.module()(lib.ones(2)).tolist()
    space._destroy()
    return int(failure.failure_type), failure.data["op"], sizes, result


@pytest.mark.parametrize("name", ["unknown", "doubled"])
def test_sizes_of_a_kernel_that_is_missing_or_wrong_are_new_numbers(name):
    assert told_of_kernel(rl, name) == told_of_kernel(torch, name)


def test_a_report_says_what_to_do_and_state_is_as_it_was():
    class Counted(rl.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", rl.zeros(()))

        def forward(self, x):
            self.count.add_(1)
            return x + 1 if self.count.item() > 0.5 else x

    module, x = Counted(), rl.ones(2)
    report = rl.export.draft_export(module, (x,))._report
    text = str(report)
    assert "zuf0 > 0.5" in text and "torch._check" in text and "in forward" in text
    assert module.count.item() == 0 and x.tolist() == [1, 1]
    assert "No issues" in str(rl.export.draft_export(rl.nn.ReLU(), (x,))._report)
    with pytest.raises(NotImplementedError):
        report.apply_suggested_fixes()
