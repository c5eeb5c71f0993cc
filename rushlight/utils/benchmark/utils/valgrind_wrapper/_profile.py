"""What Callgrind writes, read: instructions of each function, with and without its calls.

Source: "Callgrind Format Specification", Valgrind's manual.
"""

import bisect
from collections import Counter

_FILES = ("fl", "fi", "fe", "cfi", "cfl")
_FAR = 1 << 20  # bytes from a kernel's start to what is surely not its own


class _Reader:
    """The lines of one file, summed.

    Args:
        kernels: the names of kernels by the address at which each starts.
    """

    def __init__(self, kernels):
        self.names: dict = {"file": {}, "function": {}, "object": {}}
        self.own, self.calls = Counter(), Counter()
        self.positions = 1
        self.file = self.object = self.function = ""
        self.callee_object = self.callee_file = self.callee = None
        self.of_call = False
        self.kernels = kernels
        self.starts = sorted(kernels)

    def name(self, kind, text):
        """A name that is written once, and then called by its number."""
        number, _, name = text.partition(" ")
        known = self.names[kind]
        if name:
            known[number] = name
        return known.get(number, text)

    def read(self, line):
        """Takes one line."""
        key, equals, value = line.partition("=")
        if line[:1] in "+-*0123456789" and line[:1]:
            self.cost(line)
        elif line.startswith("positions:"):
            self.positions = len(line.split()) - 1
        elif key == "calls" and equals:
            self.of_call = True
        elif key in _FILES:
            self.of_file(key, self.name("file", value))
        elif key in ("ob", "cob"):
            name = self.name("object", value)
            if key == "ob":
                self.object = name
            else:
                self.callee_object = name
        elif key == "fn":
            name = self.name("function", value)
            self.function = self.title(self.file, name, self.object)
        elif key == "cfn":
            name = self.name("function", value)
            file, where = self.callee_file or self.file, self.callee_object
            self.callee = self.title(file, name, where or self.object)
            self.callee_file = self.callee_object = None

    def of_file(self, key, name):
        if key == "fl":
            self.file = name
        elif key in ("cfi", "cfl"):
            self.callee_file = name

    def title(self, file, name, where):
        """A function as it is told: file, name, and the library that it is in."""
        if name.startswith("0x"):
            name = self.kernel(int(name.partition("'")[0], 16), name)
        return f"{file}:{name} [{where}]" if where else f"{file}:{name}"

    def kernel(self, address, name):
        """The kernel that starts there or shortly before; else the address."""
        place = bisect.bisect_right(self.starts, address) - 1
        if place < 0 or address - self.starts[place] > _FAR:
            return name
        return self.kernels[self.starts[place]]

    def cost(self, line):
        numbers = line.split()
        count = int(numbers[-1]) if len(numbers) > self.positions else 0
        if not self.of_call:
            self.own[self.function] += count
        elif self.callee != self.function:  # a call of itself is in its own count
            self.calls[self.function] += count
        self.of_call = False


def read_profile(lines, kernels=()):
    """Instructions by function: its own ones, and with those of what it called.

    Args:
        lines: of a file that Callgrind wrote.
        kernels: names by the address at which the machine code starts.

    Returns:
        Two dictionaries from ``file:function [library]`` to a number.
    """
    reader = _Reader(dict(kernels))
    for line in lines:
        reader.read(line.rstrip("\n"))
    total = reader.own.total()
    both = {name: min(n, total) for name, n in (reader.own + reader.calls).items()}
    return {name: n for name, n in reader.own.items() if n}, both
