from libc.stdint cimport uint64_t
from cpython.object cimport PyObject
from rushlight.dispatch.dispatcher cimport Operator
from rushlight.graph.tape cimport Notes

# The calls of operators of one module's call, to be made again.
cdef class OperatorTrace(Notes):
    cdef readonly list calls
    cdef bint stray                 # more than operators was met
    cdef list known
    cdef dict numbers
    cdef dict looks
    cdef list held
    cdef tuple thread
    cdef uint64_t sequence          # of the last node that an operator made
    cdef readonly object result     # what the module's call gives
    cdef bint unchanged(self) except -1
    cdef tuple source_of(self, object item)
    cdef look_again(self, object item)
    cdef let_go(self, set wanted)
    cdef list run(self, PyObject** found)
