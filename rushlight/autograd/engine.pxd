# Sweeps from `roots` (tensors or GradientEdges); the gradients captured for `inputs` as a
# list, or None where `inputs` is None. With accumulate_grad, inputs get a .grad instead.
cdef object run_backward(tuple roots, tuple grads, bint keep_graph, bint create_graph, object inputs, bint accumulate_grad)
