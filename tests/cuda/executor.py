"""Runs entries that were written for a card on the host, thread by thread.

What LLVM is given for a card is taken as text, the card's registers (a thread's number,
a block's, and how many there are) become parameters, and the host's compiler makes a
function of it that is called for every thread, in any order. So the entry itself is run,
its search for each element included: all but what LLVM's last step for the card does.
"""

from __future__ import annotations

import ctypes
import re
import struct

from rushlight.backends.cpu import cache
from rushlight.codegen.emit.device import MOST_DATA
from tests.cuda.driver import near

REGISTERS = ("tid.x", "ctaid.x", "ntid.x", "nctaid.x")
HEAD = re.compile(r"define ptx_kernel void @(\w+)\((.*?)\) nounwind \{")
THREAD = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5, *[ctypes.c_int] * 4)


class Executor:
    """The entries that were made since it was put in place.

    Args:
        draw: chooses the order of threads.
        texts: the IR of entries by name.
    """

    def __init__(self, draw, texts):
        self.draw = draw
        self.texts = texts
        self.functions: dict = {}

    def remember(self, text):
        """Keeps the IR of an entry."""
        self.texts[HEAD.search(text)[1]] = text

    def function(self, name):
        """The entry as a function of its parameters' addresses and four registers."""
        if name not in self.functions:
            kernel = cache.native_text(f"{name}_thread", host_text(self.texts[name]))
            self.functions[name] = kernel, THREAD(kernel.address)
        return self.functions[name][1]

    def __call__(self, found, grid, block, values, driver):
        """Runs a launch; see `tests.cuda.driver`."""
        call = self.function(found.name)
        data = struct.unpack(f"{MOST_DATA}Q", values[0])
        values = [
            struct.pack(f"{MOST_DATA}Q", *map(near, data)),
            *values[1:-1],
            values[-1],
        ]
        values[-1] = struct.pack("Q", near(*struct.unpack("Q", values[-1])))
        room = [ctypes.create_string_buffer(value, len(value)) for value in values]
        addresses = [ctypes.addressof(item) for item in room]
        addresses += [0] * (5 - len(addresses))
        threads = [(b, t) for b in range(grid[0]) for t in range(block[0])]
        self.draw.shuffle(threads)
        for b, t in threads:
            call(*addresses, t, b, block[0], grid[0])


def host_text(text):
    """A module for a card as one for the host: parameters and registers by address."""
    head = HEAD.search(text)
    loads, parameters = [], []
    for n, item in enumerate(head[2].split(", ")):
        name = item.split()[-1]
        if "byval" in item:
            parameters.append(f"ptr {name}")
        else:
            kind = item.split()[0]
            parameters.append(f"ptr %at.parameter{n}")
            loads.append(f"  {name} = load {kind}, ptr %at.parameter{n}")
    while len(parameters) < 5:
        parameters.append(f"ptr %unused{len(parameters)}")
    parameters += [f"i32 %register.{r}" for r in REGISTERS]
    body = text[head.end() :].lstrip("\n").split("\n")
    assert body[0].endswith(":"), "an entry begins with a label"
    new = f"define void @{head[1]}_thread({', '.join(parameters)}) nounwind {{"
    text = "\n".join([text[: head.start()] + new, body[0], *loads, *body[1:]])
    for register in REGISTERS:
        read = f"call i32 @llvm.nvvm.read.ptx.sreg.{register}()"
        text = text.replace(read, f"add i32 %register.{register}, 0")
    lines = text.split("\n")
    return "\n".join(line for line in lines if "@llvm.nvvm" not in line)
