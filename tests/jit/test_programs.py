"""Translated programs compute what Python does, here and from the other's archives."""

import io

import pytest

import rushlight as rl
from tests.jit.both import called, loaded, made, plain


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(tmp_path_factory.mktemp("programs"))


def program(name, library, folder):
    module = loaded("basics", library, folder)
    for label, thing, operands in module.PROGRAMS:
        if label == name:
            return thing, operands
    raise AssertionError(f"no program {name}")


@pytest.fixture(scope="module")
def names(folder):
    return [name for name, _, _ in loaded("basics", "rushlight", folder).PROGRAMS]


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
        assert translated is not own or callable(own)
        _, again = scripted(thing)
        if plain(called(own, operands)) != plain(called(again, operands)):
            wrong.append(name)
    assert not wrong and len(names) >= 25


def test_programs_run_from_their_own_archives(folder, names):
    wrong = []
    for name in names:
        thing, operands = program(name, "rushlight", folder)
        own, translated = scripted(thing)
        file = io.BytesIO()
        rl.jit.save(translated, file)
        file.seek(0)
        loaded_again = rl.jit.load(file)
        if plain(called(own, operands)) != plain(called(loaded_again, operands)):
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
        if plain(called(translated, operands)) != plain(called(here, ours)):
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
        if plain(called(own, operands)) != plain(called(there, theirs)):
            wrong.append(name)
    assert not wrong
