"""What a warpgroup's units do on an imagined card: as PTX says, from the instructions.

Factors are found by what their descriptors say, bit by bit, so that these are tested too.
Products are made at once, or not before somebody waits for them: as a draw says.
"""

from __future__ import annotations

import re

import numpy as np

GROUP = 128  # threads
SPACE = 1 << 18  # bytes: what a descriptor's beginning counts
DESCRIPTORS = 128  # words of sums before the descriptors that a thread leaves
WORDS = DESCRIPTORS + 2 * 8
ASSEMBLY = re.compile(
    r"  (%\S+) = call (\{ float[^}]*\}) asm sideeffect "
    r'"([^"]*)", "[^"]*"\(([^)]*)\)\n'
)
PRODUCT = re.compile(
    r"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k16\.f32\.(\w+)\.\2 "
    r"\{([^}]*)\}, \$(\d+), \$(\d+), p, 1, 1, (\d), (\d);"
)
WAIT = re.compile(r"wgmma\.wait_group\.sync\.aligned (\d+);")
ROOM = re.compile(r"^@\w+_room = external addrspace\(3\) global.*\n", re.M)
ROOM_USED = re.compile(r"addrspacecast \(ptr addrspace\(3\) @\w+_room to ptr\)")
SHOWN = re.compile(r'  call void asm sideeffect "fence\.proxy\.async[^"]*", [^\n]*\n')


def lines_of(match, leave, products, waits):
    """The lines of a thread that leaves its sums, and where factors lie, for its group.

    Args:
        leave: the lines of leaving for a reason, which is ``{what}``.
        products, waits: the numbers of both reasons.
    """
    name, kind, template, args = match.groups()
    args = args.split(", ")
    lanes = kind.count("float")
    lines = []
    for n, arg in enumerate(args):
        place = n if n < lanes else DESCRIPTORS + 2 * (n - lanes)
        lines.append(f"  {name}.at{n} = getelementptr i32, ptr %word, i64 {place}\n")
        lines.append(f"  store {arg}, ptr {name}.at{n}, align 4\n")
    waited = WAIT.fullmatch(template)
    if waited:
        how = int(waited[1]) << 6 | lanes // 4, waits
    else:
        how = product_of(template, lanes), products
    lines.append(leave.format(what=how[0] << 8 | how[1]))
    lines.append(f"  {name} = load {kind}, ptr %word, align 4\n")
    return "".join(lines)


def product_of(template, lanes):
    """An instruction's number: all steps of one template are alike."""
    assert template.startswith("{ .reg .pred p;\\0Asetp.eq.b32 p, 0, 0;\\0A")
    order = [template.index(f"wgmma.{word}") for word in ("fence", "mma", "commit")]
    assert order == sorted(order)
    found = PRODUCT.findall(template)
    own = ", ".join(f"${n}" for n in range(lanes))
    for n, (columns, kind, sums, left, right, *turned) in enumerate(found):
        assert (columns, kind, *turned) == (found[0][0], found[0][1], *found[0][5:])
        assert int(columns) == 2 * lanes and sums == own
        assert (int(left), int(right)) == (2 * lanes + 2 * n, 2 * lanes + 2 * n + 1)
    _, kind, *_, left, right = found[0]
    flags = (kind == "bf16") | int(left) << 1 | int(right) << 2
    return len(found) << 9 | flags << 6 | lanes // 4


class Units:
    """The units of a group: what they were asked for, and their sums.

    Args:
        memory: the block's shared memory.
        eager: whether they do it at once.
    """

    def __init__(self, memory, eager):
        self.memory, self.eager = memory, eager
        self.asked, self.sums = [], None

    def begin(self, words, how):
        """Asks for a product: a group of instructions."""
        lanes = (how & 63) * 4
        if not self.asked:
            self.sums = words[:, :lanes].copy().view(np.float32)
        else:
            assert np.isnan(words[:, :lanes].copy().view(np.float32)).all(), (
                "sums are given that products are still added to"
            )
        found = np.ascontiguousarray(words[:, DESCRIPTORS:]).view(np.int64)
        assert (found == found[0]).all(), "a group's descriptors differ"
        self.asked.append((how, found[0].tolist()))
        if self.eager:
            self.add(*self.asked[-1])
            self.asked[-1] = None
        words[:, :lanes] = np.float32("nan").view(np.int32)

    def wait(self, words, how):
        """Waits for all groups but some."""
        lanes, pending = (how & 63) * 4, how >> 6
        while len(self.asked) > pending:
            product = self.asked.pop(0)
            if product is not None:
                self.add(*product)
        if self.sums is None:
            return
        words[:, :lanes] = (
            np.float32("nan").view(np.int32) if self.asked else self.sums.view(np.int32)
        )

    def add(self, how, descriptors):
        """Adds a product of 64 rows to the sums."""
        lanes, flags, steps = (how & 63) * 4, how >> 6 & 7, how >> 9
        thread, n = np.arange(GROUP)[:, None], np.arange(lanes)
        rows = 16 * (thread // 32) + thread % 32 // 4 + 8 * (n // 2 % 2)
        columns = 8 * (n // 4) + 2 * (thread % 4) + n % 2
        for step in range(steps):
            left, right = descriptors[2 * step : 2 * step + 2]
            left = self.factor(left, 64, flags >> 1 & 1, flags & 1)
            right = self.factor(right, 2 * lanes, flags >> 2 & 1, flags & 1)
            product = left @ right.T
            self.sums = (self.sums + product[rows, columns]).astype(np.float32)

    def factor(self, descriptor, count, turned, short):
        """Rows (or columns) of a factor, 16 deep, from where its descriptor says."""
        first, leading, stride = (
            (descriptor >> at & 0x3FFF) << 4 for at in (0, 16, 32)
        )
        assert descriptor >> 62 & 3 == 1, "lines of 128 bytes, mixed"
        assert descriptor >> 46 & 0xFFFF == 0
        i, k = np.arange(count)[:, None], np.arange(16)
        if turned:
            bytes = i // 64 * leading + i % 64 * 2 + k // 8 * stride + k % 8 * 128
        else:
            bytes = i // 8 * stride + i % 8 * 128 + 2 * k
        place = first + bytes
        place = place ^ (place >> 7 & 7) << 4
        halves = self.memory.view(np.uint16)[place // 2]
        if short:
            return (halves.astype(np.uint32) << 16).view(np.float32).astype(float)
        return halves.view(np.float16).astype(float)
