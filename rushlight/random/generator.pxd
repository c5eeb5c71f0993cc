from libc.stdint cimport int64_t, uint32_t, uint64_t
from rushlight.core.device cimport Device

# A word of the state as it leaves the generator.
cdef inline uint32_t tempered(uint32_t y) noexcept nogil:
    y = y ^ (y >> 11)
    y = y ^ ((y << 7) & <uint32_t>0x9D2C5680)
    y = y ^ ((y << 15) & <uint32_t>0xEFC60000)
    return y ^ (y >> 18)

# Replaces all 624 words of a state.
cdef void twist(uint32_t* s) noexcept nogil

# Those 624, `left` and `next` lie side by side: see runtime/cpu/random_bits.py.
cdef class Generator:
    cdef uint32_t state[624]        # MT19937's
    cdef int left                   # words still unread, plus one (as PyTorch counts)
    cdef uint32_t next              # the first of them
    cdef uint64_t first_seed
    cdef bint seeded
    # The second of a pair of normal numbers, kept for the next scalar draw.
    cdef bint has_double
    cdef double next_double
    cdef bint has_float
    cdef float next_float
    cdef readonly Device device
    cdef uint64_t offset            # how far the stream of a device other than the host was read
    cdef void seed_with(self, uint64_t seed) noexcept
    # Tempered words; the only way that numbers leave the generator.
    cdef void draw(self, uint32_t* out, int64_t count) noexcept
    cdef uint32_t draw32(self) noexcept
    cdef uint64_t draw64(self) noexcept

# `None` means the default generator; anything but a Generator is refused.
cdef Generator generator_or_default(object generator)
