"""Programs that run on PyTorch and on Rushlight and must tell the same story.

Each scenario takes the framework's module and returns plain Python values; where it
raises, the exception's type and text are the result.
"""

from __future__ import annotations

import importlib
import re
import warnings

FAMILIES = ["graphs", "inplace", "hooks", "functions", "modes", "saving", "products"]


class Scenario:
    """One program and its name."""

    def __init__(self, function):
        self.function = function
        self.name = f"{function.__module__.rsplit('.', 1)[-1]}.{function.__name__}"


def scenario(function):
    """Decorator: collect a program for the comparison."""
    function.scenario = Scenario(function)
    return function


def all_scenarios():
    found = []
    for family in FAMILIES:
        module = importlib.import_module(f"{__name__}.{family}")
        found += [
            value.scenario
            for value in vars(module).values()
            if hasattr(value, "scenario")
        ]
    return found


def plain(value):
    """Tensors as nested lists with their dtype, everything else as it is."""
    if hasattr(value, "grad_fn") and hasattr(value, "tolist"):
        return [str(value.dtype).rsplit(".", 1)[-1], value.detach().tolist()]
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return value


def neutral(text: str) -> str:
    """A message without the framework's name, addresses and what only one adds."""
    text = re.sub(r"0x[0-9a-f]+", "0x", text)
    return re.sub(r"\b(torch|rushlight)\b", "framework", text)


def attempt(function):
    """What a call returns, or the type and text of what it raises."""
    try:
        return ["value", plain(function())]
    except Exception as error:
        return ["error", type(error).__name__, neutral(str(error))]


def outcome(one: Scenario, framework) -> dict:
    """The scenario's result and its warnings, on one framework."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = attempt(lambda: one.function(framework))
    return {"result": result, "warned": sorted({w.category.__name__ for w in caught})}
