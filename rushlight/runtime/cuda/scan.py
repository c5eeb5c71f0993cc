"""Running states along rows on a device; see `rushlight.kernels.scan.device_scan`."""

import functools

from rushlight.core.dtype import by_code
from rushlight.runtime.cuda.device_kernel import MANY, WORD, DeviceKernel

SHORT = 64  # a row of fewer elements is a thread's


@functools.cache
def kernel(front, in_dtype, out_dtypes, compute, threads, way):
    """The kernel for types, a number of threads and one of the ways."""
    from rushlight.codegen.fingerprint import fingerprint
    from rushlight.codegen.frontend.front import symbol
    from rushlight.codegen.lower import lower
    from rushlight.kernels.scan import device_scan

    name = symbol("scan", front.name, in_dtype, out_dtypes, compute)
    name = f"{name}_{way}_{threads}"

    def made():
        kinds = front, in_dtype, out_dtypes, compute, threads, way
        return lower(device_scan.function(name, *kinds))

    digest = fingerprint(device_scan.function) + front.digest
    return DeviceKernel(name, digest, made)


def run(ctx, front, kinds, operands, outer, size, inner):
    """Scans in this thread's queue; see `rushlight.core.device.Backend`."""
    from rushlight.core.factories import empty
    from rushlight.core.window import address_of
    from rushlight.kernels.scan import device_scan

    rows = outer * inner
    if size < SHORT or (inner > 1 and rows >= MANY):
        return False
    threads, parts, span = device_scan.plan(rows, size)
    ints = size, inner, parts, span
    addresses = [address_of(tensor) for tensor in operands]
    leaves = len(device_scan.monoid_of(front, kinds[2]).types)
    ways = (
        (device_scan.TOTALS, device_scan.JOINED) if parts > 1 else (device_scan.ALONE,)
    )
    room = None  # it is kept until all is launched
    if parts > 1:
        device = operands[0].device
        room = empty((leaves, rows * parts), dtype=by_code(WORD), device=device)
        start = address_of(room)
        addresses += [start + 8 * leaf * rows * parts for leaf in range(leaves)]
    else:
        addresses += [0] * leaves
    for way in ways:
        made = kernel(front, *kinds, threads, way)
        made.run_blocks(ctx, tuple(addresses), ints, rows * parts, threads)
    return True
