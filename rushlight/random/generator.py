"""The generator of random numbers: MT19937, bit for bit PyTorch's CPU stream.

Every device draws from it, so one seed gives the same weights, masks and shuffles
everywhere. `distributions` turns its words into numbers.
"""

import contextlib
import os
import struct
from numbers import Integral
from weakref import WeakSet

import cython
from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize
from cython.cimports.libc.stdint import int64_t, uint32_t, uint64_t
from cython.cimports.libc.string import memcpy
from cython.cimports.rushlight.core.device import CPU_DEVICE, N_KINDS, as_device
from cython.cimports.rushlight.core.dtype import CODE_UINT8, DType, dtype_of
from cython.cimports.rushlight.core.keys import RECORDING
from cython.cimports.rushlight.core.state import notify_readers
from cython.cimports.rushlight.core.state import state as thread_state
from cython.cimports.rushlight.core.tensor import Tensor, new_empty

from rushlight.core import naming
from rushlight.core.device import refuse_written

DEFAULT_SEED = 67280421310721
STATE_BYTES = 5056
# PyTorch's layout: seed, left, seeded, next, 624 words of 8 bytes, three doubles of
# which the second is the kept normal, whether there is one; the same for floats.
LAYOUT = struct.Struct("<QiiQ624Qdddi4xf?3x")
UPPER = cython.declare(uint32_t, 0x80000000)
LOWER = cython.declare(uint32_t, 0x7FFFFFFF)
MATRIX = cython.declare(uint32_t, 0x9908B0DF)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def mixed(high: uint32_t, low: uint32_t, far: uint32_t) -> uint32_t:
    """The recurrence of MT19937: one new word from three old ones."""
    word: uint32_t = (high & UPPER) | (low & LOWER)
    odd: uint32_t = low & 1
    return far ^ (word >> 1) ^ ((0 - odd) & MATRIX)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def twist(s: cython.pointer(uint32_t)) -> cython.void:
    """Replaces all 624 words."""
    i: cython.int
    for i in range(227):
        s[i] = mixed(s[i], s[i + 1], s[i + 397])
    for i in range(227, 623):
        s[i] = mixed(s[i], s[i + 1], s[i - 227])
    s[623] = mixed(s[623], s[0], s[396])


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def temper(
    source: cython.pointer(uint32_t), out: cython.pointer(uint32_t), count: cython.int
) -> cython.void:
    """Tempers ``count`` words of the state."""
    i: cython.int
    for i in range(count):
        out[i] = tempered(source[i])


