from libc.stdint cimport int64_t, uint32_t, uint64_t
from rushlight.random.generator cimport Generator

cdef enum:
    BLOCK = 512                     # numbers made at a time
    WORDS = 1024                    # the words of a block that takes two for each
    PAIRS = 256

# Length of the block that begins at `start`.
cdef inline int left_of(int64_t count, int64_t start) noexcept:
    return <int> min(count - start, <int64_t> BLOCK)

# Writes doubles as elements of a dtype, the way a C cast does.
cdef int store(int code, char* out, int64_t start, const double* values, int count) except -1
cdef int store_integers(int code, char* out, int64_t start, const int64_t* values, int count) except -1
# Uniform numbers in [0, 1) with 53 random bits, from two words each; or 24 bits from one.
cdef void uniform_doubles(Generator generator, double* out, int count) noexcept
cdef void uniform_floats(Generator generator, float* out, int count) noexcept
# Writes floats as float16 or bfloat16.
cdef void store_floats(int code, char* out, int64_t start, const float* values, int count) noexcept
# Floating elements as doubles.
cdef int load(int code, char* source, int64_t start, double* out, int count) except -1
