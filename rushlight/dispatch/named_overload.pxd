from cpython.object cimport PyObject
from rushlight.dispatch.dispatcher cimport Operator

# The operator of the overload that PyTorch has for a call: the operator itself, or one
# that stands for it under another name.
cdef Operator shown_as(Operator op, PyObject** slots)
