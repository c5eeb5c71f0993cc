from rushlight.dispatch.dispatcher cimport Operator

# All overloads of one name: what users call, as a function and as a method.
cdef class OperatorPacket:
    cdef void* vectorcall
    cdef readonly str name
    cdef readonly list overloads
    cdef Operator first
    cdef readonly bint method       # what tensors call: types and modes are told so
    cdef bint strict                # a function: `permute(x, 0, 1)` and `self=` are refused
    cdef OperatorPacket function    # what `as_function` made

# What tensors call: looked up on an instance, it is bound to it.
cdef class MethodPacket(OperatorPacket):
    pass
