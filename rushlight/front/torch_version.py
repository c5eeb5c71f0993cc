"""The version of PyTorch that Rushlight's names and behaviour follow."""

import re

__all__ = ["TorchVersion"]

_NUMBER = re.compile(
    r"(?P<release>\d+(?:\.\d+)*)(?P<early>(?:a|b|rc|\.dev)\d*)?(?P<rest>.*)"
)


def _key(value):
    """What a version sorts by: its numbers, and whether it is a release."""
    if isinstance(value, (tuple, list)):
        value = ".".join(str(part) for part in value)
    elif not isinstance(value, str):
        value = str(value)
    found = _NUMBER.match(value.strip().removeprefix("v"))
    if found is None:
        raise ValueError(f"Invalid version: {value!r}")
    numbers = [int(part) for part in found["release"].split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    early = found["early"]
    local = found["rest"].partition("+")[2]
    return numbers, (0, early) if early else (1, ""), local


class TorchVersion(str):
    """A version that is text, and compares with text and tuples as versions do.

    >>> TorchVersion("2.13.0") > "2.9"
    True
    >>> TorchVersion("2.13.0") >= (2, 14)
    False
    """

    def _compare(self, other):
        """-1, 0 or 1; text that is no version compares as text."""
        try:
            mine, others = _key(str(self)), _key(other)
        except ValueError:
            mine, others = str(self), str(other)
        return (mine > others) - (mine < others)

    def __lt__(self, other):
        return self._compare(other) < 0

    def __le__(self, other):
        return self._compare(other) <= 0

    def __gt__(self, other):
        return self._compare(other) > 0

    def __ge__(self, other):
        return self._compare(other) >= 0

    def __eq__(self, other):
        return self._compare(other) == 0

    # As in PyTorch, where "2.13" is both equal to "2.13.0" and other text.
    __ne__ = str.__ne__
    __hash__ = str.__hash__


__version__ = TorchVersion("2.13.0")
