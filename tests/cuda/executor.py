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
import functools
import itertools
import math
import re
import struct
from types import SimpleNamespace

import numpy as np

from rushlight.runtime.cpu import code_cache
from tests.cuda import groups
from tests.cuda.driver import POISON

REGISTERS = ("tid.x", "ctaid.x", "ntid.x", "nctaid.x")
HEAD = re.compile(r"define ptx_kernel void @(\w+)\((.*?)\) nounwind [^{]*\{")
SHARED = re.compile(
    r"^(@[\w.]+) = internal addrspace\(3\) global \[(\d+) x (\w+)\].*\n", re.M
)
BARRIER = re.compile(r"  call void @llvm\.nvvm\.barrier[\w.]*\(i32 0\)\n")
EXCHANGE = re.compile(
    r"  (%\S+) = call i32 @llvm\.nvvm\.shfl\.sync\.bfly\.i32"
    r"\(i32 -1, i32 (\S+), i32 (\d+), i32 31\)\n"
)
MATCH = re.compile(r"  (%\S+) = call i32 @match_(\d+)\(i32 (\S+)\) convergent\n")
MATCH_BODY = re.compile(r"define internal i32 @match_\d+\(.*?\n}\n", re.S)
WARP_BARRIER = re.compile(r"  call void @llvm\.nvvm\.bar\.warp\.sync\(i32 -1\)\n")
SHORT_SUM = re.compile(
    r"  (%\S+) = atomicrmw fadd ptr (%\S+), bfloat (%\S+) syncscope.*\n"
)
PRODUCT = re.compile(
    r"  (%\S+) = call (\{ float, float, float, float \}) "
    r"@llvm\.nvvm\.mma\.(\S+?)\((.*)\)\n"
)
POWER = re.compile(r"call float @llvm\.nvvm\.ex2\.approx\.ftz\.f\(")
# Two to the power of a float: a polynomial in double precision, then the exponent's bits.
POWER_BODY = """
define internal float @exp2_approx(float %x) alwaysinline nounwind {
  %low = fcmp olt float %x, -126.0
  %near = select i1 %low, float -126.0, float %x
  %whole = call float @llvm.rint.f32(float %near)
  %rest = fsub float %near, %whole
  %r = fpext float %rest to double
POLYNOMIAL
  %value = fptrunc double %p0 to float
  %number = fptosi float %whole to i32
  %raised = add i32 %number, 127
  %shifted = shl i32 %raised, 23
  %scale = bitcast i32 %shifted to float
  %scaled = fmul float %value, %scale
  %known = select i1 %low, float 0.0, float %scaled
  ret float %known
}
declare float @llvm.rint.f32(float)
""".replace(
    "POLYNOMIAL",
    "\n".join(
        ["  %p9 = fadd double 0.0, " + f"{math.log(2) ** 9 / math.factorial(9):.17e}"]
        + [
            f"  %m{n} = fmul double %p{n + 1}, %r\n"
            f"  %p{n} = fadd double %m{n}, {math.log(2) ** n / math.factorial(n):.17e}"
            for n in range(8, -1, -1)
        ]
    ),
)
ROUNDED = re.compile(r"  (%\S+) = call i32 @llvm\.nvvm\.f2tf32\.rna\(float (\S+)\)\n")
ROWS_READ = re.compile(
    r"  (%\S+) = call (\{ i32, i32, i32, i32 \}) "
    r"@llvm\.nvvm\.ldmatrix\.sync\.aligned\.m8n8\.x4(\.trans)?\.b16\.p3"
    r"\(ptr addrspace\(3\) (\S+)\)\n"
)
COPY = re.compile(
    r"  call void @llvm\.nvvm\.cp\.async\.cg\.shared\.global\.16\.s"
    r"\(ptr addrspace\(3\) (%\S+), ptr addrspace\(1\) (%\S+), i32 (%\S+)\)\n"
)
COMMIT = re.compile(r"  call void @llvm\.nvvm\.cp\.async\.commit\.group\(\)\n")
AWAIT = re.compile(r"  call void @llvm\.nvvm\.cp\.async\.wait\.group\(i32 (\d+)\)\n")
CAST = re.compile(r"addrspacecast ptr (\S+) to ptr addrspace\([13]\)")
SHORTENED = re.compile(
    r"  %\S+ = fptrunc <2 x float> (%\S+) to <2 x bfloat>\n"
    r"  (%\S+) = bitcast <2 x bfloat> %\S+ to i32\n"
)
NAME = re.compile(r"%[\w.]+")
PURE = re.compile(
    r"  (%\S+) = ((?:bitcast|zext|shl|or|load|call i32 @llvm\.nvvm\.f2tf32\.rna|"
    r"call \{ float, float, float, float \} @llvm\.nvvm\.mma).*)"
)
# What a thread leaves for, in the low byte; above it is how.
BARRIERS, EXCHANGES, PRODUCTS, COPIES, ROWS, GROUPED, AWAITED, MATCHES, WARPS = range(
    1, 10
)
AMONG_LANES = np.isin(  # of what is asked
    np.arange(256), (EXCHANGES, PRODUCTS, ROWS, MATCHES, WARPS)
)
UNITS = ("m16n8k16.row.col.f32.f32", "m16n8k16.row.col.bf16", "m16n8k8.row.col.tf32")
SHARE = 10  # words of a thread's part in a warp's product: 4 left, 2 right, 4 added
# What a thread knows: its parameters' addresses, its registers, and where it leaves to.
PARAMETERS, OWN, HOME, SWITCH, ASKED, WORD, ROOM, QUEUE, ENTRY, FIELDS = (
    5,
    *range(9, 18),
)
# ``WORD`` is where an exchanged word lies, or the words of a product; ``QUEUE`` where the
# copies are noted that a thread has asked for: how many, then of each where to, where from
# and how many bytes, or zeros where a group ends.
COPIED, QUEUED = 16, 512  # bytes of a copy; copies that a thread may have asked for
STACK, CONTEXT = 1 << 16, 8192
FRAME = 1024  # bytes of a stack that are in use where its thread begins
SAVE, JUMP = (
    CONTEXT - 16,
    CONTEXT - 8,
)  # of a context: where `_setjmp` and `_longjmp` lie
GUARD = 1 << 12  # bytes behind a block's shared memory that nobody writes
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


