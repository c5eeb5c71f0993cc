from libc.stdint cimport uint64_t
from cpython.object cimport PyObject
from rushlight.autograd.node cimport Node
from rushlight.core.state cimport ThreadState
from rushlight.dispatch.dispatcher cimport Derivative, Operator, Recorder

cdef class GraphRecorder(Recorder):
    cdef Node new_node(self, Operator op, Derivative d, PyObject** slots, ThreadState* st)
    cdef object record_inplace(self, Operator op, PyObject** slots, uint64_t keys, uint64_t needs)
