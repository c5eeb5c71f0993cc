from rushlight.graph.tape cimport Tape

# This thread's tape, or None.
cdef Tape current()
