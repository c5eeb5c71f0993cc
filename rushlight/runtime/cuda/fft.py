"""Fourier transforms on a device, by cuFFT: lines along one dimension.

Plans are made for how lines lie, and kept with the device; what they work in comes from the
allocator at each run, so that kept plans hold no memory.
"""

from rushlight.core.dtype import by_code
from rushlight.core.factories import empty
from rushlight.core.window import address_of
from rushlight.kernels.line_batches import batches
from rushlight.runtime.cuda import contexts
from rushlight.runtime.cuda.libraries import CUFFT, queue

# cufftType, by whether what is read and written is complex, and by double precision.
TYPES = {
    (True, True): (0x29, 0x69), (False, True): (0x2A, 0x6A), (True, False): (0x2C, 0x6C),
}  # fmt: skip
NAMES = {
    0x29: "exec_c2c", 0x69: "exec_z2z", 0x2A: "exec_r2c", 0x6A: "exec_d2z",
    0x2C: "exec_c2r", 0x6C: "exec_z2d",
}  # fmt: skip
FORWARD, BACKWARD = -1, 1
KEPT = 64  # plans that a device remembers
RUNS = 16  # runs of one plan that are better than a copy
BYTES = by_code(0)


def transform_lines(source, out, dim, forward, scale, size=None):
    """One-dimensional transforms of all lines along a dimension.

    Takes what `operators.spectral.fft_schedule.transform_lines` takes.
    """
    if not out.numel():
        return out
    dim %= out.ndim
    size = source.shape[dim] if size is None else size
    if not source.is_complex() and out.shape[dim] != size // 2 + 1:
        source = source.to(out.dtype)  # all of it is wanted, not the first half
    real = not out.is_complex()
    if real:  # cuFFT may write over what it reads
        source = source.narrow(dim, 0, min(source.shape[dim], size // 2 + 1)).clone()
    how = layout(source, out, dim)
    if how is None:
        held = empty(_sizes_last(out, dim), dtype=out.dtype, device=out.device)
        run(source.movedim(dim, -1).contiguous(), held, held.ndim - 1, forward, size)
        out.copy_(held.movedim(-1, dim))
    else:
        run(source, out, dim, forward, size)
    return out.mul_(scale) if scale != 1 else out


def _sizes_last(x, dim):
    sizes = list(x.shape)
    return [*sizes[:dim], *sizes[dim + 1 :], sizes[dim]]


def layout(source, out, dim):
    """Two dimensions that all others are, or None where lines lie too irregularly."""
    if not out.is_complex() or not source.is_complex():
        # real numbers are read two by two
        real = source if out.is_complex() else out
        if address_of(real) % (2 * real.element_size()) or real.stride(dim) != 1:
            return None
    found = batches(source, out, dim)
    return None if found is None or found[0][0] > RUNS else found


def run(source, out, dim, forward, size):
    """Puts the transforms into this thread's queue, unscaled."""
    (outer, in_outer, out_outer), (inner, in_line, out_line) = layout(source, out, dim)
    ctx = contexts.ctx(out.device.index)
    double = source.element_size() // (1 + source.is_complex()) == 8
    kind = TYPES[source.is_complex(), out.is_complex()][double]
    steps = source.stride(dim), in_line, out.stride(dim), out_line
    way = (FORWARD if forward else BACKWARD,) if kind in (0x29, 0x69) else ()
    with ctx.lock:  # a plan has one queue and one room, which other threads choose, too
        plan, n_bytes = plan_for(ctx, (kind, size, *steps, inner))
        room = empty((max(n_bytes, 1),), dtype=BYTES, device=out.device)
        CUFFT.call(ctx, "set_stream", plan, queue(ctx))
        CUFFT.call(ctx, "set_work_area", plan, address_of(room))
        for k in range(outer):
            begin = address_of(source) + k * in_outer * source.element_size()
            end = address_of(out) + k * out_outer * out.element_size()
            CUFFT.call(ctx, NAMES[kind], plan, begin, end, *way)


def plan_for(ctx, key):
    """A plan and the bytes that it works in: kept, or made now."""
    plans = ctx.plans
    with ctx.lock:
        found = plans.pop(key, None)
        if found is None:
            found = make(ctx, *key)
        plans[key] = found
        while len(plans) > KEPT:
            ctx.synchronize()  # work of the oldest may still be waiting
            CUFFT.call(ctx, "destroy", plans.popitem(last=False)[1][0])
    return found


def make(ctx, kind, size, in_step, in_line, out_step, out_line, inner):
    """A plan that takes the memory it works in at each run."""
    plan = CUFFT.call(ctx, "create")
    CUFFT.call(ctx, "set_auto_allocation", plan, 0)
    half = size // 2 + 1
    reads = half if kind in (0x2C, 0x6C) else size
    writes = half if kind in (0x2A, 0x6A) else size
    n_bytes = CUFFT.call(
        *(ctx, "make_plan_many64", plan, 1, [size]),
        *([reads], in_step, in_line or reads * in_step),
        *([writes], out_step, out_line or writes * out_step),
        *(kind, inner),
    )
    return plan, n_bytes