COPY_LINES = """\
  {i}.count = load i64, ptr %queue
  {i}.at = mul i64 {i}.count, 24
  {i}.slot = getelementptr i8, ptr %queue, i64 {i}.at
  {i}.to = getelementptr i8, ptr {i}.slot, i64 8
  {i}.from = getelementptr i8, ptr {i}.slot, i64 16
  {i}.size = getelementptr i8, ptr {i}.slot, i64 24
  store ptr {target}, ptr {i}.to
  store ptr {source}, ptr {i}.from
  {i}.wide = zext i32 {bytes} to i64
  store i64 {i}.wide, ptr {i}.size
  {i}.more = add i64 {i}.count, 1
  store i64 {i}.more, ptr %queue
"""
# Rounds two floats to bfloat16, which the host may have no instruction for.
SHORT_LINES = """\
  {i}.bits = bitcast <2 x float> {pair} to <2 x i32>
  {i}.low = lshr <2 x i32> {i}.bits, splat (i32 16)
  {i}.odd = and <2 x i32> {i}.low, splat (i32 1)
  {i}.half = add <2 x i32> {i}.odd, splat (i32 32767)
  {i}.up = add <2 x i32> {i}.bits, {i}.half
  {i}.high = lshr <2 x i32> {i}.up, splat (i32 16)
  {i}.nan = fcmp uno <2 x float> {pair}, zeroinitializer
  {i}.kept = select <2 x i1> {i}.nan, <2 x i32> splat (i32 32767), <2 x i32> {i}.high
  {i}.short = trunc <2 x i32> {i}.kept to <2 x i16>
  {i} = bitcast <2 x i16> {i}.short to i32
"""


