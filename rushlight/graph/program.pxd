from libc.stdint cimport int64_t, uint32_t, uintptr_t
from rushlight.runtime.cpu.launch cimport kernel_t
from rushlight.core.storage cimport Storage
from rushlight.graph.tape cimport Call, Tape

cdef enum:
    OPERANDS = 24
    # what a step does
    RUN = 0                         # one call of the path
    LAUNCH = 1                      # one kernel
    CHECK = 2                       # looks at the thread's flag for bad indices
    FILL = 3                        # puts a table's bytes into memory
    LOOK = 4                        # looks at a truth value that a call's trace hung on
    # how a kernel goes over its elements
    FLAT = 0                        # one run of elements
    STRIDED = 1                     # two loops inside, the others here
    RAW = 2                         # as the integers say
    # where an operand is, if not in a place of the program
    CONSTANT_OPERAND = -1           # a tensor that the step keeps
    NUMBER_OPERAND = -2             # a parameter, put among the step's numbers
    OWN_OPERAND = -3                # among the step's numbers
    FIXED_OPERAND = -4              # at an address
    FLAG_OPERAND = -5               # the thread's flag for bad indices
    NO_OPERAND = -6

cdef class Instruction:
    cdef readonly int kind
    cdef readonly Call call
    cdef readonly object kernel     # what keeps the machine code
    cdef readonly object device_launch      # a launch on another device (`elsewhere.Launch`); or None
    cdef kernel_t fn
    cdef int mode
    cdef int n
    cdef int bases[24]              # places of the program, or one of those above
    cdef int64_t shifts[24]         # bytes; of a number its index among the parameters
    cdef list constants
    cdef int codes[24]              # the type that a parameter is passed in
    cdef double numbers[48]         # 16 bytes for each parameter
    cdef int64_t ints[96]
    cdef int n_ints
    cdef int64_t total
    cdef int64_t grain
    cdef int outer                  # loops outside of the kernel's own
    cdef int64_t sizes[8]
    cdef int64_t strides[24][8]
    cdef public int rank            # of a nest: loops along a row
    cdef public bint along          # of a nest: rows are worked on one by one
    cdef bytes content              # of a table
    cdef bint truth
    cdef public int steps_after          # steps of the same call that come after it
    cdef public list parts          # of a call: the steps that it was heard to be, once
    cdef public bint tried          # whether it was listened to
    cdef readonly list asked        # places that get memory before
    cdef readonly list taken        # pairs of places: the first gets the memory of the second
    cdef readonly list freed        # places that nobody wants any more afterwards
    cdef public object details       # for those who read programs
    cdef readonly int64_t spent     # nanoseconds, where the program is timed
    # the same lists as integers, and the storages that a call touches
    cdef int* moves
    cdef int n_asked
    cdef int n_taken
    cdef int n_freed
    cdef int n_touched
    cdef int launch_on_device(self, Tape tape, char** data) except -1
    cdef int launch(self, Tape tape, char** data) except -1
    cdef int settle(self, list touched) except -1

cdef struct Spot:
    size_t n_bytes
    size_t capacity                 # of a block that the program holds itself
    int kind                        # see `Program`

# What a storage was when something was made of it.
cdef class Look:
    cdef object of                  # a weak reference
    cdef uint32_t writes
    cdef uintptr_t data
    cdef bint fits(self, Storage storage) noexcept

# What follows from parameters alone.
cdef class Prepared:
    cdef readonly list slots
    cdef object make
    cdef object known               # the first storage -> looks of all, and what was made
    cdef list seen                  # looks of those that were asked for last
    cdef Storage made
    cdef Storage storage(self, Tape tape)
    cdef Storage remade(self, Tape tape)
