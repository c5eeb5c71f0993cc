"""Translated programs compute what Python does, here and from the other's archives."""

import io

import pytest

import rushlight as rl
from tests.jit.both import called, loaded, made, plain

FILES = ("basics", "constructs", "objects", "recurrent")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(tmp_path_factory.mktemp("programs"))


def programs(library, folder):
    """All programs with what they are called with, by name and file."""
    return {
        (file, name): (thing, operands)
        for file in FILES
        for name, thing, operands in loaded(file, library, folder).PROGRAMS
    }


def program(name, library, folder):
    return programs(library, folder)[name]


def outcome(function, operands):
    """What a call gives or, where it raises, the end of the message."""
    try:
        return plain(called(function, operands))
    except Exception as error:
        return "raised", str(error).strip().splitlines()[-1].rpartition(": ")[2]


@pytest.fixture(scope="module")
def names(folder):
    return list(programs("rushlight", folder))


def scripted(thing):
    """A program as it is in Python and translated, of the same parameters."""
    rl.manual_seed(0)
    own = made(thing)
    return own, rl.jit.script(own)


def test_programs_give_what_python_gives(folder, names):
    wrong = []
    for name in names:
        thing, operands = program(name, "rushlight", folder)
        own, translated = scripted(thing)
        assert isinstance(translated, (rl.jit.ScriptFunction, rl.jit.ScriptModule))
        _, again = scripted(thing)
        if outcome(own, operands) != outcome(again, operands):
            wrong.append(name)
    assert not wrong and len(names) >= 92


def test_programs_run_from_their_own_archives(folder, names):
    wrong = []
    for name in names:
        thing, operands = program(name, "rushlight", folder)
        own, translated = scripted(thing)
        file = io.BytesIO()
        rl.jit.save(translated, file)
        file.seek(0)
        loaded_again = rl.jit.load(file)
        if outcome(own, operands) != outcome(loaded_again, operands):
            wrong.append(name)
    assert not wrong


def test_pytorchs_archives_run_here(folder, names):
    torch = pytest.importorskip("torch")
    wrong = []
    for name in names:
        thing, operands = program(name, "torch", folder)
        torch.manual_seed(0)
        translated = torch.jit.script(made(thing))
        file = io.BytesIO()
        torch.jit.save(translated, file)
        file.seek(0)
        here = rl.jit.load(file)
        _, ours = program(name, "rushlight", folder)
        if outcome(translated, operands) != outcome(here, ours):
            wrong.append(name)
    assert not wrong


def test_our_archives_run_in_pytorch(folder, names):
    torch = pytest.importorskip("torch")
    wrong = []
    for name in names:
        thing, operands = program(name, "rushlight", folder)
        own, translated = scripted(thing)
        file = io.BytesIO()
        rl.jit.save(translated, file)
        file.seek(0)
        there = torch.jit.load(file)
        _, theirs = program(name, "torch", folder)
        if outcome(own, operands) != outcome(there, theirs):
            wrong.append(name)
    assert not wrong