# Adds to a bfloat16, as one thread after another does.
SHORT_SUM_LINES = """\
  {i}.old = load i16, ptr {place}
  {i}.more = bitcast bfloat {value} to i16
  {i}.old.wide = zext i16 {i}.old to i32
  {i}.more.wide = zext i16 {i}.more to i32
  {i}.old.high = shl i32 {i}.old.wide, 16
  {i}.more.high = shl i32 {i}.more.wide, 16
  {i}.left = bitcast i32 {i}.old.high to float
  {i}.right = bitcast i32 {i}.more.high to float
  {i}.sum = fadd float {i}.left, {i}.right
  {i}.pair0 = insertelement <2 x float> zeroinitializer, float {i}.sum, i32 0
{rounded}  {i}.kept.low = trunc i32 {i} to i16
  store i16 {i}.kept.low, ptr {place}
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
            kernel = code_cache.native_text(symbol, text)
            call = THREADS(kernel.address) if room is None else kernel
            self.functions[name] = call, room
        return self.functions[name]

    def __call__(self, found, grid, block, values, driver, asked=0):
        """Runs a launch; see `tests.cuda.driver`.

        Args:
            asked: bytes of shared memory that the launch asks for.
        """
        call, shared = self.function(found.name)
        words = f"{len(values[0]) // 8}Q"  # addresses, and what is too small for one
        values = [
            struct.pack(words, *map(driver.own, struct.unpack(words, values[0]))),
            *values[1:-1],
            struct.pack("Q", driver.own(*struct.unpack("Q", values[-1]))),
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
        team = Team(call.address, fiber, block[0], shared + asked)
        for number in blocks:
            team.run(number, self.draw)


LIBC = ctypes.PyDLL(None)
# Where it goes on is kept by `_setjmp`, which asks nothing of the system: its frame stays
# on the thread's own stack, until `_longjmp` comes back to it.
SWITCH_TEXT = f"""
define i32 @switch(ptr %own, ptr %other) nounwind {{
begin:
  %at.save = getelementptr i8, ptr %own, i64 {SAVE}
  %save = load ptr, ptr %at.save
  %again = call i32 %save(ptr %own) returns_twice
  %leaves = icmp eq i32 %again, 0
  br i1 %leaves, label %leave, label %back
leave:
  %at.jump = getelementptr i8, ptr %own, i64 {JUMP}
  %jump = load ptr, ptr %at.jump
  call void %jump(ptr %other, i32 1)
  unreachable
back:
  ret i32 0
}}
"""
# A thread's first step is to leave before its entry: from there it begins in each block.
BEGIN_TEXT = f"""
define void @begin(ptr %fiber) nounwind {{
  %at.own = getelementptr i64, ptr %fiber, i64 {OWN}
  %own = load ptr, ptr %at.own
  %at.home = getelementptr i64, ptr %fiber, i64 {HOME}
  %home = load ptr, ptr %at.home
  %at.switch = getelementptr i64, ptr %fiber, i64 {SWITCH}
  %switch = load ptr, ptr %at.switch
  call i32 %switch(ptr %own, ptr %home)
  %at.entry = getelementptr i64, ptr %fiber, i64 {ENTRY}
  %entry = load ptr, ptr %at.entry
  call void %entry(ptr %fiber)
  %at.jump = getelementptr i8, ptr %home, i64 {JUMP}
  %jump = load ptr, ptr %at.jump
  call void %jump(ptr %home, i32 1)
  unreachable
}}
"""
ENTER_TEXT = f"""
define void @enter(ptr %context, ptr %home, ptr %go) nounwind {{
begin:
  %at.save = getelementptr i8, ptr %home, i64 {SAVE}
  %save = load ptr, ptr %at.save
  %again = call i32 %save(ptr %home) returns_twice
  %leaves = icmp eq i32 %again, 0
  br i1 %leaves, label %leave, label %back
leave:
  call i32 %go(ptr %context)
  unreachable
back:
  ret void
}}
"""
# Lets threads go on, one after another, each until it leaves.
STEPS_TEXT = f"""
define void @steps(ptr %order, i64 %count, ptr %contexts, ptr %home, ptr %switch) {{
begin:
  br label %head
head:
  %i = phi i64 [0, %begin], [%next, %body]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %body, label %exit
body:
  %at = getelementptr i64, ptr %order, i64 %i
  %number = load i64, ptr %at
  %offset = mul i64 %number, {CONTEXT}
  %context = getelementptr i8, ptr %contexts, i64 %offset
  call i32 %switch(ptr %home, ptr %context)
  %next = add i64 %i, 1
  br label %head
exit:
  ret void
}}
"""
POINTER = ctypes.c_void_p
STEPS = ctypes.PYFUNCTYPE(None, POINTER, ctypes.c_long, POINTER, POINTER, POINTER)
ENTER = ctypes.PYFUNCTYPE(None, POINTER, POINTER, POINTER)
BEGIN = ctypes.PYFUNCTYPE(None)


def address_in_libc(name):
    """The address of a function of the C library."""
    return ctypes.cast(getattr(LIBC, name), POINTER).value


@functools.cache
def switches():
    """What starts threads and lets them go on, compiled for the host."""
    native = code_cache.native_text
    return SimpleNamespace(
        switch=native("switch", SWITCH_TEXT).address,
        begin=BEGIN(native("begin", BEGIN_TEXT).address),
        enter=ENTER(native("enter", ENTER_TEXT).address),
        steps=STEPS(native("steps", STEPS_TEXT).address),
    )


class Team:
    """The threads of a block, each on a stack of its own.

    Args:
        address: of the function of one thread.
        fiber: what all of them know.
        threads: how many there are.
        shared: the bytes that they share.
    """

    def __init__(self, address, fiber, threads, shared):
        self.threads, self.switches = threads, switches()
        self.all = np.arange(threads)
        self.fibers = np.tile(fiber, (threads, 1))
        self.stacks = np.empty((threads, STACK), np.uint8)
        self.raw = np.zeros((threads + 1, CONTEXT // 8), np.int64)
        self.asked = np.zeros(threads, np.int32)
        self.words = np.zeros((threads, groups.WORDS), np.int32)
        self.room = np.empty(shared + GUARD + groups.SPACE, np.uint8)
        start = -self.room.ctypes.data % groups.SPACE
        self.shared = self.room[start : start + shared]
        self.guard = self.room[start + shared : start + shared + GUARD]
        self.units = []
        self.queues = np.zeros((threads, 1 + 3 * QUEUED), np.int64)
        self.ends = np.zeros(
            threads, np.int64
        )  # of groups: copies that were made at once
        self.eager = False
        contexts = self.raw.ctypes.data + CONTEXT * np.arange(threads + 1)
        self.contexts, self.home = contexts[:-1].tolist(), int(contexts[-1])
        start = self.room.ctypes.data + start
        self.fibers[:, 5] = np.arange(threads)
        self.fibers[:, OWN] = contexts[:-1]
        self.fibers[:, HOME] = self.home
        self.fibers[:, SWITCH] = self.switches.switch
        self.fibers[:, ENTRY] = address
        self.fibers[:, ASKED] = self.asked.ctypes.data + 4 * np.arange(threads)
        self.fibers[:, WORD] = self.words.ctypes.data + 4 * groups.WORDS * np.arange(
            threads
        )
        self.fibers[:, ROOM] = start
        places = np.arange(threads) * self.queues.strides[0]
        self.fibers[:, QUEUE] = self.queues.ctypes.data + places
        self.make_contexts()
        self.first = self.raw[:-1].copy(), self.stacks[:, -FRAME:].copy()

    def make_contexts(self):
        """Brings every thread to where it begins, on a stack of its own."""
        self.raw[:, SAVE // 8] = address_in_libc("_setjmp")
        self.raw[:, JUMP // 8] = address_in_libc("_longjmp")
        go = address_in_libc("setcontext")
        for n, context in enumerate(self.contexts):
            place = POINTER(context)
            LIBC.getcontext(place)
            self.raw[n, 1] = self.home  # where it would go when it ends
            self.raw[n, 2] = self.stacks.ctypes.data + n * STACK
            self.raw[n, 4] = STACK
            fiber = POINTER(self.fibers.ctypes.data + n * self.fibers.strides[0])
            LIBC.makecontext(place, self.switches.begin, 1, fiber)
            self.switches.enter(context, self.home, go)

    def begin(self, number):
        """Puts every thread before its first step, in a block of some number."""
        self.shared.fill(POISON)
        self.guard.fill(POISON)
        self.fibers[:, 6] = number
        self.raw[:-1], self.stacks[:, -FRAME:] = self.first

    def run(self, number, draw):
        """Runs a block from its beginning to its end.

        One of its warps is slow: what the others do without waiting for it is seen. Copies
        that go on beside are made at once, or not before somebody waits for them.
        """
        self.begin(number)
        self.queues[:, 0] = self.ends[:] = 0
        self.eager = bool(draw.randrange(2))
        self.units = [
            groups.Units(self.shared, draw.randrange(2))
            for _ in range(self.threads // groups.GROUP)
        ]
        orders = np.random.default_rng(draw.randrange(1 << 30))
        ready, ended = self.all, 0
        slow, held = draw.randrange(-(-self.threads // WARP)), self.all[:0]
        while True:
            order = orders.permutation(ready)
            self.switches.steps(
                *(order.ctypes.data, order.size, self.contexts[0]),
                *(self.home, self.switches.switch),
            )
            ended += order.size - np.count_nonzero(self.asked[order])
            if ended == self.threads:
                assert (self.guard == POISON).all(), "written behind shared memory"
                return
            ready = np.concatenate([self.meet(), held])
            if not ready.size:
                self.refuse(number, ended)
            self.asked[ready] = 0
            is_slow = ready // WARP == slow
            ahead = ready[~is_slow]
            if ahead.size and draw.random() > 1 / 256:
                ready, held = ahead, ready[is_slow]
            else:
                held = self.all[:0]

    def meet(self):
        """Who may go on: a block at a barrier, a warp at an exchange or a product."""
        if self.eager:
            for n in np.flatnonzero(self.queues[:, 0] > self.ends).tolist():
                self.copy(n, None)
        if (self.asked == BARRIERS).all():
            return self.all
        kinds = self.asked & 255
        ready = []
        if (kinds == COPIES).any():
            ready = np.flatnonzero(kinds == COPIES).tolist()
            for n in ready:
                self.copy(n, int(self.asked[n]) >> 8)
        whole = self.threads // WARP
        warps = self.asked[: whole * WARP].reshape(-1, WARP)
        words = self.words[: whole * WARP].reshape(whole, WARP, -1)
        met = AMONG_LANES[kinds[: whole * WARP : WARP]] & (warps == warps[:, :1]).all(1)
        for asked in set(warps[met, 0].tolist()):
            alike = np.flatnonzero(met & (warps[:, 0] == asked))
            if asked & 255 == EXCHANGES:
                words[alike, :, 0] = words[alike[:, None], LANES ^ (asked >> 8), 0]
            if asked & 255 == MATCHES:
                words[alike, :, 0] = matched(words[alike, :, 0], asked >> 8)
            for warp in alike.tolist():
                if asked & 255 == ROWS:
                    words[warp, :, :4] = self.rows(words[warp], asked >> 8)
                if asked & 255 == PRODUCTS:
                    sums = multiplied(words[warp], asked >> 8)
                    words[warp, :, :4] = sums.view(np.int32)
                ready += range(warp * WARP, (warp + 1) * WARP)
        return np.array(ready + self.meet_groups(), np.int64)

    def meet_groups(self):
        """Who may go on of groups that have all come to ask their units, or to wait."""
        ready = []
        for number, units in enumerate(self.units):
            first = number * groups.GROUP
            asked = self.asked[first : first + groups.GROUP]
            what = int(asked[0])
            if what & 255 not in (GROUPED, AWAITED) or (asked != what).any():
                continue
            serve = units.begin if what & 255 == GROUPED else units.wait
            serve(self.words[first : first + groups.GROUP], what >> 8)
            ready += range(first, first + groups.GROUP)
        return ready

    def copy(self, n, pending):
        """Makes a thread's copies, but for the last groups; None: all, and keeps groups."""
        queue = self.queues[n]
        count = int(queue[0])
        entries = queue[1 : 1 + 3 * count].reshape(-1, 3).copy()
        ends = np.flatnonzero(entries[:, 0] == 0)
        if pending is None:
            stop, kept = count, entries[ends]
        else:
            last = len(ends) - pending
            stop = int(ends[last - 1]) + 1 if last > 0 else 0
            kept = entries[stop:]
        for target, source, size in entries[:stop].tolist():
            if target:
                ctypes.memset(target, 0, COPIED)
                ctypes.memmove(target, source, size)
        queue[0] = len(kept)
        queue[1 : 1 + 3 * len(kept)] = kept.ravel()
        self.ends[n] = len(kept)

    def rows(self, words, turned):
        """Each lane's words of four blocks, from where their rows begin."""
        places = np.ascontiguousarray(words[:, :2]).view(np.int64)
        assert not (places % COPIED).any(), "rows begin at multiples of 16 bytes"
        places = places - self.shared.ctypes.data
        halves = self.shared[places + np.arange(COPIED)].view(np.uint16)
        blocks = halves.reshape(4, 8, 8)
        if turned:
            blocks = blocks.transpose(0, 2, 1)
        return np.ascontiguousarray(blocks).view(np.int32).reshape(4, WARP).T

    def refuse(self, number, ended):
        """Raises what tells where threads wait that will wait for ever."""
        raise DivergenceError(
            f"threads of block {number} wait for others: {ended} of "
            f"{self.threads} have ended, {int((self.asked == 1).sum())} are at a "
            f"barrier, {int((self.asked > 1).sum())} exchange values or multiply"
        )


