"""The arrays that a built function is called with: what they tell, and must be."""

from rushlight.ir import expr as ir
from rushlight.ir.rewrite import evaluate
from rushlight.tensor_expressions.expressions import Size


def number_of(size, sizes):
    """A size as a number, where open ones have values."""
    return evaluate(size, sizes) if isinstance(size, ir.Expr) else size


def numbers_of(shape, sizes):
    """A shape as numbers."""
    return tuple(number_of(size, sizes) for size in shape) if sizes else shape


def check_all(arrays, program):
    """Looks at the arrays of a call.

    Returns:
        their addresses, and the values of open sizes by name.

    Raises:
        TypeError: one is no array.
        ValueError: one has another shape, dtype or layout than declared, or is to be
            written and cannot.
    """
    sizes = open_values(arrays, program) if program.sizes else {}
    for array, tensor in zip(arrays, program.arguments):
        check(array, tensor, sizes)
    addresses = [address_of(array) for array in arrays]
    check_no_overlap(program.arguments, arrays, addresses)
    return addresses, sizes


def open_values(arrays, program):
    """The values of open sizes, by name; None of one that no array tells."""
    values = {size.name: None for size in program.sizes}
    for array, tensor in zip(arrays, program.arguments):
        pairs = [*zip(tensor.shape, getattr(array, "shape", ()))]
        if tensor.strides is not None:
            pairs += zip(tensor.strides, strides_of(array))
        for size, found in pairs:
            if isinstance(size, Size) and values[size.name] is None:
                values[size.name] = int(found)
    return values


def check(array, tensor, sizes):
    """Refuses an array of another shape, dtype or layout than declared."""
    if not hasattr(array, "shape"):
        kind = type(array).__name__
        raise TypeError(f"{tensor.name} is a tensor or an array, not {kind}")
    shape, dtype = tuple(array.shape), str(array.dtype).rpartition(".")[2]
    known = not sizes or None not in sizes.values()
    if not known or shape != numbers_of(tensor.shape, sizes) or dtype != tensor.dtype:
        wanted = ", ".join(map(str, tensor.shape))
        found = ", ".join(f"{n} is {v}" for n, v in sizes.items() if v is not None)
        raise ValueError(
            f"{tensor.name} is {tensor.dtype}[{wanted}], not {dtype}{list(shape)}"
            + (f", where {found}" if found else "")
        )
    if tensor.strides is not None:
        wanted, found = numbers_of(tensor.strides, sizes), strides_of(array)
        if wanted != found:
            raise ValueError(f"{tensor.name} has strides {wanted}, not {found}")
        return
    of_numpy = not hasattr(array, "is_contiguous")
    if not (array.flags.c_contiguous if of_numpy else array.is_contiguous()):
        raise ValueError(f"{tensor.name}: the array is not row-major and dense")


def check_host(array, tensor):
    """Refuses an array that is not in the host's memory.

    Raises:
        RuntimeError: it is on another device.
    """
    if hasattr(array, "data_ptr") and array.device.type != "cpu":
        raise RuntimeError(
            f"{tensor.name}: the tensor is on {array.device}, and the function is built "
            'for the host\n  remedy: te.build(..., target="cuda"), or tensor.cpu()'
        )


def check_no_overlap(tensors, arrays, addresses):
    """Refuses an array that is computed and may not be, or shares elements with another."""
    ranges = [*map(memory_of, arrays, tensors, addresses)]
    for tensor, array, (begin, end) in zip(tensors, arrays, ranges):
        if not tensor.is_computed:
            continue
        others = [1 for first, last in ranges if begin < last and first < end]
        if len(others) > 1:
            raise ValueError(
                f"{tensor.name} is computed: its array cannot share elements with another "
                "argument's"
            )
        of_numpy = not hasattr(array, "data_ptr")
        if of_numpy and not array.flags.writeable:
            raise ValueError(f"{tensor.name} is computed, and its array is read-only")
        if not of_numpy and array.requires_grad:
            raise ValueError(
                f"{tensor.name} is computed, and its array requires grad, which this does "
                "not record"
            )


def memory_of(array, tensor, begin):
    """Where an array's elements begin and end in memory."""
    if tensor.strides is None or 0 in array.shape:
        return begin, begin + array.nbytes
    item = array.itemsize
    steps = [(n - 1) * step * item for n, step in zip(array.shape, strides_of(array))]
    low, high = sum(min(step, 0) for step in steps), sum(max(step, 0) for step in steps)
    return begin + low, begin + high + item


def strides_of(array):
    """How many elements apart the neighbours along each dimension of an array lie."""
    if hasattr(array, "data_ptr"):
        return tuple(array.stride())
    return tuple(step // array.itemsize for step in array.strides)


def address_of(array):
    """Where the elements of a tensor or NumPy array start."""
    return array.data_ptr() if hasattr(array, "data_ptr") else array.ctypes.data
