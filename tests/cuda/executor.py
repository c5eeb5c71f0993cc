"""Runs entries that were written for a card on the host, thread by thread.

What LLVM is given for a card is taken as text, the card's registers (a thread's number,
a block's, and how many there are) become values in memory, and the host's compiler makes
a function of it that is called for every thread, in any order. So the entry itself is
run, its search for each element included: all but what LLVM's last step for the card
does.

Where threads wait for each other each has a stack of its own. At a barrier, or an
exchange among lanes, it leaves for the loop that runs the block, which goes on when all
have come and refuses threads that never will. Memory that a block shares is filled with
nonsense before each block.
"""

from __future__ import annotations

import ctypes
import re
import struct

import numpy as np

from rushlight.backends.cpu import cache
from tests.cuda.driver import POISON, near

REGISTERS = ("tid.x", "ctaid.x", "ntid.x", "nctaid.x")
HEAD = re.compile(r"define ptx_kernel void @(\w+)\((.*?)\) nounwind \{")
SHARED = re.compile(
    r"^(@[\w.]+) = internal addrspace\(3\) global \[(\d+) x (\w+)\].*\n", re.M
)
BARRIER = re.compile(r"  call void @llvm\.nvvm\.barrier[\w.]*\(i32 0\)\n")
EXCHANGE = re.compile(
    r"  (%\S+) = call i32 @llvm\.nvvm\.shfl\.sync\.bfly\.i32"
    r"\(i32 -1, i32 (\S+), i32 (\d+), i32 31\)\n"
)
PRODUCT = re.compile(
    r"  (%\S+) = call (\{ float, float, float, float \}) "
    r"@llvm\.nvvm\.mma\.(\S+?)\((.*)\)\n"
)
ROUNDED = re.compile(r"  (%\S+) = call i32 @llvm\.nvvm\.f2tf32\.rna\(float (\S+)\)\n")
NAME = re.compile(r"%[\w.]+")
PURE = re.compile(
    r"  (%\S+) = ((?:bitcast|zext|shl|or|load|call i32 @llvm\.nvvm\.f2tf32\.rna|"
    r"call \{ float, float, float, float \} @llvm\.nvvm\.mma).*)"
)
# What a thread leaves for, in the low byte; above it is how.
BARRIERS, EXCHANGES, PRODUCTS = 1, 2, 3
UNITS = ("m16n8k16.row.col.f32.f32", "m16n8k16.row.col.bf16", "m16n8k8.row.col.tf32")
WORDS = 10  # of a thread's share of a product: 4 left, 2 right, 4 added
# What a thread knows: its parameters' addresses, its registers, and where it leaves to.
PARAMETERS, OWN, HOME, SWITCH, ASKED, WORD, ROOM, FIELDS = 5, 9, 10, 11, 12, 13, 14, 15
# ``WORD`` is where an exchanged word lies, or the words of a product.
STACK, CONTEXT = 1 << 16, 8192
WARP = 32
LANES = np.arange(WARP)
THREADS = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long)
EACH = """
define void @{name}_all(ptr %fiber, ptr %order, i64 %count) nounwind {{
begin:
  %at.tid = getelementptr i64, ptr %fiber, i64 5
  %at.block = getelementptr i64, ptr %fiber, i64 6
  %at.width = getelementptr i64, ptr %fiber, i64 7
  %width = load i64, ptr %at.width
  br label %head
head:
  %i = phi i64 [0, %begin], [%next, %body]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %body, label %exit
body:
  %place = getelementptr i64, ptr %order, i64 %i
  %number = load i64, ptr %place
  %tid = srem i64 %number, %width
  %block = sdiv i64 %number, %width
  store i64 %tid, ptr %at.tid
  store i64 %block, ptr %at.block
  call void @{name}_thread(ptr %fiber)
  %next = add i64 %i, 1
  br label %head
exit:
  ret void
}}
"""
LEAVE = """\
  store i32 {what}, ptr %asked
  call i32 %switch(ptr %own, ptr %home)
"""


