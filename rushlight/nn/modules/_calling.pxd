# What calls of modules go through while a thread's operators are followed.
cdef class Follower:
    cdef object call(self, object module, dict fields, tuple args)

cdef set_follower(Follower follower)
