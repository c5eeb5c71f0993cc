from cpython.object cimport PyObject
from libc.stdint cimport uint64_t
from rushlight.core.tensor cimport Tensor
from rushlight.graph.operator_traces cimport OperatorTrace
from rushlight.graph.tape cimport Call, Tape, Value
from rushlight.nn.modules._calling cimport Follower

cdef extern from "Python.h":
    ctypedef struct PyThreadState:
        void* c_profilefunc
        void* c_tracefunc
    PyThreadState* PyThreadState_Get() nogil
    PyObject* PyCell_GET(object cell)
    PyObject** _PyObject_GetDictPtr(object owner)
    ctypedef struct PyTypeObject:
        unsigned int tp_version_tag

cdef enum:
    TENSORS_MOST = 256              # of one segment

# What a tensor was: another one like it may stand in its place.
cdef class Known:
    cdef object kind
    cdef Value value
    cdef uint64_t keys
    cdef bint wants_grad
    cdef bint inference
    cdef bint is_view
    cdef bint is_leaf
    cdef bint is_bare               # it must have no attributes of a user's
    cdef public bint is_open        # it may have other sizes
    cdef int slot                   # -1: no operator reads it
    cdef bint fits(self, Tensor t) noexcept

# What a module was: its type, and for each attribute what is to be found there.
cdef class ModuleLook:
    cdef object kind
    cdef list names
    cdef list kinds
    cdef list values

# The calls that a module's call adds to a path, and what they follow from.
cdef class Segment:
    cdef readonly object module     # a weak reference
    cdef ModuleLook look
    cdef readonly list known
    cdef list arguments
    cdef list positions
    cdef list functions
    cdef list cells                 # variables of functions around users' code, and what they hold
    cdef list types
    cdef list tags
    cdef uint64_t excluded
    cdef bint inference
    cdef bint grad_mode
    cdef OperatorTrace operator_trace              # where gradients are recorded; else None
    cdef long long registered
    cdef list calls
    cdef list params
    cdef int first                  # number of the first storage that is new
    cdef list newcomers             # bytes and device of a fresh storage, or -1 and less: whose it is
    cdef list objects               # tensors to be made: a window, the number of its base or -1, how
    cdef object result
    cdef Call last
    cdef readonly long long times   # it was taken
    cdef bint holds(self, object module, tuple args, PyObject** found) except? -1
    cdef bint taken(self, Tape tape, PyObject** found) except? -1
    cdef bint take(self, Tape tape, PyObject** found) except? -1
    cdef object given(self, Tape tape, PyObject** found, tuple args)
    cdef object made(self, Tape tape, tuple args)

# Takes calls of modules: by a segment of the path, or as they come.
cdef class SegmentReplay(Follower):
    cdef object other_size(self, Tape tape, object module, tuple args)

cdef object names_met(object profiler, object looking)
cdef Segment segment_of(Tape tape, object module, object looking, ModuleLook look, list arguments, object names, object result, tuple args)
