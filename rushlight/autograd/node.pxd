from libc.stdint cimport int64_t, uint64_t
from rushlight.core.tensor cimport Tensor

cdef class Node:
    cdef object formula             # callable(needs, grad, *saved) -> gradient or tuple of them; None for special nodes
    cdef str op_name                # "Mul" -> printed "MulBackward0"
    cdef uint64_t sequence
    cdef uint64_t topological       # 1 + the largest of its inputs' numbers
    cdef int n_outputs              # outputs of the forward call = gradients that arrive
    cdef int n_edges                # gradients that leave
    cdef unsigned long long needs   # bit i: edge i wants a gradient
    cdef tuple edges                # Node or None for each differentiable input
    cdef int edge_number_inline[4]  # output number at each edge (first four)
    cdef object edge_numbers        # tuple of ints where there are more than four edges, else None
    cdef tuple saved                # values for the formula: SavedTensor where it was a tensor, else the value
    cdef bint released
    cdef bint multi                 # formula wants all the gradients: a tuple, not the first
    # shape and dtype of each forward output; the first inline
    cdef int meta_ndim
    cdef int meta_dtype
    cdef int64_t meta_sizes[6]
    cdef object metas               # list of (shape tuple, dtype code, device) for all outputs where inline does not do
    cdef object hooks               # autograd.hooks.NodeHooks or None
    cdef object metadata_           # user's dict, made on demand
    cdef object trace               # stack of the forward call, in anomaly mode
    cdef object __weakref__
    cdef object apply(self, object grads)      # overridden by AccumulateGrad, CopySlices, Function nodes

cdef class AccumulateGrad(Node):
    cdef Tensor variable

cdef class SavedTensor:
    cdef Tensor tensor              # an input as it is; an output detached
    cdef object node                # the producing node's weak reference where it was an output
    cdef bint is_output
    cdef int output_number
    cdef int64_t version
    cdef object packed              # what a pack hook returned
    cdef object unpack_hook
    cdef object unpack(self, Node owner)

# The node that a tensor's gradient flows to: its grad_fn, or its AccumulateGrad made on demand; None if it needs no gradient.
cdef Node gradient_edge(Tensor tensor)
cdef SavedTensor save_tensor(Tensor tensor, Node owner, bint is_output)
# Point `node` at the metadata of output number `index`, and the tensor at the node.
cdef int set_history(Tensor result, Node node, int index) except -1
