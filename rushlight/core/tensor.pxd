from libc.stdint cimport int64_t, uint64_t, uint32_t
from rushlight.core.dtype cimport DType
from rushlight.core.device cimport Device
from rushlight.core.storage cimport Storage, VersionCounter, any_shrunk

cdef enum:
    INLINE_DIMS = 6
    MAX_DIMS = 64

    # how a differentiable view came about (Tensor.view_creation)
    VIEW_DEFAULT = 0
    VIEW_NO_GRAD = 1                # under no_grad
    VIEW_MULTI_OUTPUT = 2           # one of several outputs (unbind, split)
    VIEW_CUSTOM_FUNCTION = 3        # returned by an autograd.Function
    VIEW_INFERENCE = 4              # in inference mode

# What only some tensors have, made when it is first asked for: leaves that got a gradient,
# tensors with hooks, views that are replayed, tensors with a count of their own.
cdef class Extra:
    cdef object grad                # accumulated gradient or None
    cdef object hooks               # autograd.hooks.TensorHooks or None
    cdef object view_replay         # callable(base) -> view where as_strided would not do, else None
    cdef VersionCounter counter     # None: the storage's; shared with views and detached aliases
    cdef void* accumulator          # borrowed: the leaf's live AccumulateGrad node, cleared by its dealloc

cdef class Tensor:
    # geometry (in elements); sizes/strides point at the inline arrays for up to INLINE_DIMS dimensions
    cdef Storage storage
    cdef int64_t offset
    cdef int64_t numel_
    cdef int64_t* sizes
    cdef int64_t* strides
    cdef int64_t inline_sizes[6]
    cdef int64_t inline_strides[6]
    cdef int ndim_
    cdef DType dtype_
    cdef uint64_t keys              # dispatch keys (see dispatch/keys.py)
    cdef bint row_major             # row-major, cached; kept right by set_geometry
    # autograd
    cdef bint wants_grad            # leaf that wants a gradient, or has grad_fn
    cdef bint inference
    cdef bint wrapped_number        # a Python number turned tensor (matters in promotion)
    cdef int output_number          # which output of grad_fn this is
    cdef int view_creation          # how a view was made: VIEW_DEFAULT ...
    cdef int64_t view_version       # version() when grad_fn_ of a view was last set
    cdef object grad_fn_            # autograd Node or None
    cdef Tensor base                # root of a differentiable view, else None
    cdef Extra extra                # None: nothing of it was asked for
    cdef dict __dict__              # made at the first attribute: C code finds NULL before
    cdef object __weakref__

    cdef int reserve(self, int ndim) except -1
    cdef Extra own_extra(self)
    # where the first element is; RuntimeError where some lie outside of the storage
    cdef inline char* pointer(self) except? NULL:
        if any_shrunk:
            check_allocated(self)
        return self.storage.data + self.offset * self.dtype_.itemsize
    cdef int64_t version(self) noexcept
    cdef void bump_version(self) noexcept
    cdef VersionCounter own_counter(self)
    cdef int set_geometry(self, int ndim, const int64_t* sizes, const int64_t* strides, int64_t offset) except -1

# What `extra` holds, or None where there is no such thing.
cdef inline object grad_of(Tensor t):
    return None if t.extra is None else t.extra.grad
cdef inline object hooks_of(Tensor t):
    return None if t.extra is None else t.extra.hooks
cdef inline object view_replay_of(Tensor t):
    return None if t.extra is None else t.extra.view_replay
cdef inline VersionCounter counter_of(Tensor t):
    return None if t.extra is None else t.extra.counter

# A tensor to be filled in, of the very type Tensor.
cdef Tensor blank()
# Fresh tensors. `empty_like_geometry` keeps dense layouts; strides NULL means row-major.
cdef Tensor new_empty(int ndim, const int64_t* sizes, const int64_t* strides, DType dtype, Device device)
# Another window on the same storage; keeps keys, dtype, device; no autograd bookkeeping.
cdef Tensor same_window(Tensor source)
cdef Tensor alias(Tensor source, int ndim, const int64_t* sizes, const int64_t* strides, int64_t offset)

# RuntimeError where some element lies outside of the storage: possible where `any_shrunk`.
cdef int check_allocated(Tensor t) except -1
# Whether that is so.
cdef bint exceeds_storage(Tensor t) noexcept

# Keys that a tensor on this device carries outside inference mode.
cdef uint64_t keys_for(Device device) noexcept
# The sizes as rushlight.Size.
cdef object size_of(Tensor tensor)
