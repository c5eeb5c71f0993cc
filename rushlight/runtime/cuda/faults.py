"""What kernels refuse while they run: told when somebody waits for the device.

A kernel that meets an index that is none writes it to a word of its call's own and goes on
with a place that is one. The words lie in locked memory of the host's, which devices reach:
to look at them costs no copy, and nobody waits for an operator.
"""

import ctypes
import threading

from rushlight.core.device import Device
from rushlight.core.dtypes import int64
from rushlight.core.storage import wrap_address
from rushlight.core.tensor import Tensor
from rushlight.core.window import make_tensor
from rushlight.runtime.cpu.launch import NO_FAULT, count_launch

PORTABLE_AND_MAPPED = 3  # every device may use it, and reach it
PAGE = 512  # words that are locked at once
MOST_WAITING = 1024  # calls that nobody has waited for


class FaultWord:
    """A word of locked memory that one call's kernels write to.

    Attributes:
        flag: the word as a tensor of the device's.
    """

    __slots__ = ("content", "flag")

    def __init__(self, address, device):
        self.content = ctypes.c_int64.from_address(address)
        self.content.value = NO_FAULT
        storage = wrap_address(address, 8, None, device)
        self.flag = make_tensor(storage, (1,), (1,), 0, int64)

    def take(self):
        """What was noted, or None; forgotten after."""
        found = self.content.value
        if found == NO_FAULT:
            return None
        self.content.value = NO_FAULT
        return found


class TensorOutline:
    """What an error says of a tensor, without its memory."""

    __slots__ = ("device", "dtype", "shape")

    def __init__(self, tensor):
        self.dtype, self.shape, self.device = tensor.dtype, tensor.shape, tensor.device

    @property
    def ndim(self):
        """The number of dimensions."""
        return len(self.shape)

    def numel(self):
        """The number of elements."""
        return self.shape.numel()


class Refusal:
    """One call whose kernels may refuse something, and what to say then.

    Args:
        word: that they write to.
        operator: its name.
        make: from what was written and ``args`` to the exception.
        args: its others; of tensors the outlines are kept.
    """

    __slots__ = ("args", "make", "number", "operator", "queue", "word")

    def __init__(self, word, operator, make, args):
        self.word, self.operator, self.make = word, operator, make
        self.args = [TensorOutline(a) if isinstance(a, Tensor) else a for a in args]

    def error(self, found, where):
        """The exception for what was found, with the operator's name."""
        error = self.make(found, *self.args)
        return type(error)(
            f"{error}\n  operator: {self.operator}, {where}\n"
            "  remedy: with CUDA_LAUNCH_BLOCKING=1 each operator is waited for"
        )


class FaultBoard:
    """The words of a device, and the calls that were not waited for.

    Args:
        device: whose.
    """

    def __init__(self, ctx):
        self.ctx = ctx
        self.idle: list = []  # words that no call has
        self.taken: dict = {}  # others, by the identity of their flags
        self.waiting: list = []  # refusals in their order
        self.count = 0
        self.thread = threading.local()

    def lend(self):
        """A word for a call that begins."""
        with self.ctx.lock:
            if not self.idle:
                self.lock_page()
            word = self.idle.pop()
            self.taken[id(word.flag)] = word
        self.thread.last = word
        count_launch()  # who writes launches down cannot leave this out
        return word

    def reserve(self):
        """Has words for calls that are captured: no memory is locked then."""
        with self.ctx.lock:
            if len(self.idle) < PAGE // 2:
                self.lock_page()

    def lock_page(self):
        """Has more words."""
        start = int(self.ctx.call("cuMemHostAlloc", 8 * PAGE, PORTABLE_AND_MAPPED))
        device = Device("cuda", self.ctx.index)
        self.idle.extend(FaultWord(start + 8 * n, device) for n in range(PAGE))

    def word_of(self, flag):
        """The word of a flag; of None the one that this thread was lent last."""
        if flag is None:
            return self.thread.last
        return self.taken[id(flag)]

    def fault_flag(self):
        """A word for the kernels of a call, as a tensor."""
        return self.lend().flag

    def refuse(self, flag, operator, make, args):
        """Says what to raise if a flag is written to: when the queue is waited for."""
        queue = self.ctx.current_queue()
        refusal = Refusal(self.word_of(flag), operator, make, args)
        with self.ctx.lock:
            self.count += 1
            refusal.number, refusal.queue = self.count, queue
            self.waiting.append(refusal)
        many = len(self.waiting) >= MOST_WAITING and not self.ctx.allocator.writing
        if self.ctx.blocking or many:
            self.ctx.wait(queue)

    def found(self, flag):
        """What a flag says once this thread's queue is done, or None."""
        queue = self.ctx.current_queue()
        self.ctx.wait(queue)
        word = self.word_of(flag)
        found = word.take()
        self.give_back(word)
        return found

    def give_back(self, word):
        """Takes a word back that no work will write to."""
        with self.ctx.lock:
            self.taken.pop(id(word.flag), None)
            self.idle.append(word)

    def abandon(self, words):
        """Takes words back once the device was waited for, whatever is written there."""
        for word in words:
            with self.ctx.lock:
                self.count += 1
                refusal = Refusal(word, None, None, ())
                refusal.number, refusal.queue = self.count, None
                self.waiting.append(refusal)

    def peek(self):
        """The same without any work that is known to be done."""
        self.look(self, 0)

    def look(self, queue, last):
        """Raises what the first call refused whose faults nobody has been told of.

        Args:
            queue: that was waited for; None: all of them.
            last: the number of the last call that was.
        """
        if not self.waiting:
            return
        first, still = None, []
        with self.ctx.lock:
            for refusal in self.waiting:
                found = refusal.word.take()
                if found is not None and refusal.make is not None and first is None:
                    first = refusal, found
                if refusal.number <= last and queue in (None, refusal.queue):
                    self.give_back(refusal.word)
                else:
                    still.append(refusal)
            self.waiting = still
        if first is not None:
            refusal, found = first
            where = f"found when cuda:{self.ctx.index} was waited for"
            raise refusal.error(found, where)


class RecordedFaults:
    """The words of the calls of a graph: its launches write to them again and again.

    Args:
        board: of its device.
    """

    def __init__(self, board):
        self.board = board
        self.refusals: list = []
        self.words: list = []
        self.programs: dict = {}  # whose ``look`` raises what they refused

    def any(self):
        """Whether a launch may refuse something."""
        return bool(self.refusals or self.programs)

    def fault_flag(self):
        """A word for the kernels of a call that is captured, as a tensor."""
        with self.board.ctx.lock:
            if self.board.idle or not self.words:
                self.words.append(self.board.lend())
            else:  # no memory is locked during a capture
                self.board.thread.last = self.words[-1]
        return self.words[-1].flag

    def refuse(self, flag, operator, make, args):
        """Says what to raise if a flag is written to."""
        word = self.board.word_of(flag)
        self.refusals.append(Refusal(word, operator, make, args))

    def found(self, flag):
        """Nothing is known of work that is captured."""
        return None

    def look(self):
        """Raises what a launch refused since it was looked last."""
        first = None
        for refusal in self.refusals:
            found = refusal.word.take()
            if found is not None and first is None:
                first = refusal, found
        if first is not None:
            refusal, found = first
            raise refusal.error(found, "in a CUDA graph that was launched before")
        for program in self.programs:
            program.look()

    def let_go(self):
        """Gives the words back once the device is done with what was launched."""
        words, self.words, self.refusals = self.words, [], []
        self.board.abandon(words)
