"""The random numbers of a device: a seed, and how far its stream was read.

Philox (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) computes the
numbers of a place in the stream from the place alone. So a generator is two integers:
each launch takes the places from its offset on and moves it, and its threads find their
own. This is the stream of PyTorch on CUDA: 4 numbers of 32 bits for each step, each
thread a stream of its own.
"""

import secrets
import struct
import threading

from rushlight.core.device import Device, refuse_written

DEFAULT_SEED = 67280421310721
STATE = struct.Struct("<Qq")  # seed, offset


class PhiloxGenerator:
    """A stream for the kernels of one device.

    Args:
        index: the device's number.
    """

    def __init__(self, index):
        self.index = index
        self.lock = threading.Lock()
        self.seed_value = DEFAULT_SEED
        self.offset = 0

    def manual_seed(self, seed):
        """Begins the stream of a seed.

        Raises:
            RuntimeError: it does not fit 64 bits.
        """
        seed = int(seed)
        if not -(1 << 63) <= seed < 1 << 64:
            raise RuntimeError(f"Overflow when unpacking long long: the seed {seed}")
        with self.lock:
            self.seed_value = seed % (1 << 64)
            self.offset = 0
        return self

    def seed(self):
        """Begins the stream of a seed that nobody chose; the seed."""
        self.manual_seed(secrets.randbits(64))
        return self.seed_value

    def initial_seed(self):
        """The seed."""
        return self.seed_value

    def get_offset(self):
        """How far the stream was read."""
        return self.offset

    def set_offset(self, offset):
        """Goes to a place of the stream, a multiple of 4."""
        if offset % 4 or offset < 0:
            raise RuntimeError(
                f"offset must be a multiple of 4, and not below 0: {offset}"
            )
        self.offset = int(offset)

    def take(self, steps):
        """The seed and the place for a launch whose threads each read some numbers.

        Args:
            steps: how many numbers of 32 bits a thread reads at most.

        Raises:
            RuntimeError: the launch is written down, and would draw the same each time.
        """
        refuse_written(Device("cuda", self.index))
        with self.lock:
            place = self.offset
            self.offset += -(-steps // 4) * 4
        return self.seed_value, place

    def state(self):
        """Seed and offset, as 16 bytes."""
        return STATE.pack(self.seed_value, self.offset)

    def restore(self, data):
        """Goes back to a state.

        Raises:
            RuntimeError: it has another number of bytes, or an odd offset.
        """
        if len(data) not in (8, STATE.size):
            raise RuntimeError("RNG state is wrong size")
        if len(data) == 8:
            self.seed_value, self.offset = struct.unpack("<Q", data)[0], 0
            return
        seed, offset = STATE.unpack(data)
        self.set_offset(offset)
        self.seed_value = seed
