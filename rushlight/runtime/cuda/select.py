"""The first few elements of rows on a device, or the one of a rank; see
`rushlight.kernels.select.device_select`."""

import functools

from rushlight.runtime.cuda.device_kernel import DeviceKernel

THREADS = 512  # of a block, at most
EACH = 4  # elements that a thread has at least
SHORT = 17  # a row of fewer elements is a thread's


@functools.cache
def kernel(dtype, way, descending, threads):
    """The kernel for a type, one of the ways and a number of threads."""
    from rushlight.codegen.fingerprint import fingerprint
    from rushlight.codegen.lower import lower
    from rushlight.kernels.select import device_select

    order = "descending" if descending else "ascending"
    name = f"select_{way}_{dtype}_{order}_{threads}"

    def made():
        kinds = dtype, way, descending, threads
        return lower(device_select.function(name, *kinds))

    return DeviceKernel(name, fingerprint(device_select.function), made)


def takes(dtype, size):
    """Whether rows of a type and so many elements are blocks'."""
    return size >= SHORT and not dtype.startswith(("complex", "float8"))


def run(ctx, way, operands, rows, size, parts, rank, descending, skip):
    """Selects in this thread's queue; see `rushlight.core.device.Backend`."""
    from rushlight.core.window import address_of

    threads = 32
    while threads < THREADS and threads * EACH < size // parts:
        threads *= 2
    made = kernel(operands[2].dtype.name, way, descending, threads)
    addresses = tuple(address_of(tensor) for tensor in operands)
    ints = size, parts, rank, int(skip)
    made.run_blocks(ctx, addresses, ints, rows * parts, threads)
    return True
