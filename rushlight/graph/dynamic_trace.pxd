from cpython.object cimport PyObject
from rushlight.core.tensor cimport Tensor

cpdef enum:
    ARGUMENTS_MOST = 40

cpdef enum:
    # what a step is
    INPUT = 0                       # an integer among the arguments
    SIZES = 1                       # the sizes of a tensor
    COMPUTE = 2                     # an integer of others
    GUARD = 3                       # an answer about integers that has to be the same
    FACT = 4                        # one about a tensor
    CALL = 5                        # a function of tensors

cpdef enum:
    # where something comes from
    PLAIN = 0                       # it is the very object, which cannot change
    KNOWN = 1                       # a tensor that the module's call is given, by number
    MADE = 2                        # one that an earlier step gave
    REGISTER = 3                    # an integer
    SEQUENCE = 4                    # a list or tuple of these
    SLICE = 5
    TABLE = 6                       # a dictionary

# One step of a call that is made again.
cdef class TraceStep:
    cdef int kind
    cdef Py_ssize_t at              # its register, or the first of them
    cdef int of                     # where the tensor comes from whose sizes are read
    cdef Py_ssize_t number          # and its number
    cdef Py_ssize_t count           # of the tensor's dimensions
    cdef object function
    cdef tuple sources              # of each argument: kind and what it needs
    cdef tuple names                # of the last arguments, which go by name
    cdef Py_ssize_t n_named
    cdef Py_ssize_t n_args
    cdef unsigned char kinds[40]    # the sources once more, for calls
    cdef Py_ssize_t positions[40]
    cdef list values
    cdef object answer
    cdef object shape               # type of the result
    cdef bint lone                  # which is a tensor alone
    cdef list outputs               # for each result the tensor that it has to be
    cdef list dropped               # numbers of results that nobody reads from here on
    cdef object call(self, list registers, list made, PyObject** found)
    cdef bint keeps(self, object result, list made, PyObject** found) except? -1
    cdef bint is_new(self, object one, list made, PyObject** found) except? -1
    cdef object read(self, Tensor tensor, list registers)
    cdef bint computes(self, list registers) except? -1

# What Python does in a module's call, for all sizes that its guards let pass.
cdef class DynamicTrace:
    cdef readonly object recording
    cdef list head
    cdef list body
    cdef tuple result
    cdef Py_ssize_t n_registers
    cdef Py_ssize_t exact           # how many of the known tensors are the module's
    cdef bint draws                 # random numbers
    cdef readonly long long times   # it was taken
    cdef readonly int misses          # calls whose guards failed behind the first
    cdef list begun(self, PyObject** found, int n, tuple args)
    cdef object run(self, PyObject** found, int n, tuple args)
    cdef list calls_of(self, list registers, PyObject** found)
