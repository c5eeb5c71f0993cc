"""The compiled way of running reductions: dimensions, result, loops, launch."""

from __future__ import annotations

import cython
from cython.cimports.libc.stdint import int64_t, uint64_t, uintptr_t
from cython.cimports.libc.string import memcpy
from cython.cimports.rushlight.core._python import pp_object
from cython.cimports.rushlight.core.device import Backend, Device, backend_of
from cython.cimports.rushlight.core.dtype import (
    BOOLEAN,
    CODE_BOOL,
    CODE_UINT8,
    COMPLEX,
    FLOATING,
    DType,
    default_dtype,
    dtype_of,
)
from cython.cimports.rushlight.core.geometry import wrap_dim
from cython.cimports.rushlight.core.keys import OBSERVE_ALL
from cython.cimports.rushlight.core.launch_args import ReductionPlan
from cython.cimports.rushlight.core.tensor import Tensor, new_empty
from cython.cimports.rushlight.dispatch.dispatcher import Kernel, Operator
from cython.cimports.rushlight.dispatch.row_variants import (
    ANY_WAY,
    CONTIGUOUS,
    STRIDED,
    TRANSPOSED,
    Ways,
)
from cython.cimports.rushlight.runtime.cpu.grain import GRAIN
from cython.cimports.rushlight.runtime.cpu.launch import (
    NativeKernel,
    kernel_t,
    launch_kernel,
    parallel_for,
    run_here,
    watched,
)

from rushlight.core.warning import warn_of_freedom, warn_once
from rushlight.dispatch.declared import TAGS
from rushlight.dispatch.outputs import TYPE_NAMES

# Results side by side are computed together, by reading across rows: narrow pieces of
# rows would cost a cache line, and a page's address, for a few values.
ACROSS = cython.declare(int64_t, 512)
# A single result from many values is made from parts of this many, whatever the number
# of threads, by the reductions that may be applied to their own results.
PART = cython.declare(int64_t, 65536)

# Types that are accumulated in a wider one: parts would be rounded.
_HALF = cython.declare(cython.bint[64])
# Integers of a plan.
WORDS = cython.declare(
    cython.int, cython.sizeof(ReductionPlan) // cython.sizeof(int64_t)
)
for _code in range(64):
    _HALF[_code] = _code in (5, 15, 23, 24, 25, 26)


@cython.cfunc
@cython.exceptval(check=False)
def merge_loops(
    n: cython.int,
    sizes: cython.pointer(int64_t),
    inner: cython.pointer(int64_t),
    outer: cython.pointer(int64_t),
    ordered: cython.bint,
) -> cython.int:
    """Sort loops by falling input stride, merge those that continue each other."""
    i: cython.int
    j: cython.int
    top: cython.int = -1
    a: int64_t
    b: int64_t
    c: int64_t
    if ordered:
        for i in range(1, n):
            a = sizes[i]
            b = inner[i]
            c = outer[i]
            j = i - 1
            while j >= 0 and inner[j] < b:
                sizes[j + 1] = sizes[j]
                inner[j + 1] = inner[j]
                outer[j + 1] = outer[j]
                j -= 1
            sizes[j + 1] = a
            inner[j + 1] = b
            outer[j + 1] = c
    for i in range(n):
        if sizes[i] == 1:
            continue
        if (
            top >= 0
            and inner[top] == inner[i] * sizes[i]
            and (outer[top] == outer[i] * sizes[i])
        ):
            sizes[top] *= sizes[i]
            inner[top] = inner[i]
            outer[top] = outer[i]
            continue
        top += 1
        sizes[top] = sizes[i]
        inner[top] = inner[i]
        outer[top] = outer[i]
    return top + 1


@cython.cfunc
@cython.exceptval(check=False)
def put_loops(
    n: cython.int,
    values: cython.pointer(int64_t),
    rest: int64_t,
    into: cython.pointer(int64_t),
) -> cython.void:
    """Three numbers, the innermost loop last; missing outer loops are ``rest``."""
    i: cython.int
    for i in range(3):
        into[i] = rest if i < 3 - n else values[i - (3 - n)]