class DivergenceError(AssertionError):
    """Threads that must meet do not."""


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
        """What runs the threads of an entry; their shared bytes, None for none that wait."""
        if name not in self.functions:
            text, room = host_text(self.texts[name])
            symbol = f"{name}_{'all' if room is None else 'thread'}"
            kernel = cache.native_text(symbol, text)
            call = THREADS(kernel.address) if room is None else kernel
            self.functions[name] = call, room
        return self.functions[name]

    def __call__(self, found, grid, block, values, driver):
        """Runs a launch; see `tests.cuda.driver`."""
        call, shared = self.function(found.name)
        words = f"{len(values[0]) // 8}Q"  # addresses, and what is too small for one
        values = [
            struct.pack(words, *map(near, struct.unpack(words, values[0]))),
            *values[1:-1],
            struct.pack("Q", near(*struct.unpack("Q", values[-1]))),
        ]
        room = [ctypes.create_string_buffer(value, len(value)) for value in values]
        fiber = np.zeros(FIELDS, np.int64)
        fiber[: len(room)] = [ctypes.addressof(item) for item in room]
        fiber[7:9] = block[0], grid[0]
        if shared is None:
            draw = np.random.default_rng(self.draw.randrange(1 << 30))
            order = draw.permutation(grid[0] * block[0])
            call(fiber.ctypes.data, order.ctypes.data, order.size)
            return
        blocks = list(range(grid[0]))
        self.draw.shuffle(blocks)
        team = Team(call.address, fiber, block[0], shared)
        for number in blocks:
            team.run(number, self.draw)


LIBC = ctypes.PyDLL(None)
ENTRY = ctypes.CFUNCTYPE(None)