def matched(values, bits):
    """For each lane of some warps a word that tells which lanes have its value."""
    values = values & (np.int64(1) << bits) - 1
    alike = values[:, :, None] == values[:, None, :]
    return (alike << LANES.astype(np.int64)).sum(-1).astype(np.uint32).view(np.int32)


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
    added = np.ascontiguousarray(words[:, 6:SHARE]).view(np.float32)
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
            same = {} if line.startswith("define") else same
        elif line.startswith(("  store", "  call")):
            seen = {text: name for text, name in seen.items() if text[:4] != "load"}
        if same:
            line = NAME.sub(lambda m, same=same: same.get(m[0], m[0]), line)
        found = PURE.match(line)
        if found and seen.setdefault(found[2], found[1]) != found[1]:
            same[found[1]] = seen[found[2]]
        else:
            lines.append(line)
    return "\n".join(lines)


def copy_lines(number, target, source, size):
    """The lines of a thread that notes a copy; without a target, the end of a group.

    Args:
        number: of the copy in its text, which is the same for the same kernel: so what the
            host's compiler made of it is found again.
    """
    name = f"%copy{number}"
    return COPY_LINES.format(i=name, target=target, source=source, bytes=size)


def short_sum_lines(match):
    """The lines of a thread that adds to a bfloat16."""
    name, place, value = match.groups()
    rounded = SHORT_LINES.format(pair=f"{name}.pair0", i=name)
    return SHORT_SUM_LINES.format(i=name, place=place, value=value, rounded=rounded)


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
    text = SHORT_SUM.sub(short_sum_lines, text)
    joins = BARRIER, EXCHANGE, PRODUCT, MATCH, WARP_BARRIER
    waits = any(item.search(text) for item in joins)
    room = 0
    if waits:
        names = "own", "home", "switch", "asked", "word", "room", "queue"
        for n, name in enumerate(names):
            field(name, OWN + n)
        for name, size, kind in SHARED.findall(text):
            loads.append(f"  %shared{room} = getelementptr i8, ptr %room, i64 {room}")
            text = text.replace(
                f"addrspacecast (ptr addrspace(3) {name} to ptr)", f"%shared{room}"
            )
            bits = {"float": 32, "double": 64, "half": 16, "bfloat": 16}
            room += -(-int(size) * (bits.get(kind) or int(kind[1:])) // 8 // 64) * 64
        if groups.ROOM.search(text):
            loads.append(f"  %asked.room = getelementptr i8, ptr %room, i64 {room}")
            text = groups.ROOM_USED.sub("%asked.room", groups.ROOM.sub("", text))
        text = groups.ASSEMBLY.sub(
            lambda m: groups.lines_of(m, LEAVE, GROUPED, AWAITED), text
        )
        text = groups.SHOWN.sub("", text)
        text = text.replace("ptrtoint ptr addrspace(3)", "ptrtoint ptr")
        text = WARP_BARRIER.sub(LEAVE.format(what=WARPS), MATCH_BODY.sub("", text))
        text = MATCH.sub(
            lambda m: (
                f"  store i32 {m[3]}, ptr %word\n"
                + LEAVE.format(what=int(m[2]) << 8 | MATCHES)
                + f"  {m[1]} = load i32, ptr %word\n"
            ),
            text,
        )
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
        numbers = itertools.count()
        text = COPY.sub(lambda m: copy_lines(next(numbers), *m.groups()), text)
        text = COMMIT.sub(lambda m: copy_lines(next(numbers), "null", "null", 0), text)
        text = AWAIT.sub(lambda m: LEAVE.format(what=int(m[1]) << 8 | COPIES), text)
        text = ROWS_READ.sub(
            lambda m: (
                f"  store ptr {m[4]}, ptr %word\n"
                + LEAVE.format(what=bool(m[3]) << 8 | ROWS)
                + f"  {m[1]} = load {m[2]}, ptr %word\n"
            ),
            text,
        )
        text = CAST.sub(r"bitcast ptr \1 to ptr", text)
        text = SHORTENED.sub(lambda m: SHORT_LINES.format(pair=m[1], i=m[2]), text)
    head = HEAD.search(text)
    body = text[head.end() :].lstrip("\n").split("\n")
    assert body[0].endswith(":"), "an entry begins with a label"
    linkage = "" if waits else "internal "
    new = f"define {linkage}void @{head[1]}_thread(ptr %fiber) nounwind {{"
    text = "\n".join([text[: head.start()] + new, body[0], *loads, *body[1:]])
    for register in REGISTERS:
        read = f"call i32 @llvm.nvvm.read.ptx.sreg.{register}()"
        text = text.replace(read, f"add i32 %register.{register}, 0")
    text, powers = POWER.subn("call float @exp2_approx(", text)
    lines = text.split("\n")
    text = "\n".join(line for line in lines if "@llvm.nvvm" not in line)
    text += POWER_BODY if powers else ""
    return (text, room) if waits else (text + EACH.format(name=head[1]), None)