@cython.cfunc
def as_real(number: object) -> object:
    """A correction as what can be taken from a count."""
    if type(number) is int or type(number) is float or type(number) is bool:
        if -(2**63) <= number < 2**64 or type(number) is float:
            return number
        raise OverflowError("int too big to convert")
    if number.imag:
        raise RuntimeError("value cannot be converted to type double without overflow")
    return number.real


@cython.cclass
class ReductionKernel(Kernel):
    """A reduction: result type by rule, loops merged, one generated kernel a type.

    A kernel that asks for ``scalar`` receives the number of elements reduced, less the
    argument ``correction`` where the operator has one.
    """

    def __init__(self, source, op: Operator, rule, module):
        names = op.signature.names
        self.source = source
        self.rule = rule
        self.name = op.name.split(".")[0]
        self.dim_at = names.index("dim") if "dim" in names else -1
        self.keepdim_at = names.index("keepdim") if "keepdim" in names else -1
        self.dtype_at = names.index("dtype") if "dtype" in names else -1
        self.correction_at = names.index("correction") if "correction" in names else -1
        self.n_outputs = len(op.returns)
        # Positions are counted in the order of the dimensions.
        self.positional = rule == "with_index" or source.name in ("argmax", "argmin")
        tags = op.entry[TAGS] if op.entry else ()
        self.in_parts = "in_parts" in tags
        self.nonempty = "nonempty" in tags
        self.special = {}

    @cython.cfunc
    @cython.exceptval(0, check=True)
    def reduced_dims(self, x: Tensor, dim: object) -> uint64_t:
        """A bit for each dimension that goes; all of them where none is named.

        To ``any`` and ``all`` an empty list names no dimension, and none goes.
        """
        one: uint64_t = 1
        bits: uint64_t = 0
        d: cython.int
        repeated: cython.int = -1
        if dim is None:
            return ~bits
        if type(dim) is not int and len(dim) == 0:
            return bits if self.rule == "bool" else ~bits
        for item in (dim,) if isinstance(dim, int) else dim:
            d = wrap_dim(item, x.ndim_)
            if x.ndim_ and x.sizes[d] == 0:
                self.check_size(x, d)
            if (bits >> d) & 1 and repeated < 0:
                repeated = d
            bits |= one << d
        if repeated >= 0:
            raise RuntimeError(
                f"dim {repeated} appears multiple times in the list of dims"
            )
        return bits

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def check_size(self, x: Tensor, d: cython.int) -> cython.int:
        """Extremes of nothing do not exist."""
        if self.nonempty and x.sizes[d] == 0:
            raise IndexError(
                f"{self.name}(): Expected reduction dim {d} to have non-zero size."
            )
        return 0

    @cython.cfunc
    def result_dtype(self, x: Tensor, wanted: object) -> DType:
        """The result's type by the operator's rule."""
        own: DType = x.dtype_
        if wanted is not None:
            own = wanted
        if self.rule == "sum":
            if wanted is None and own.category < FLOATING:
                return dtype_of(4)
        elif self.rule == "float":
            if own.category < FLOATING:
                which = "Input" if wanted is None else "Optional"
                raise RuntimeError(
                    f"{self.name}(): could not infer output dtype. {which} dtype must be "
                    "either a floating point or complex dtype. Got: "
                    f"{TYPE_NAMES.get(own.name)}"
                )
        elif self.rule == "bool":
            return dtype_of(0) if own.code == CODE_UINT8 else dtype_of(11)
        elif self.rule == "int64":
            return dtype_of(4)
        elif self.rule == "promote_float" and own.category < FLOATING:
            return default_dtype()
        return own

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def check_real(self, wanted: object) -> cython.int:
        """Refuses a complex type for a sum of real numbers that are not whole."""
        if wanted is not None and cython.cast(DType, wanted).category == COMPLEX:
            kind = TYPE_NAMES.get(cython.cast(DType, wanted).name)
            raise NotImplementedError(f"\"nansum_cpu\" not implemented for '{kind}'")
        return 0

    @cython.cfunc
    def find(self, x: Tensor, out: DType) -> object:
        """The kernel for an input and a result, where the input is; the host's `Ways`."""
        compute: str = x.dtype_.name
        if self.rule != "bool" and self.rule != "int64":
            compute = out.name
            if compute in self.source.widens and x.storage.device.on_host:
                compute = "float64"
        key = (x.dtype_.name, out.name, compute, x.storage.device.kind)
        kernel = self.special.get(key)
        if kernel is None:
            outs = (out.name,) * self.n_outputs
            if self.rule == "with_index":
                outs = (out.name, "int64")
            kinds = (x.dtype_.name, outs, compute)
            if x.storage.device.on_host:
                kernel = Ways(self.source, kinds)
            else:
                backend: Backend = backend_of(x.storage.device)
                kernel = backend.launch.specialize(self.source, *kinds)
            kernel = self.special.setdefault(key, kernel)
        return kernel

    @cython.cfunc
    def run(self, op: Operator, slots: pp_object, keys: uint64_t) -> object:
        x: Tensor = cython.cast(Tensor, cython.cast(object, slots[0]))
        dim: object = None
        keepdim: cython.bint = False
        wanted: object = None
        if self.dim_at >= 0:
            dim = cython.cast(object, slots[self.dim_at])
        if self.keepdim_at >= 0:
            keepdim = cython.cast(object, slots[self.keepdim_at])
        if self.dtype_at >= 0:
            wanted = cython.cast(object, slots[self.dtype_at])
        correction: object = 0
        if x.dtype_.category == COMPLEX and self.name == "nansum":
            raise RuntimeError("nansum on CPU does not support complex inputs")
        if x.dtype_.category == FLOATING and self.name == "nansum":
            self.check_real(wanted)
        if self.positional and x.dtype_.category in (BOOLEAN, COMPLEX):
            self.check_ordered(x, dim)
        if x.dtype_.category == COMPLEX and isinstance(wanted, DType):
            kind: DType = wanted
            if kind.category < COMPLEX and kind.code != CODE_BOOL:
                warn_once("Casting complex values to real discards the imaginary part")
        if self.correction_at >= 0:
            correction = cython.cast(object, slots[self.correction_at])
            correction = 1 if correction is None else as_real(correction)
            if x.dtype_.category < FLOATING:
                raise RuntimeError(
                    "std and var only support floating point and complex dtypes, but "
                    f"got {TYPE_NAMES.get(x.dtype_.name)}"
                )
            if x.dtype_.category == COMPLEX:
                return self.source.of_complex(x, dim, correction, keepdim)
        return self.reduce(x, self.reduced_dims(x, dim), keepdim, wanted, correction)

    @cython.cfunc
    def reduce(
        self,
        x: Tensor,
        gone: uint64_t,
        keepdim: cython.bint,
        wanted: object,
        correction: object,
    ) -> object:
        sizes: int64_t[64]
        n: cython.int = 0
        d: cython.int
        count: int64_t = 1
        out: Tensor
        second: Tensor = None
        dtype: DType = self.result_dtype(x, wanted)
        for d in range(x.ndim_):
            if (gone >> d) & 1:
                count *= x.sizes[d]
                if keepdim:
                    sizes[n] = 1
                    n += 1
            else:
                sizes[n] = x.sizes[d]
                n += 1
        if count == 0:
            self.check_empty(x, gone)
        out = new_empty(n, sizes, cython.NULL, dtype, x.storage.device)
        if self.correction_at >= 0 and x.storage.device.has_memory:
            self.check_freedom(count if out.numel_ else 0, correction)
        if self.n_outputs > 1:
            other: DType = dtype_of(4) if self.rule == "with_index" else dtype
            second = new_empty(n, sizes, cython.NULL, other, x.storage.device)
        if x.storage.device.has_memory and out.numel_:
            number: cython.double = count
            if correction != 0:
                number -= cython.cast(cython.double, correction)
                # not a number counts as zero, and of nothing there is no spread
                number = number if number > 0 and count else 0.0
            kernel = self.find(x, dtype)
            self.launch(x, out, second, gone, keepdim, count, number, kernel)
        return out if second is None else (out, second)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def check_freedom(self, count: int64_t, correction: object) -> cython.int:
        """Warns where a spread is asked of no more numbers than are taken off."""
        if count - cython.cast(cython.double, correction) <= 0:
            warn_of_freedom(self.name)
        return 0

    def check_ordered(self, x: Tensor, dim):
        """Positions of extremes are asked of real numbers, and mostly not of bools."""
        if self.rule == "with_index":
            self.reduced_dims(x, dim)  # a wrong dimension is told first
        if x.dtype_.category == COMPLEX:
            raise RuntimeError(f"{self.name}(): does not support complex input")
        if self.rule == "int64":
            raise RuntimeError(f"{self.name}(): does not support bool input")

    @cython.cfunc
    def check_empty(self, x: Tensor, gone: uint64_t):
        """Extremes of nothing do not exist."""
        if not self.nonempty:
            return
        if ~gone == 0:
            fault = IndexError if self.positional else RuntimeError
            raise fault(
                f"{self.name}(): Expected reduction dim to be specified for input.numel() "
                "== 0. Specify the reduction dim with the 'dim' argument."
            )
        for d in range(x.ndim_):
            if (gone >> cython.cast(cython.int, d)) & 1:
                self.check_size(x, d)

    @cython.cfunc
    def launch(
        self,
        x: Tensor,
        out: Tensor,
        second: Tensor,
        gone: uint64_t,
        keepdim: cython.bint,
        count: int64_t,
        number: cython.double,
        found: object,
    ):
        """Lay out reduced and kept loops and run the kernel over the kept ones."""
        rs: int64_t[64]
        ri: int64_t[64]
        ro: int64_t[64]
        ks: int64_t[64]
        ki: int64_t[64]
        ko: int64_t[64]
        plan: ReductionPlan
        data: cython.p_char[5]
        ratio: int64_t = 0
        nr: cython.int = 0
        nk: cython.int = 0
        d: cython.int
        at: cython.int = 0
        item: int64_t = x.dtype_.itemsize
        # nothing is read of an empty operand: whatever its strides, its loops merge
        step: int64_t = item if count else 0
        for d in range(x.ndim_):
            if (gone >> d) & 1:
                rs[nr] = x.sizes[d]
                ri[nr] = x.strides[d] * step
                ro[nr] = 0
                nr += 1
                at += 1 if keepdim else 0
            else:
                ks[nk] = x.sizes[d]
                ki[nk] = x.strides[d] * step
                ko[nk] = out.strides[at] * out.dtype_.itemsize
                nk += 1
                at += 1
        nr = merge_loops(nr, rs, ri, ro, nr > 1 and not self.positional)
        nk = merge_loops(nk, ks, ki, ko, True)
        if nr > 3 or nk > 3:
            # The copy has one reduced dimension, so the result is seen without the
            # sizes of 1 that stand where the reduced ones were.
            self.launch(
                gathered(x, gone),
                without_reduced(out, x, gone) if keepdim else out,
                second,
                trailing(x, gone),
                False,
                count,
                number,
                found,
            )
            return
        on_device: cython.bint = not x.storage.device.on_host
        if (
            not on_device  # a backend finds parts itself
            and nr == 1
            and nk == 0
            and count >= 2 * PART
            and ri[0] == item
            and not _HALF[out.dtype_.code]
            and self.in_parts
        ):
            parts: int64_t = (count + PART - 1) // PART
            partial: Tensor = new_empty(
                1, cython.address(parts), cython.NULL, out.dtype_, out.storage.device
            )
            again = self.find(partial, out.dtype_)
            launch_parts(found, again, x, out, partial, count, number)
            return
        put_loops(nr, rs, 1, plan.reduced)
        put_loops(nr, ri, 0, plan.along)
        put_loops(nk, ks, 1, plan.kept)
        put_loops(nk, ki, 0, plan.between)
        put_loops(nk, ko, 0, plan.out)
        if nr == 0:
            plan.along[2] = item
        if count == 0:
            plan.reduced[2] = 0
        data[0] = out.pointer()
        at = 1
        plan.second[0] = plan.second[1] = plan.second[2] = 0  # launches are found by it
        if second is not None:  # fresh like the first: the same strides in elements
            data[1] = second.pointer()
            ratio = second.dtype_.itemsize
            for d in range(3):
                plan.second[d] = plan.out[d] // out.dtype_.itemsize * ratio
            at = 2
        data[at] = x.pointer()
        data[at + 1] = cython.cast(cython.p_char, cython.address(number))
        total: int64_t = out.numel_
        if on_device:
            run_on_device(found, x.storage.device, data, at + 1, plan, total, number)
            return
        kernel: NativeKernel = kernel_of(found, cython.address(plan), item)
        fn: kernel_t = kernel.fn
        grain: int64_t = GRAIN // (count if count else 1) + 1
        if plan.between[2] == item and plan.along[2] != item and grain < ACROSS:
            grain = ACROSS
        ints: cython.pointer(int64_t) = integers(cython.address(plan))
        if watched:
            launch_kernel(
                fn, data, at + 2, ints, WORDS, total,
                total if total * count <= GRAIN else grain,
                cython.cast(cython.p_char, cython.address(number)), 8,
            )  # fmt: skip
        if total * count <= GRAIN:
            run_here(fn, data, ints, total)
            return
        with cython.nogil:
            parallel_for(fn, data, ints, total, grain)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def integers(plan: cython.pointer(ReductionPlan)) -> cython.pointer(int64_t):
    """A plan as kernels take it."""
    return cython.cast(cython.pointer(int64_t), plan)


