# What calls of modules go through while a thread's operators are followed.
cdef class Follower:
    cdef object call(self, object module, dict fields, tuple args)

cdef set_follower(Follower follower)

# Whether anything is called beside a module's ``forward``, or instead of it.
cdef bint is_watched(object module, dict fields) except? -1
