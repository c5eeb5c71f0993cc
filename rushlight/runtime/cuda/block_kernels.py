"""Functions of a grid whose blocks operators divide work among, on a device."""

import functools

from rushlight.runtime.cuda.device_kernel import DeviceKernel


@functools.cache
def kernel(make, *kinds):
    """The kernel of a function that ``make`` writes for some kinds."""
    from rushlight.codegen.fingerprint import fingerprint
    from rushlight.codegen.lower import lower

    name = "_".join(
        [make.__module__.rpartition(".")[2], make.__name__, *map(str, kinds)]
    )
    return DeviceKernel(name, fingerprint(make), lambda: lower(make(name, *kinds)))


def run(context, make, kinds, operands, ints, blocks, threads):
    """Runs one in this thread's queue; see `rushlight.core.device_roles.Libraries`."""
    from rushlight.core.window import address_of

    made = kernel(make, *kinds)
    addresses = tuple(address_of(tensor) for tensor in operands)
    made.run_blocks(context, addresses, ints, blocks, threads)
