from libc.stdint cimport int64_t, uint32_t
from rushlight.core.device cimport Device

cdef class Storage:
    cdef char* data                 # NULL for meta storages and for zero bytes
    cdef readonly size_t nbytes
    cdef size_t capacity            # bytes reserved in the pool; 0 where `owner` holds the memory
    cdef public uint32_t version    # the counter shared by base, views and detach()ed aliases
    cdef readonly Device device
    cdef object owner               # keeps foreign memory alive (NumPy, DLPack, mmap)
    cdef bint resizable
    cdef object __weakref__

# The fast path of every allocation: contents undefined, 64-byte aligned.
cdef Storage allocate(size_t nbytes, Device device)
# Foreign memory, kept alive by `owner`.
cdef Storage wrap(char* data, size_t nbytes, object owner, Device device)
