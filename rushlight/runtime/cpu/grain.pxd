cdef enum:
    GRAIN = 32768                   # elements that one thread takes at least