@cython.cfunc
def kernel_of(
    ways: Ways, plan: cython.pointer(ReductionPlan), item: int64_t
) -> NativeKernel:
    """The kernel for how a plan's rows lie: what one that has all ways would find.

    Args:
        item: bytes of an element of the input.
    """
    if not ways.several:
        return ways.native(ANY_WAY)
    if ways.varying and plan.along[2] != item:
        return ways.native(STRIDED)
    one: cython.bint = plan.reduced[0] == 1 and plan.reduced[1] == 1
    return ways.native(
        TRANSPOSED if one and plan.reduced[2] <= ways.longest else CONTIGUOUS
    )


@cython.cfunc
@cython.exceptval(check=False)
def plan_parts(
    plan: cython.pointer(ReductionPlan), parts: int64_t, item: int64_t, step: int64_t
) -> cython.void:
    """Equal parts of contiguous values: a row each, and a result each.

    Args:
        item, step: bytes from one value, and from one result, to the next.
    """
    d: cython.int
    for d in range(3):
        plan.reduced[d] = plan.kept[d] = 1
        plan.along[d] = plan.between[d] = plan.out[d] = plan.second[d] = 0
    plan.reduced[2], plan.along[2] = PART, item
    plan.kept[2], plan.between[2], plan.out[2] = parts, PART * item, step


