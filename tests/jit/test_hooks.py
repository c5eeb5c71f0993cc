"""Hooks of modules are part of their programs: translated, written and read with them."""

import io

import pytest

import rushlight as rl
from tests.jit.both import loaded, plain


def module(library, folder):
    programs = loaded("objects", library.__name__, folder).PROGRAMS
    (made,) = [thing for name, thing, _ in programs if name == "hooks"]
    return made()


def again(library, scripted):
    """The program from its archive."""
    file = io.BytesIO()
    library.jit.save(scripted, file)
    file.seek(0)
    return library.jit.load(file)


def results(library, folder):
    """Calls of a module with hooks, of its ``forward``, and of one inside it."""
    own = module(library, folder)
    scripted = library.jit.script(own)
    found = []
    for one in (scripted, again(library, scripted)):
        x = library.ones(2)
        found += [plain(one(x)), plain(one.forward(x)), plain(one.inner(x))]
    return plain(own(library.ones(2))), found


def test_calls_run_hooks_and_forward_alone_does_not(tmp_path):
    torch = pytest.importorskip("torch")
    ours, theirs = results(rl, str(tmp_path)), results(torch, str(tmp_path))
    assert ours == theirs
    assert ours[0] == ours[1][0] != ours[1][1]


def test_hooks_stay_with_copies(tmp_path):
    import copy

    scripted = rl.jit.script(module(rl, str(tmp_path)))
    for made in (copy.copy(scripted), copy.deepcopy(scripted)):
        assert rl.equal(made(rl.ones(2)), scripted(rl.ones(2)))
        assert list(made.inner._forward_hooks) == [0, 1]


def test_one_name_for_two_hooks_is_refused():
    torch = pytest.importorskip("torch")
    words = []
    for library in (rl, torch):
        net = library.nn.Linear(2, 2)
        for _ in (1, 2):

            def shift(self, given: tuple[library.Tensor]) -> tuple[library.Tensor]:
                return (given[0] + 1,)

            net.register_forward_pre_hook(shift)
        with pytest.raises(RuntimeError, match="two different python") as caught:
            library.jit.script(net)
        words.append(str(caught.value))
    assert words[0] == words[1]


def test_hooks_that_are_no_functions_leave_the_module_python():
    net = rl.nn.Linear(2, 2)
    net.register_forward_hook(rl.nn.ReLU())
    with pytest.warns(UserWarning, match="stays Python"):
        assert rl.jit.script(net) is net


def test_members_of_enumerations_survive_archives_and_unknown_ones_are_refused(
    tmp_path,
):
    programs = loaded("objects", "rushlight", str(tmp_path))
    scripted = rl.jit.script(programs.enumeration_attributes())
    read = again(rl, scripted)
    assert read.mode.name == "FAST" and read.mode.value == 2
    read.__dict__["mode"] = type("Other", (), {"value": 9})()
    file = io.BytesIO()
    rl.jit.save(read, file)
    file.seek(0)
    with pytest.raises(RuntimeError, match="Mode has no member of value"):
        rl.jit.load(file)
