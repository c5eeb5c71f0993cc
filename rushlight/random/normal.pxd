from rushlight.random.generator cimport Generator

# One standard normal number; the second of each pair is kept for the next call.
cdef double next_normal(Generator source) noexcept
