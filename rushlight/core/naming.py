"""The package's name in what is printed, and sentences that say no name of ours.

Values such as data types print with the package before their names. Programs that know
the package as ``torch`` get that name in all of them.
"""

package = "rushlight"


def is_own(module):
    """Whether a module's name is one of the package's, under either of its names."""
    return str(module).partition(".")[0] in ("rushlight", package)


def wrong_kind(function, argument, kind, value):
    """The refusal of an argument that is of another kind."""
    given = type(value).__name__
    return TypeError(f"{function}(): argument '{argument}' must be {kind}, not {given}")


def checked(function, x, argument="dim", kind=int):
    """An argument that has to be an integer, or a flag."""
    if type(x) is not kind and (bool in (kind, type(x)) or not hasattr(x, "__index__")):
        raise wrong_kind(function, argument, kind.__name__, x)
    return x


NO_GRAD_OF_INNER_TENSORS = (
    "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad "
    "attribute won't be populated during autograd.backward(). If you indeed want the .grad "
    "field to be populated for a non-leaf Tensor, use .retain_grad() on the non-leaf Tensor. "
    "If you access the non-leaf Tensor by mistake, make sure you access the leaf Tensor instead."
)


def refused_in_transforms(method):
    """The refusal of a method that changes what a transformation records."""
    apis = " (or perhaps using torch.autograd.functional.* APIs)"
    perhaps = apis if method == "requires_grad_" else ""
    return RuntimeError(
        f"You are attempting to call Tensor.{method}(){perhaps} inside of a function being "
        "transformed by a functorch transform. This is unsupported, please attempt to use "
        "the functorch transforms (e.g. grad, vjp, jacrev, jacfwd, hessian) or call "
        f"{method}() outside of a function being transformed instead."
    )


NOT_ALLOCATED = (
    "The tensor has a non-zero number of elements, but its data is not allocated yet.\n"
    "  remedy: untyped_storage().resize_(n_bytes), then write the elements"
)
