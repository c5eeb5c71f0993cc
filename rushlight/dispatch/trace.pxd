from libc.stdint cimport int64_t

from rushlight.runtime.cpu.launch cimport kernel_t
from rushlight.core.device cimport Device, PlannedLaunch
from rushlight.core.dtype cimport DType
from rushlight.core.tensor cimport Tensor
from rushlight.dispatch.dispatcher cimport Operator

cdef enum:
    MOST = 64                       # tensors of a call and of its plan together

    # Where an operand of a launch lies, if not in a tensor
    NOTHING = -1                    # no pointer
    FLAG = -2                       # the thread's flag for bad indices
    NUMBER = -3                     # among the step's numbers
    FIXED = -4                      # at an address

    # What a step does
    ASK = 0                         # asks for memory
    LAUNCH = 1                      # launches a kernel
    CALL = 2                        # calls an operator
    FAULT = 3                       # looks at the flag for bad indices
    TRUTH = 4                       # looks at a truth value that was read

cdef class Place:
    cdef int base
    cdef bint whole                 # the tensor itself
    cdef int64_t shift              # bytes from the base's first element
    cdef int ndim
    cdef int64_t sizes[8]
    cdef int64_t strides[8]
    cdef DType dtype
    cdef bint viewed                # autograd knows it as a view
    cdef int deferred               # keys that it has and the base has not, or the other way

cdef class PlannedStep:
    cdef int kind
    # ask
    cdef int ndim
    cdef bint strided
    cdef int64_t sizes[8]
    cdef int64_t strides[8]
    cdef DType dtype
    cdef bytes content              # what the memory holds from the start, or None
    cdef Device device
    # launch
    cdef kernel_t fn
    cdef int n_data
    cdef int n_ints
    cdef int64_t total
    cdef int64_t grain
    cdef int bases[16]
    cdef int64_t shifts[16]
    cdef int64_t ints[48]
    cdef double numbers[24]
    cdef PlannedLaunch planned      # of another device's, instead of `fn`
    # call
    cdef Operator operator
    cdef list arguments
    cdef int results                # how many tensors it makes
    cdef bint below                 # below autograd
    # look
    cdef Place place
    cdef bint truth

cdef class LaunchPlan:
    cdef list steps
    cdef list results
    cdef bint single
    cdef bint writes                # into what the call was given
    cdef list constants             # kept for the steps
    cdef list changed               # which tensors of the call count how many more writes
    cdef int misses

cdef class Recorder:
    cdef list tensors               # those of the call, then those that are made
    cdef int given
    cdef list looks                 # sizes and strides of those that are made, when they are
    cdef list steps
    cdef set written
    cdef list versions              # of the tensors of the call, before it
    cdef list constants
    cdef Tensor flag
    cdef Device device              # of the tensors of the call
    cdef bint failed
    cdef bint writes
    cdef int64_t asked              # bytes
    cdef int64_t recorded              # launches that were written down, or happened inside of calls
    cdef int64_t launched           # launches before, and then those that happened
    cdef Recorder before
    cdef char* starts[64]           # where the memory of each begins
    cdef int64_t lengths[64]
    cdef int add(self, Tensor t) except -1
    cdef int base_of(self, Tensor t) except -2
    cdef int base_at(self, char* address) noexcept
    cdef int put_operand(self, PlannedStep step, int i, char* address) except -1
    cdef bint knows(self, char* address) except -1
    cdef Place place(self, Tensor t)

# How many threads are writing down a plan right now: nothing is asked while it is 0.
cdef int recording

cdef Recorder begin(list tensors)
cdef int end(Recorder notes) except -1
# The plan of what was noted; None where that is not all that happened.
cdef LaunchPlan finished(Recorder notes, object result)
cdef tuple look_of(Tensor t)

# What functions that run kernels tell the plan that is being written down, if any.
cdef int note_flag(Tensor flag) except -1
cdef int note_check() except -1

# One int64 of this thread that a kernel overwrites when it meets a bad index, and a look at it.
cdef Tensor the_flag()
cdef bint taken_down(Tensor flag, int64_t* fault) except -1
