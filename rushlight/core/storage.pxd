from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint32_t
from rushlight.core.device cimport Device

# Counts in-place changes where a storage's own number does not do: `.data` starts a count
# of its own, and a tensor keeps its count when it is given other data.
cdef class VersionCounter:
    cdef int64_t value

cdef class Storage:
    cdef char* data                 # NULL for meta storages and for zero bytes
    cdef size_t n_bytes             # Python sees the method nbytes(), as PyTorch has it
    cdef size_t capacity            # bytes reserved in the pool; 0 where `owner` holds the memory
    cdef public uint32_t version    # the counter shared by base, views and detach()ed aliases
    # How often its bytes may have changed, whoever's count that is: by operators under any
    # alias, by those that were given the address or look at the bytes.
    cdef readonly uint32_t writes
    cdef VersionCounter counter     # what they share instead, from the first `x.data = y` on
    cdef readonly Device device
    cdef object owner               # keeps foreign memory alive (NumPy, DLPack, mmap)
    cdef bint can_resize
    cdef int lent                   # how many others look at the bytes: no resizing
    cdef object __weakref__

# The counter of all that look at a storage, from now on apart from its number.
cdef VersionCounter shared_counter(Storage storage)
# The fast path of every allocation: contents undefined, 64-byte aligned.
cdef Storage allocate(size_t n_bytes, Device device)
# Gives back the memory of a storage that one tensor holds, which is let go; False where there
# is more to the storage than its bytes.
cdef bint emptied(PyObject* storage) noexcept
# A block for a storage that was emptied.
cdef int fill_again(Storage storage, size_t n_bytes) except -1
# Foreign memory, kept alive by `owner`.
cdef Storage wrap(char* data, size_t n_bytes, object owner, Device device)
# More or fewer bytes in the same storage; contents are kept up to the smaller size.
cdef int resize_storage(Storage storage, size_t n_bytes) except -1

# How many threads have operators that wait (`graph.capture`): storages that these fill
# have no memory yet, which threads that meet one ask for.
cdef int following
cdef int fetch(Storage storage) except -1

# Whether some storage has become smaller: its tensors may reach beyond its end.
cdef bint any_shrunk

# The pool itself: 64-byte aligned scratch. The GIL guards it.
cdef char* take_block(size_t n_bytes, size_t* capacity)
cdef void give_block(char* data, size_t capacity, size_t n_bytes) noexcept

cdef struct Counters:
    int64_t allocated, allocated_peak, allocated_total, allocated_freed
    int64_t requested, requested_peak, requested_total, requested_freed
    int64_t reserved, reserved_peak, reserved_total, reserved_freed
    int64_t live, live_peak, live_total, live_freed
    int64_t segments, retries, failures
