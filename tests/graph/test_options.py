"""``torch.compile``'s options, modes and marks, beside PyTorch's; other sizes."""

import warnings

import pytest

import rushlight as rl
from rushlight.codegen import toolchain

torch = pytest.importorskip("torch")

WRONG = {
    "no such option": {"options": {"nope": 1}},
    "an option of another kind": {"options": {"epilogue_fusion": "x"}},
    "a number for a truth": {"options": {"debug": 1}},
    "a float for a number": {"options": {"max_fusion_size": 2.0}},
    "no such mode": {"mode": "nope"},
    "mode and options": {"mode": "default", "options": {"debug": True}},
    "a number for dynamic": {"dynamic": 3},
}


def outcome(lib, **given):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            lib.compile(lambda x: x, **given)
    except Exception as error:
        return type(error).__name__, str(error).partition(", known options")[0]
    return None


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_option_is_refused_with_pytorchs_words(name):
    found = outcome(rl, **WRONG[name])
    assert found is not None
    assert found == outcome(torch, **WRONG[name])


@pytest.mark.parametrize(
    "given",
    [
        {"options": {"max-autotune": True, "triton.unique_kernel_names": True}},
        {"options": {}},
        {"mode": "lite"},
        {"mode": "max-autotune-no-cudagraphs", "dynamic": False},
        {"backend": "eager", "options": {"anything": 1}},
    ],
)
def test_what_pytorch_takes_is_taken(given):
    assert outcome(torch, **given) is None
    function = rl.compile(lambda x: x * 2 + 1, **given)
    assert [function(rl.ones(2)).tolist() for _ in range(3)] == [[3.0, 3.0]] * 3


def test_modes_and_names_of_options_are_pytorchs():
    theirs, ours = torch._inductor, rl._inductor
    assert ours.list_mode_options() == theirs.list_mode_options()
    for mode in theirs.list_mode_options():
        assert ours.list_mode_options(mode) == theirs.list_mode_options(mode)
        assert outcome(rl, mode=mode) is None
    assert set(theirs.list_options()) <= set(ours.list_options())
    for lib in (torch, rl):
        with pytest.raises(RuntimeError, match="Unrecognized mode=x, should be one of"):
            lib._inductor.list_mode_options("x")


def test_every_option_takes_what_pytorch_takes():
    for name in torch._inductor.list_options():
        for value in (True, 2, 0.5, "x", None, [], ()):
            given = {"options": {name: value}}
            theirs = outcome(torch, **given)
            if theirs is not None and theirs[0] == "TypeError":
                continue  # of one option PyTorch cannot look up the kind
            assert outcome(rl, **given) == theirs, (name, value)


def kernels(**given):
    """How many kernels run in a compiled function's program."""
    function = rl.compile(lambda x: ((x * 2 + 1).relu() - 3).abs(), **given)
    for _ in range(3):
        function(rl.ones(50))
    (program,) = function._runner.graphs
    return len(program.steps)


def test_options_say_how_programs_are_built():
    assert kernels() == 1
    assert kernels(options={"fuse": False}) == 5
    assert kernels(options={"max_fusion_size": 2}) == 3
    assert kernels(options={"triton.unique_kernel_names": True}) == 1


def test_backends_that_are_functions_are_given_mode_and_options():
    for lib in (torch, rl):
        seen = []

        def backend(graph, inputs, seen=seen, **given):
            seen.append(given)
            return graph.forward

        for given in ({}, {"mode": "default"}, {"mode": "x"}, {"options": {"a": 1}}):
            if lib is rl and given.get("mode") == "x":
                given = {"mode": "lite"}
            function = lib.compile(lambda x: x * 2, backend=backend, **given)
            function(lib.ones(2))
            torch._dynamo.reset()
        assert seen[:2] == [{}, {}]
        assert set(seen[2]) == {"mode"} and seen[3] == {"options": {"a": 1}}


@pytest.mark.parametrize("dynamic", [None, True, False])
def test_other_sizes_compile_nothing(dynamic, monkeypatch):
    """Sizes are parameters of the kernels: the first other one is no new kernel."""
    weight = rl.randint(-9, 9, (8, 16)).float()  # sums are exact in any order
    function = rl.compile(
        lambda x: ((x @ weight).relu() * 3 - 1).sum(1), dynamic=dynamic
    )
    for batch in (40, 40, 40, 41):
        function(rl.ones(batch, 8))

    def refuse(*_, **__):
        raise AssertionError("a kernel is compiled")

    monkeypatch.setattr(toolchain, "compile_ir", refuse)
    for batch in (42, 57, 90, 40):
        x = rl.randint(-9, 9, (batch, 8)).float()
        expected = ((x @ weight).relu() * 3 - 1).sum(1)
        assert [rl.equal(function(x), expected) for _ in range(3)] == [True] * 3


def test_marks_are_pytorchs():
    def marks(lib):
        dynamo = lib._dynamo
        x = lib.ones(3, 4, 5)
        dynamo.mark_dynamic(x, 0)
        dynamo.mark_dynamic(x, [1], min=2, max=9)
        dynamo.maybe_mark_dynamic(x, 2)
        y = lib.ones(3, 4)
        dynamo.mark_static(y, 1)
        z = lib.ones(3, 4)
        dynamo.mark_static(z)
        return (
            x._dynamo_dynamic_indices,
            {(one.dim, one.min, one.max) for one in x._dynamo_dynamic_range},
            x._dynamo_weak_dynamic_indices,
            y._dynamo_static_indices,
            z._dynamo_static_indices,
        )

    assert marks(rl) == marks(torch)
