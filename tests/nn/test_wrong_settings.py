"""Modules of PyTorch's database made with odd arguments: as PyTorch makes them.

Each argument in turn is a negative number, zero, a fraction, a word, nothing, too many
numbers or a truth; the module then prints alike, or is refused with the same exception.
"""

from __future__ import annotations

import inspect
import warnings

import pytest

import rushlight as rl
from tests.nn.test_wrong_inputs import INFOS, SEED, Untold, known, torch, twin

VALUES = [-1, 0, 2.5, "x", None, (1, 2, 3, 4), True]


def settings(name):
    """The first arguments of a module that the database has, by their names."""
    info = INFOS[name]
    torch.manual_seed(SEED)
    try:
        (first, *_) = info.module_inputs_func(
            info, "cpu", torch.float32, requires_grad=False, training=False
        )
    except Exception:  # of the database's own
        return {}, []
    skipped = ("self", "device", "dtype", "args", "kwargs")
    signature = inspect.signature(info.module_cls.__init__).parameters
    names = [each for each in signature if each not in skipped]
    built = first.constructor_input
    return {**dict(zip(names, built.args)), **built.kwargs}, names


def made(cls, arguments):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return repr(cls(**arguments))
    except Exception as error:  # every kind is an answer
        return type(error)


@pytest.mark.parametrize("name", INFOS)
def test_odd_arguments_make_what_the_oracle_makes(name):
    base, names = settings(name)
    differing = []
    for argument in names:
        for value in VALUES:
            arguments = {**base, argument: value}
            wanted = made(INFOS[name].module_cls, arguments)
            try:
                ours = {key: twin(each) for key, each in arguments.items()}
            except Untold:
                continue
            found = made(known(INFOS[name]), ours)
            if found != wanted:
                differing.append(f"{argument}={value!r}: {found}, not {wanted}")
    assert not differing, "\n".join(differing)


def test_older_names_of_bounds_are_taken_with_a_warning():
    with pytest.warns(FutureWarning, match="renamed to `min_val`"):
        layer = rl.nn.Hardtanh(min_value=-2.0)
    assert layer.min_val == -2.0