@cython.cclass
class Generator:
    """A stream of random numbers that a seed determines.

    Args:
        device: the device that it is for; the numbers are the same on all.

    >>> generator = Generator().manual_seed(0)
    >>> generator.initial_seed()
    0
    """

    def __init__(self, device=None):
        self.device = CPU_DEVICE if device is None else as_device(device)
        if self.device.kind >= N_KINDS:
            absent = f"{self.device.type.upper()} backend."
            raise RuntimeError(f"Cannot execute getNewGenerator() without {absent}")
        if not self.device.has_memory:
            raise RuntimeError(
                f"{self.device.type.upper()} device type not an accelerator."
            )
        self.seed_with(DEFAULT_SEED)

    @cython.cfunc
    @cython.exceptval(check=False)
    def seed_with(self, seed: uint64_t) -> cython.void:
        i: cython.int
        word: uint32_t = cython.cast(uint32_t, seed)
        self.first_seed = seed
        self.offset = 0
        self.state[0] = word
        for i in range(1, 624):
            word = cython.cast(uint32_t, 1812433253) * (word ^ (word >> 30)) + i
            self.state[i] = word
        self.left = 1
        self.next = 0
        self.seeded = True
        self.has_double = False
        self.has_float = False

    @cython.cfunc
    @cython.exceptval(check=False)
    def draw(self, out: cython.pointer(uint32_t), count: int64_t) -> cython.void:
        """The next ``count`` words of the stream."""
        size: cython.int
        while count > 0:
            if self.left == 1:
                twist(self.state)
                self.left = 625
                self.next = 0
            size = self.left - 1
            if size > count:
                size = cython.cast(cython.int, count)
            temper(self.state + self.next, out, size)
            self.next += size
            self.left -= size
            out += size
            count -= size

    @cython.cfunc
    @cython.exceptval(check=False)
    def draw32(self) -> uint32_t:
        word: uint32_t
        self.draw(cython.address(word), 1)
        return word

    @cython.cfunc
    @cython.exceptval(check=False)
    def draw64(self) -> uint64_t:
        words: uint32_t[2]
        self.draw(words, 2)
        return (cython.cast(uint64_t, words[0]) << 32) | words[1]

    def manual_seed(self, seed):
        """Starts the stream that belongs to ``seed``; returns the generator.

        Raises:
            RuntimeError: the seed is no integer.
            ValueError: the seed does not fit in 64 bits.
        """
        if isinstance(seed, bool) or not isinstance(seed, Integral):
            raise RuntimeError(
                "manual_seed expected a long, but got " + type(seed).__name__
            )
        # whoever waits draws from the stream as it is
        if thread_state().included & RECORDING:
            notify_readers()
        self.seed_with(wrapped_seed(seed))
        return self

    def seed(self) -> int:
        """Starts from a number that the system makes up; returns it."""
        seed = int.from_bytes(os.urandom(8), "little") & ((1 << 53) - 1)
        if thread_state().included & RECORDING:
            notify_readers()
        self.seed_with(seed)
        return seed

    def initial_seed(self) -> int:
        """The seed that this stream started from."""
        return self.first_seed

    def state_bytes(self) -> bytes:
        """The whole state, in PyTorch's layout."""
        if thread_state().included & RECORDING:
            notify_readers()
        words: list = [self.state[i] for i in range(624)]
        return LAYOUT.pack(
            self.first_seed,
            self.left,
            self.seeded,
            self.next,
            *words,
            0.0,
            self.next_double if self.has_double else 0.0,
            0.0,
            self.has_double,
            self.next_float if self.has_float else 0.0,
            self.has_float,
        )

    def set_state_bytes(self, data) -> None:
        """Takes up a state that `state_bytes` gave, or PyTorch's CPU generator.

        Raises:
            RuntimeError: the bytes are no such state.
        """
        if thread_state().included & RECORDING:
            notify_readers()
        if len(data) != STATE_BYTES:
            raise RuntimeError(
                "Expected either a CPUGeneratorImplStateLegacy of size 5048 or a "
                f"CPUGeneratorImplState of size {STATE_BYTES} but found the input RNG "
                f"state size to be {len(data)}"
            )
        fields = LAYOUT.unpack(data)
        seed, left, seeded, position = fields[:4]
        if not 1 <= left <= 624 or position > 624 or not seeded:
            raise RuntimeError(
                "Invalid mt19937 state\n"
                f"  left {left}, next {position}, seeded {seeded}"
            )
        self.first_seed, self.left, self.seeded, self.next = seed, left, True, position
        for i in range(624):
            self.state[i] = fields[4 + i] & 0xFFFFFFFF
        self.next_double, self.has_double = fields[629], fields[631]
        self.next_float, self.has_float = fields[632], fields[633]

    def get_offset(self):
        """How far the stream of a GPU was read.

        Raises:
            RuntimeError: it is a CPU's, where no number says so.
        """
        if self.device.on_host:
            raise RuntimeError("CPU Generator does not use offset")
        return self.offset

    def set_offset(self, offset):
        """Goes to a place in the stream of a GPU, a multiple of 4.

        Raises:
            RuntimeError: it is a CPU's, or the place is none.
        """
        if self.device.on_host:
            raise RuntimeError("CPU Generator does not use offset")
        if offset % 4 or offset < 0:
            raise RuntimeError(
                f"offset must be a multiple of 4, and not below 0: {offset}"
            )
        self.offset = offset

    def take(self, steps):
        """The seed, and the place for threads that each read some words of 32 bits.

        Raises:
            RuntimeError: the launch is written down, and would draw the same each time.
        """
        refuse_written(self.device)
        place = self.offset
        self.offset += -(-steps // 4) * 4
        return self.first_seed, place

    def graphsafe_get_state(self):
        """A state that recorded GPU work shares: there is none on a CPU.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            "graphsafe_get_state is not supported in this Generator"
        )

    def graphsafe_set_state(self, state):
        """Would take over a state that recorded GPU work shares.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            "graphsafe_set_state is not supported in this Generator"
        )

    def get_state(self):
        """The whole state as a ByteTensor, in PyTorch's layout."""
        size: int64_t = STATE_BYTES
        kind: DType = dtype_of(0)
        state: Tensor = new_empty(
            1, cython.address(size), cython.NULL, kind, CPU_DEVICE
        )
        data: bytes = self.state_bytes()
        source: cython.p_char = data
        memcpy(state.pointer(), source, STATE_BYTES)
        return state

    def set_state(self, new_state):
        """Takes up a state that `get_state` gave, or PyTorch's CPU generator.

        Raises:
            TypeError: it isn't a ByteTensor.
            RuntimeError: its bytes are no such state.
        """
        if not isinstance(new_state, Tensor):
            raise TypeError(
                f"expected a {naming.package}.ByteTensor, but got {type(new_state).__name__}"
            )
        state: Tensor = new_state
        if state.dtype_.code != CODE_UINT8 or not state.storage.device.on_host:
            raise TypeError(
                f"RNG state must be a {naming.package}.ByteTensor on the cpu, but got "
                f"{state.dtype_} on {state.storage.device}"
            )
        if not state.is_contiguous():
            raise RuntimeError("RNG state must be contiguous")
        self.set_state_bytes(PyBytes_FromStringAndSize(state.pointer(), state.numel_))
        return self

    def clone_state(self):
        """A generator of its own in the same state."""
        copy: Generator = Generator(self.device)
        copy.set_state_bytes(self.state_bytes())
        return copy

    def __reduce__(self):
        return (restore, (str(self.device), self.state_bytes()))

    def __repr__(self):
        return f"<{naming.package}.Generator on {self.device}, seed {self.first_seed}>"


