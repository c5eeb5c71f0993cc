from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t
from rushlight.core.device cimport Device
from rushlight.core.dtype cimport DType
from rushlight.core.tensor cimport Tensor

cdef extern from "Python.h":
    object vectorcall "PyObject_Vectorcall" (PyObject* callable, PyObject** args, size_t nargsf, PyObject* kwnames)

# What the recording side fills in, once each: formula, op_name, edges, n_edges, the edge
# numbers, needs, saved, sequence, multi. set_history() fills the metadata and n_outputs.
cdef class Node:
    cdef object formula             # callable(needs, grad, *saved) -> gradient or tuple of them; None for special nodes
    cdef str op_name                # "MulBackward0", or ":module:function:saved" that says it
    cdef uint64_t sequence
    cdef int n_outputs              # outputs of the forward call = gradients that arrive
    cdef int n_edges                # gradients that leave
    cdef unsigned long long needs   # bit i: edge i wants a gradient
    cdef tuple edges                # Node or None for each differentiable input
    cdef int edge_number_inline[4]  # output number at each edge (first four)
    cdef tuple edge_numbers         # all the numbers where there are more than four edges, else None
    cdef tuple saved                # values for the formula: SavedTensor where it was a tensor, else the value
    cdef bint released
    cdef bint keeps_number         # saved a number where a tensor might have been: runs once only
    cdef bint number_as_tensor     # and it is one to handlers: a program gave it
    cdef bint multi                 # formula wants all the gradients: a tuple, not the first
    cdef bint is_accumulator
    # shape and dtype of the first output; meta_ndim is -1 where they stand in metas
    cdef int meta_ndim
    cdef DType meta_dtype
    cdef Device meta_device
    cdef int64_t meta_sizes[6]
    cdef list metas                 # (sizes, dtype, device) of each output where inline does not do, else None
    cdef object hooks               # autograd.hooks.NodeHooks or None
    cdef public object reached      # called where a sweep comes to the node, before it runs; or None
    cdef dict metadata_             # user's dict, made on demand
    cdef object trace               # autograd.anomaly.Trace of the forward call, in anomaly mode
    # the engine's: which task has a frame for this node, and where
    cdef uint64_t task
    cdef int slot
    cdef object __weakref__
    # One gradient, or a list of them where n_outputs > 1, to a tuple of n_edges (or the one).
    cdef object apply(self, object grads, unsigned long long needs)
    cdef int release(self) except -1

cdef class AccumulateGrad(Node):
    cdef readonly Tensor variable
    cdef bint busy                  # a thread is adding to the leaf's gradient

# An in-place operator on a view, seen from the base: swaps the slice's gradient.
cdef class CopySlices(Node):
    cdef Node inner
    cdef tuple base_geometry        # sizes, strides, offset
    cdef tuple view_geometry
    cdef object replay

# A node whose gradient is a Python method: autograd.function's nodes.
cdef class PythonNode(Node):
    pass

# The node that a tensor's gradient flows to: its grad_fn, or its AccumulateGrad made on demand; None if it needs no gradient.
cdef Node gradient_edge(Tensor tensor)
# Point `node` at the metadata of output number `index`, and the tensor at the node.
cdef int set_history(Tensor result, Node node, int index) except -1
# Only the first half of it.
cdef int describe_output(Node node, int index, Tensor result) except -1
# The same for the result of an in-place operator, whose edge 0 is the tensor itself; after the version bump.
cdef int rebase_history(Tensor tensor, Node node) except -1
# Gives a view that was itself reshaped in place its history anew; its base has not changed.
cdef int replay_view(Tensor tensor) except -1
# Whether a differentiable call on this tensor has to be recorded; brings a stale view up to date.
cdef bint tracks_gradient(Tensor tensor) except -1
# grad_fn of a view, made anew where its base changed in place.
cdef object view_grad_fn(Tensor tensor)
# Raises where an in-place operator may not write here; call it before the write, when the call needs recording.
cdef int check_inplace(Tensor tensor) except -1
cdef bint owns_memory(Tensor tensor) noexcept
cdef int edge_number(Node node, int index) noexcept
# Raises RuntimeError naming both shapes where `grad` cannot be the gradient of that output.
cdef object fit_gradient(Node target, int number, object grad, Node source, int index)
# Who runs formulas while a thread's operators are followed; see graph/capture.py.
cdef class Formulas:
    cdef object run(self, object formula, PyObject** args, int n)

cdef int set_formulas(Formulas formulas) except -1
# The node's formula on one gradient (a list where n_outputs > 1).
cdef object run_formula(Node node, object grad, unsigned long long needs)
