from rushlight.graph.tape cimport Tape
from rushlight.graph.module_replay cimport SegmentReplay

# What is known of the calls of a module with arguments that differ by sizes.
cdef class DynamicReplay:
    cdef readonly list live         # pairs of guards and a trace that serve any size
    cdef list recordings            # of calls with their sizes as they were
    cdef object pending             # such a pair that is not confirmed yet
    cdef int tries
    cdef object module              # a weak reference