def restore(device, data):
    """A generator in a pickled state."""
    generator = Generator(device)
    generator.set_state_bytes(data)
    return generator


@cython.cfunc
@cython.exceptval(check=True)
def wrapped_seed(seed) -> uint64_t:
    number = int(seed)
    if not -(1 << 63) <= number < 1 << 64:
        raise ValueError(
            "Overflow when unpacking long long\n"
            f"  seed {number} is outside [-2**63, 2**64)"
        )
    return number & 0xFFFFFFFFFFFFFFFF


default_generator = Generator()
default_generator.seed()  # unlike one that the user makes, as in PyTorch
shared = cython.declare(Generator, default_generator)


@cython.cfunc
def generator_or_default(generator) -> Generator:
    """The generator to draw from."""
    if generator is None:
        return shared
    if not isinstance(generator, Generator):
        raise TypeError(
            f"expected a {naming.package}.Generator, got {type(generator).__name__}"
        )
    return generator


_followers = WeakSet()  # generators of devices
_last_seed = None  # that a program has chosen for all


def follow(generator):
    """Has a device's generator be seeded with the default one; returns it.

    What was last chosen for all is its seed, too: a device may be first used later.
    """
    _followers.add(generator)
    if _last_seed is not None:
        generator.manual_seed(_last_seed)
    return generator


def seed_followers() -> None:
    """Seeds the generators of all devices as the default one is."""
    global _last_seed
    _last_seed = shared.initial_seed()
    for generator in list(_followers):
        generator.manual_seed(_last_seed)


def manual_seed(seed) -> Generator:
    """Seeds the default generator, and those of all devices: what every draw without a
    generator depends on.

    Args:
        seed: an integer of 64 bits.

    Returns:
        The generator.

    >>> import rushlight as rl
    >>> _ = rl.manual_seed(0)
    >>> rl.rand(1)
    tensor([0.4963])
    """
    shared.manual_seed(int(seed))
    seed_followers()
    return shared


def seed() -> int:
    """Seeds the generators of all devices from the system's entropy; returns the seed."""
    chosen = shared.seed()
    seed_followers()
    return chosen


def initial_seed() -> int:
    """The seed of the default generator."""
    return shared.initial_seed()


def get_rng_state():
    """The default generator's state as a ByteTensor."""
    return shared.get_state()


def set_rng_state(new_state) -> None:
    """Sets the default generator's state.

    Args:
        new_state: what ``get_rng_state`` gave.

    >>> import rushlight as rl
    >>> state = rl.get_rng_state()
    >>> first = rl.rand(1)
    >>> rl.set_rng_state(state)
    >>> bool(rl.rand(1) == first)
    True
    """
    shared.set_state(new_state)


def index_of(device) -> int:
    """The number of an accelerator that is named by it, by a text or by a device."""
    return device if isinstance(device, int) else max(as_device(device).index or 0, 0)


@contextlib.contextmanager
def fork_rng(
    devices=None,
    enabled=True,
    _caller="fork_rng",
    _devices_kw="devices",
    device_type=None,
):
    """Restores the states of the default generator and of devices' at the end of the block.

    Args:
        devices: accelerators whose generators are restored, or their numbers; by default
            all that are in use.
        enabled: whether anything is restored.
        device_type: of the devices that numbers name.

    >>> import rushlight as rl
    >>> _ = rl.manual_seed(0)
    >>> with rl.random.fork_rng():
    ...     _ = rl.rand(3)
    >>> rl.rand(1)
    tensor([0.4963])
    """
    if not enabled:
        yield
        return
    global _last_seed
    numbers = None if devices is None else set(map(index_of, devices))
    state, last_seed = shared.state_bytes(), _last_seed
    before = [(one, one.state()) for one in _followers]
    try:
        yield
    finally:
        shared.set_state_bytes(state)
        _last_seed = last_seed
        for generator, kept in before:
            if numbers is None or generator.index in numbers:
                generator.restore(kept)
