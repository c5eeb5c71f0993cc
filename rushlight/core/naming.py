"""The package's name in what is printed, and sentences that say no name of ours.

Values such as data types print with the package before their names. Programs that know
the package as ``torch`` get that name in all of them.
"""

package = "rushlight"

NO_GRAD_OF_INNER_TENSORS = (
    "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad "
    "attribute won't be populated during autograd.backward(). If you indeed want the .grad "
    "field to be populated for a non-leaf Tensor, use .retain_grad() on the non-leaf Tensor. "
    "If you access the non-leaf Tensor by mistake, make sure you access the leaf Tensor instead."
)
NOT_ALLOCATED = (
    "The tensor has a non-zero number of elements, but its data is not allocated yet.\n"
    "  remedy: untyped_storage().resize_(n_bytes), then write the elements"
)