@cython.cfunc
def launch_parts(
    first: Ways,
    second: Ways,
    x: Tensor,
    out: Tensor,
    partial: Tensor,
    count: int64_t,
    number: cython.double,
):
    """Reduce contiguous values to one by equal parts, then what the parts gave."""
    plan: ReductionPlan
    ints: cython.pointer(int64_t) = integers(cython.address(plan))
    data: cython.p_char[3]
    one: cython.double = 1
    item: int64_t = x.dtype_.itemsize
    step: int64_t = out.dtype_.itemsize
    parts: int64_t = count // PART
    rest: int64_t = count % PART
    plan_parts(cython.address(plan), parts, item, step)
    data[0] = partial.pointer()
    data[1] = x.pointer()
    data[2] = cython.cast(cython.p_char, cython.address(one))
    fn: kernel_t = kernel_of(first, cython.address(plan), item).fn
    everything: cython.bint = watched >= OBSERVE_ALL
    launch_bytes: cython.p_char = cython.cast(cython.p_char, cython.address(one))
    if everything:
        launch_kernel(fn, data, 3, ints, WORDS, parts, 1, launch_bytes, 8)
    with cython.nogil:
        parallel_for(fn, data, ints, parts, 1)
    plan.kept[2] = 1
    if rest:
        plan.reduced[2] = rest
        data[0] += parts * step
        data[1] += parts * PART * item
        fn = kernel_of(first, cython.address(plan), item).fn
        if everything:
            launch_kernel(fn, data, 3, ints, WORDS, 1, 1, launch_bytes, 8)
        run_here(fn, data, ints, 1)
    plan.reduced[2], plan.along[2] = partial.numel_, step
    data[0] = out.pointer()
    data[1] = partial.pointer()
    data[2] = cython.cast(cython.p_char, cython.address(number))
    # However few the parts are, lanes sum them: one after the other rounds more.
    fn = second.native(CONTIGUOUS if second.several else ANY_WAY).fn
    if everything:
        launch_kernel(fn, data, 3, ints, WORDS, 1, 1, data[2], 8)
    run_here(fn, data, ints, 1)