class Team:
    """The threads of a block, each on a stack of its own.

    Args:
        address: of the function of one thread.
        fiber: what all of them know.
        threads: how many there are.
        shared: the bytes that they share.
    """

    def __init__(self, address, fiber, threads, shared):
        self.entry, self.threads = ENTRY(address), threads
        self.fibers = np.tile(fiber, (threads, 1))
        self.stacks = np.empty((threads, STACK), np.uint8)
        self.raw = np.zeros((threads + 1, CONTEXT // 8), np.int64)
        self.asked = np.zeros(threads, np.int32)
        self.words = np.zeros((threads, WORDS), np.int32)
        self.shared = np.empty(shared + 64, np.uint8)
        contexts = self.raw.ctypes.data + CONTEXT * np.arange(threads + 1)
        self.contexts, self.home = contexts[:-1].tolist(), int(contexts[-1])
        start = -(-self.shared.ctypes.data // 64) * 64
        self.fibers[:, 5] = np.arange(threads)
        self.fibers[:, OWN] = contexts[:-1]
        self.fibers[:, HOME] = self.home
        self.fibers[:, SWITCH] = ctypes.cast(LIBC.swapcontext, ctypes.c_void_p).value
        self.fibers[:, ASKED] = self.asked.ctypes.data + 4 * np.arange(threads)
        self.fibers[:, WORD] = self.words.ctypes.data + 4 * WORDS * np.arange(threads)
        self.fibers[:, ROOM] = start

    def begin(self, number):
        """Puts every thread before its first step."""
        self.shared.fill(POISON)
        self.fibers[:, 6] = number
        for n, context in enumerate(self.contexts):
            place = ctypes.c_void_p(context)
            LIBC.getcontext(place)
            self.raw[n, 1] = self.home  # where it goes when it ends
            self.raw[n, 2] = self.stacks.ctypes.data + n * STACK
            self.raw[n, 4] = STACK
            fiber = ctypes.c_void_p(self.fibers.ctypes.data + n * FIELDS * 8)
            LIBC.makecontext(place, self.entry, 1, fiber)

    def run(self, number, draw):
        """Runs a block from its beginning to its end.

        One of its warps is slow: what the others do without waiting for it is seen.
        """
        self.begin(number)
        home = ctypes.c_void_p(self.home)
        places = [ctypes.c_void_p(context) for context in self.contexts]
        ready, ended = list(range(self.threads)), set()
        slow, held = draw.randrange(-(-self.threads // WARP)), []
        while True:
            draw.shuffle(ready)
            for n in ready:
                LIBC.swapcontext(home, places[n])
                if not self.asked[n]:
                    ended.add(n)
            if len(ended) == self.threads:
                return
            ready = self.meet() + held
            if not ready:
                self.refuse(number, ended)
            self.asked[ready] = 0
            ahead = [n for n in ready if n // WARP != slow]
            held = [n for n in ready if n // WARP == slow]
            if ahead and draw.randrange(256):
                ready = ahead
            else:
                held = []

    def meet(self):
        """Who may go on: a block at a barrier, a warp at an exchange or a product."""
        if (self.asked == 1).all():
            return list(range(self.threads))
        warps = self.asked[: self.threads // WARP * WARP].reshape(-1, WARP)
        met = (warps[:, 0] > BARRIERS) & (warps == warps[:, :1]).all(1)
        ready = []
        for warp in np.flatnonzero(met).tolist():
            first = warp * WARP
            words, asked = self.words[first : first + WARP], int(warps[warp, 0])
            if asked & 255 == EXCHANGES:
                words[:, 0] = words[LANES ^ (asked >> 8), 0]
            else:
                words[:, :4] = multiplied(words, asked >> 8).view(np.int32)
            ready += range(first, first + WARP)
        return ready

    def refuse(self, number, ended):
        """Raises what tells where threads wait that will wait for ever."""
        raise DivergenceError(
            f"threads of block {number} wait for others: {len(ended)} of "
            f"{self.threads} have ended, {int((self.asked == 1).sum())} are at a "
            f"barrier, {int((self.asked > 1).sum())} exchange values or multiply"
        )


def multiplied(words, how):
    """The sums of each lane of a warp that multiplies: places as PTX has them.

    Args:
        words: of each lane, its shares of both factors and of what is added.
        how: the number of the instruction in `UNITS`.
    """
    rows, depths, across, depth = PLACES[how == 2]
    if how == 2:  # a word is a float, of which the units see the upper bits
        factors = (words[:, :6] & np.int32(-0x2000)).view(np.float32)
    else:
        factors = np.ascontiguousarray(words[:, :6]).view(np.uint16)
        factors = (
            (factors.astype(np.uint32) << 16).view(np.float32)
            if how
            else factors.view(np.float16).astype(np.float32)
        )
    left, right = np.zeros((16, depth)), np.zeros((depth, 8))
    left[rows, depths] = factors[:, : rows.shape[1]]
    right[across, GROUP] = factors[:, rows.shape[1] :]
    added = np.ascontiguousarray(words[:, 6:]).view(np.float32)
    return ((left @ right)[SUMS] + added).astype(np.float32)


def places(halves):
    """Where a lane's values are: rows and depths of the left factor, depths of the right."""
    if halves:
        n, m = np.arange(8), np.arange(4)
        rows = GROUP + 8 * (n // 2 % 2)
        depths = 2 * PAIR + n % 2 + 8 * (n // 4)
        return rows, depths, 2 * PAIR + m % 2 + 8 * (m // 2), 16
    n, m = np.arange(4), np.arange(2)
    return GROUP + 8 * (n % 2), PAIR + 4 * (n // 2), PAIR + 4 * m, 8


GROUP, PAIR = np.divmod(LANES[:, None], 4)
PLACES = places(True), places(False)
SUMS = GROUP + 8 * (np.arange(4) // 2), 2 * PAIR + np.arange(4) % 2


def product_lines(match):
    """The lines of a thread that leaves its share of a product, and takes its sums."""
    name, kind, instruction, args = match.groups()
    lines = []
    for n, arg in enumerate(args.replace("<2 x half> ", "half2 ").split(", ")):
        type, value = arg.split(" ", 1)
        type = "<2 x half>" if type == "half2" else type
        lines.append(f"  {name}.at{n} = getelementptr i32, ptr %word, i64 {n}\n")
        lines.append(f"  store {type} {value}, ptr {name}.at{n}\n")
    lines.append(LEAVE.format(what=UNITS.index(instruction) << 8 | PRODUCTS))
    lines.append(f"  {name} = load {kind}, ptr %word\n")
    return "".join(lines)


def one_of_each(text):
    """The text with each value computed once in a block, as LLVM does: products, too."""
    lines, same, seen = [], {}, {}
    for line in text.split("\n"):
        if not line.startswith("  "):
            seen = {}
        elif line.startswith(("  store", "  call")):
            seen = {text: name for text, name in seen.items() if text[:4] != "load"}
        if same:
            line = NAME.sub(lambda m: same.get(m[0], m[0]), line)
        found = PURE.match(line)
        if found and seen.setdefault(found[2], found[1]) != found[1]:
            same[found[1]] = seen[found[2]]
        else:
            lines.append(line)
    return "\n".join(lines)


def host_text(text):
    """A module for a card as one for the host, and the bytes that its blocks share.

    These are None where no thread waits for another: then one function runs all of them.
    """
    if PRODUCT.search(text):
        text = one_of_each(text)
    head = HEAD.search(text)
    loads = []

    def field(name, number, kind="ptr"):
        """The lines that read something that a thread knows."""
        loads.append(f"  %at.{name} = getelementptr i64, ptr %fiber, i64 {number}")
        loads.append(f"  %{name} = load {kind}, ptr %at.{name}")

    for n, item in enumerate(head[2].split(", ")):
        name, kind = item.split()[-1][1:], item.split()[0]
        if "byval" in item:
            field(name, n)
        else:
            field(f"parameter{n}", n)
            loads.append(f"  %{name} = load {kind}, ptr %parameter{n}")
    for n, register in enumerate(REGISTERS):
        field(f"register.{register}", PARAMETERS + n, "i32")
    waits = BARRIER.search(text) or EXCHANGE.search(text) or PRODUCT.search(text)
    room = 0
    if waits:
        for n, name in enumerate(("own", "home", "switch", "asked", "word", "room")):
            field(name, OWN + n)
        for name, size, kind in SHARED.findall(text):
            loads.append(f"  %shared{room} = getelementptr i8, ptr %room, i64 {room}")
            text = text.replace(
                f"addrspacecast (ptr addrspace(3) {name} to ptr)", f"%shared{room}"
            )
            bits = {"float": 32, "double": 64, "half": 16, "bfloat": 16}
            room += -(-int(size) * (bits.get(kind) or int(kind[1:])) // 8 // 64) * 64
        text = BARRIER.sub(LEAVE.format(what=BARRIERS), SHARED.sub("", text))
        text = EXCHANGE.sub(
            lambda m: (
                f"  store i32 {m[2]}, ptr %word\n"
                + LEAVE.format(what=int(m[3]) << 8 | EXCHANGES)
                + f"  {m[1]} = load i32, ptr %word\n"
            ),
            text,
        )
        text = ROUNDED.sub(
            r"  \1.bits = bitcast float \2 to i32\n"
            r"  \1.up = add i32 \1.bits, 4096\n"
            r"  \1 = and i32 \1.up, -8192\n",
            text,
        )
        text = PRODUCT.sub(product_lines, text)
    head = HEAD.search(text)
    body = text[head.end() :].lstrip("\n").split("\n")
    assert body[0].endswith(":"), "an entry begins with a label"
    linkage = "" if waits else "internal "
    new = f"define {linkage}void @{head[1]}_thread(ptr %fiber) nounwind {{"
    text = "\n".join([text[: head.start()] + new, body[0], *loads, *body[1:]])
    for register in REGISTERS:
        read = f"call i32 @llvm.nvvm.read.ptx.sreg.{register}()"
        text = text.replace(read, f"add i32 %register.{register}, 0")
    lines = text.split("\n")
    text = "\n".join(line for line in lines if "@llvm.nvvm" not in line)
    return (text, room) if waits else (text + EACH.format(name=head[1]), None)
