from cpython.object cimport PyObject
from rushlight.dispatch.dispatcher cimport Operator
from rushlight.graph.tape cimport Call, Tape

cdef Call PASSES  # in place of a path: the call runs as it comes

# A path for the size that a call has, where a family leads from here; else None.
cdef Call open_branch(Tape tape, Operator op, PyObject** slots, int switches)