@cython.cfunc
@cython.exceptval(-1, check=False)
def run_on_device(
    kernel: object,
    device: Device,
    data: cython.pp_char,
    n: cython.int,
    plan: ReductionPlan,
    rows: int64_t,
    number: cython.double,
) -> cython.int:
    """Has a backend run a reduction; its number comes as the last of the integers."""
    k: cython.int
    bits: int64_t
    backend: Backend = backend_of(device)
    ints: cython.pointer(int64_t) = integers(cython.address(plan))
    memcpy(cython.address(bits), cython.address(number), 8)
    addresses: list = []
    for k in range(n):
        addresses.append(cython.cast(uintptr_t, data[k]))
    numbers: list = []
    for k in range(WORDS):
        numbers.append(ints[k])
    backend.launch.run_rows(
        kernel,
        device,
        (*addresses, 0),
        (*numbers, bits),
        rows,
        plan.reduced[0] * plan.reduced[1] * plan.reduced[2],
        plan.kept[2] > 1 and plan.between[2] < plan.along[2],
        ((n, WORDS),),
    )
    return 0


@cython.cfunc
def gathered(x: Tensor, gone: uint64_t) -> Tensor:
    """A row-major copy with kept dimensions first and reduced ones last."""
    d: cython.int
    kept = kept_dims(x, gone)
    reduced = [d for d in range(x.ndim_) if (gone >> d) & 1]
    flat = x.permute(kept + reduced).contiguous()
    return flat.reshape([x.sizes[d] for d in kept] + [-1])


@cython.cfunc
def without_reduced(out: Tensor, x: Tensor, gone: uint64_t) -> Tensor:
    """The memory of a fresh result with only the kept dimensions of ``x``."""
    return out.view([x.sizes[d] for d in kept_dims(x, gone)])


@cython.cfunc
def kept_dims(x: Tensor, gone: uint64_t) -> list:
    d: cython.int
    return [d for d in range(x.ndim_) if not (gone >> d) & 1]


@cython.cfunc
@cython.exceptval(0)
def trailing(x: Tensor, gone: uint64_t) -> uint64_t:
    """The bit of the last dimension of what ``gathered`` makes."""
    one: uint64_t = 1
    kept: cython.int = len(kept_dims(x, gone))
    return one << kept
