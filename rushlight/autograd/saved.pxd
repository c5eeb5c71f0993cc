from libc.stdint cimport int64_t
from rushlight.core.tensor cimport Tensor

cdef class SavedTensor:
    cdef Tensor tensor              # an input as it is; an output detached
    # of an input that a hook packed, the node its gradient flows to; of an output written
    # to through a view, a weak reference to the CopySlices around its node
    cdef object source
    cdef bint is_output
    cdef bint requires_grad
    cdef bint packed
    cdef bint inner                 # an input that had a grad_fn: detach_() would lose it
    cdef int output_number
    cdef int watch                  # bucket of the storage in the table of watched storages, or -1
    cdef int64_t version
    cdef object payload             # what a pack hook returned
    cdef readonly object unpack_hook
    cdef Tensor unpack(self, object owner)
    cdef Tensor attached(self, Tensor tensor, object owner)

# Whether handlers of operators see what becomes of a tensor; and what autograd keeps then.
cdef bint listened_to(Tensor tensor) noexcept
cdef Tensor detached(Tensor tensor)
# Call it for outputs after set_history(): it keeps the output's number.
cdef SavedTensor save_tensor(Tensor tensor, object owner, bint is_output)
# The result of an in-place call on a view, after rebase_history().
cdef SavedTensor save_written_view(Tensor tensor, object owner)
# Remember the line of an in-place change of a tensor that some node has saved; a no-op elsewhere.
cdef int note_modification(Tensor tensor) except -1
