"""Compiled ways of running elementwise operators: promote, broadcast, allocate, loop."""

from __future__ import annotations

import importlib

import cython
from cython.cimports.cpython.long import PyLong_AsLongLongAndOverflow
from cython.cimports.libc.stdint import int64_t, uint64_t
from cython.cimports.rushlight.core._python import p_object, pp_object
from cython.cimports.rushlight.core.device import (
    CPU_DEVICE,
    KIND_CPU,
    KIND_META,
    Device,
    backend_of,
)
from cython.cimports.rushlight.core.dtype import (
    BOOLEAN,
    CODE_BFLOAT16,
    CODE_BOOL,
    CODE_FLOAT16,
    CODE_INT64,
    COMPLEX,
    FLOATING,
    INTEGER,
    DType,
    default_dtype,
    dtype_of,
)
from cython.cimports.rushlight.core.geometry import is_dense
from cython.cimports.rushlight.core.iteration import output_strides
from cython.cimports.rushlight.core.keys import RECORDING
from cython.cimports.rushlight.core.overlap import (
    refuse_internal_overlap,
    refuse_partial_overlap,
    repeats_elements,
)
from cython.cimports.rushlight.core.spans import (
    begin_kernel,
    end_kernel,
    timing_kernels,
)
from cython.cimports.rushlight.core.state import notify_readers, state
from cython.cimports.rushlight.core.tensor import Tensor, new_empty
from cython.cimports.rushlight.dispatch.derived import copy_into
from cython.cimports.rushlight.dispatch.destination import destination, take_destination
from cython.cimports.rushlight.dispatch.dispatcher import (
    FUNCTIONAL,
    INPLACE,
    OUT,
    Kernel,
    Operator,
)
from cython.cimports.rushlight.dispatch.enums import (
    ARG_SCALAR,
    ARG_TENSOR_OR_SCALAR,
    RULE_BOOL,
    RULE_FIRST,
    RULE_FLOAT,
    RULE_INT64,
    RULE_PROMOTE_FLOAT,
    RULE_PROMOTE_INTEGER,
    RULE_REAL,
    RULE_SAME,
)
from cython.cimports.rushlight.dispatch.loops import Call, run_call, run_on_device
from cython.cimports.rushlight.dispatch.operands import (
    BESIDE_NUMBER,
    HALVES_ROUND,
    add_operand,
    code_of_number,
    describe,
    device_of_call,
    examine,
    laid_out,
    number_code,
    promote_call,
    refuse_growth,
    same_sizes,
    set_output,
    store_numbers,
    strides_of_result,
)
from cython.cimports.rushlight.dispatch.outputs import (
    CAST,
    EXACT,
    LONE,
    check_output_type,
    fit_output,
    warn_of_expanded,
    write_to_overlapping,
)
from cython.cimports.rushlight.dispatch.writing import INTERNAL_OVERLAP, INTERNAL_WARNS
from cython.cimports.rushlight.runtime.cpu.grain import GRAIN
from cython.cimports.rushlight.runtime.cpu.launch import (
    NativeKernel,
    kernel_t,
    launch_own,
    raise_fault,
    watched,
)

from rushlight.core.dtype import TYPE_NAMES
from rushlight.dispatch.declared import LAYOUT, NUMBER_KINDS, NUMBERS
from rushlight.dispatch.enums import PromotionRule
from rushlight.dispatch.outputs import refuse_mask

# Operators of a thread with this key may wait; see `graph.capture`.
WAITING = cython.declare(uint64_t, RECORDING)

# Result rules of the tables, by number.
RULES = {rule.name.lower(): int(rule) for rule in PromotionRule}


@cython.cfunc
@cython.exceptval(check=False)
def shares(
    out: Tensor, slots: pp_object, kernel: PointwiseKernel, start: cython.int
) -> cython.bint:
    """Whether an input is another window on the storage that is written."""
    i: cython.int
    for i in range(start, kernel.n_operands):
        item = cython.cast(object, slots[kernel.positions[i]])
        if (
            isinstance(item, Tensor)
            and item is not out
            and (cython.cast(Tensor, item).storage is out.storage)
        ):
            return True
    return False


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def fits_int64(value: object) -> cython.bint:
    overflow: cython.int = 0
    PyLong_AsLongLongAndOverflow(value, cython.address(overflow))
    return overflow == 0


@cython.cfunc
@cython.exceptval(check=False)
def steps_freely(t: Tensor) -> cython.bint:
    """Whether a row-major tensor's dimensions of one element have steps of their own."""
    step: int64_t = 1
    d: cython.int
    for d in range(t.ndim_ - 1, -1, -1):
        if t.strides[d] != step:
            return True
        step *= t.sizes[d] if t.sizes[d] else 1
    return False


@cython.cfunc
@cython.exceptval(check=False)
def type_rule(op: Operator, call: cython.pointer(Call)) -> cython.int:
    """Which types ``out=`` may have, if that depends on the last operand, too."""
    last: cython.int = call.n - 1
    if op.out_rule != LONE:
        return op.out_rule
    if call.is_tensor[last]:
        if cython.cast(Tensor, cython.cast(object, call.values[last])).ndim_:
            return EXACT
    return CAST


@cython.cfunc
@cython.exceptval(-1, check=False)
def check_mask(op: Operator, mask: object) -> cython.int:
    kind: DType
    if isinstance(mask, Tensor):
        kind = cython.cast(Tensor, mask).dtype_
        if kind.code != CODE_BOOL:
            refuse_mask(op.name.split(".")[0], kind)
    return 0


@cython.cfunc
def write_rounded(op: Operator, slots: pp_object, targets: list) -> object:
    """Write results to outputs of other types, in the results' own types first."""
    found = op.functional.call(slots)
    results = [found] if len(targets) == 1 else found
    for target, result in zip(targets, results, strict=True):
        copy_into(target, result)
    return cython.cast(object, slots[op.n_args - 1])


@cython.cclass
class PointwiseKernel(Kernel):
    """An elementwise operator: one generated kernel for each combination of types."""

    def __init__(
        self,
        source,
        op: Operator,
        rule,
        promoting,
        static,
        module,
        optional=0,
        check=None,
    ):
        i: cython.int
        positions = [
            i
            for i, row in enumerate(op.signature.rows)
            if i not in static and row[0] not in ("out", "dtype")
        ]
        self.source = source
        self.n_operands = len(positions)
        for i in range(self.n_operands):
            self.positions[i] = positions[i]
        self.static_positions = tuple(static)
        self.n_outputs = max(1, len(op.returns))
        self.promoting = 0
        for i in range(self.n_operands):
            if not promoting or positions[i] in promoting:
                self.promoting |= 1 << i
        self.n_optional = optional
        names = op.signature.names
        self.mask_at = -1
        for name in ("condition", "mask"):
            if name in names:
                self.mask_at = names.index(name)
        self.defaults = tuple([op.signature.defaults[p] for p in positions])
        for i in range(256):
            self.native[i] = cython.NULL
            self.native_result[i] = 0
        self.rule = RULES.get(rule, -1)
        if self.rule < 0:
            self.rule_function = getattr(importlib.import_module(module), rule)
        if check is not None:
            self.checker = getattr(importlib.import_module(check[0]), check[1])
        numbers = op.entry[NUMBERS] if op.entry else ()
        layout = op.entry[LAYOUT] if op.entry else ()
        self.wide = self.strict = 0
        for i in range(self.n_operands):
            lone = op.signature.rows[positions[i]][1] in NUMBER_KINDS
            if lone and "rounded" not in numbers:
                self.wide |= 1 << i
            if (lone and "unchecked" not in numbers) or "strict" in numbers:
                self.strict |= 1 << i
        if "round_halves" in numbers:
            self.strict |= HALVES_ROUND
        self.wide_lone = self.n_operands - 1 if "wide_last" in numbers else -1
        self.alone_wide = "wide_alone" in numbers
        if self.wide_lone >= 0:
            self.wide |= 1 << self.wide_lone
        self.swapped = "second_first" in layout
        self.copied = "dense_copy" in layout
        self.shaped = 0
        for i in range(self.n_operands):
            kind = op.signature.rows[positions[i]][1]
            if (
                kind == ARG_TENSOR_OR_SCALAR or (kind == ARG_SCALAR and i == 0)
            ) and "without_numbers" not in layout:
                self.shaped |= 1 << i
        self.plain_result = "row_major" in layout
        self.kept = 15 if "strides" in layout else 0
        if "complex_strides" in layout:
            self.kept |= 1 << COMPLEX
        if "integer_strides" in layout:
            self.kept |= 1 << BOOLEAN | 1 << INTEGER
        if "with_number" in layout:
            self.shaped |= BESIDE_NUMBER
        self.special = {}
        self.device_kernels = {}

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def resolve(self, call: cython.pointer(Call)) -> cython.int:
        """Compute and result types from the operands and the operator's rule."""
        code: cython.int = -1
        i: cython.int
        uniform: cython.bint = True
        dtype: DType
        other: cython.int
        for i in range(call.n):
            if call.is_tensor[i]:
                other = cython.cast(
                    Tensor, cython.cast(object, call.values[i])
                ).dtype_.code
                if code < 0:
                    code = other
                elif code != other:
                    uniform = False
            elif (self.promoting >> i) & 1 and code_of_number(
                cython.cast(object, call.values[i])
            ) != 4:
                uniform = uniform and type(cython.cast(object, call.values[i])) is float
                if code < 0 or dtype_of(code).category < FLOATING:
                    uniform = False
        if code >= 0 and uniform and (dtype_of(code).category or call.n == 1):
            call.compute = code
        elif self.rule == RULE_SAME:
            call.compute = code
        else:
            call.compute = promote_call(call, self.promoting)
        dtype = dtype_of(call.compute)
        if self.rule == RULE_PROMOTE_FLOAT and dtype.category < FLOATING:
            call.compute = default_dtype().code
        elif self.rule == RULE_PROMOTE_INTEGER and dtype.category == BOOLEAN:
            call.compute = CODE_INT64
        elif self.rule == RULE_FLOAT and dtype.category < FLOATING:
            raise NotImplementedError(
                f"{self.source.name} is not implemented for "
                f"'{TYPE_NAMES.get(dtype.name)}': convert to a floating-point type"
            )
        call.result = call.compute
        if self.rule == RULE_BOOL:
            call.result = CODE_BOOL
        elif self.rule == RULE_INT64:
            call.result = CODE_INT64
        elif self.rule == RULE_REAL and dtype.category == COMPLEX:
            call.result = dtype.to_real().code
        elif self.rule == RULE_FIRST:
            call.result = code
        call.mixed = not uniform or code != call.compute
        if self.alone_wide and dtype.itemsize == 2 and dtype.category == FLOATING:
            call.mixed = True  # kernels differ by whether the last has one element
        for i in range(call.n):  # numbers may be of another type than the tensors
            if not call.is_tensor[i] and (
                number_code(call.compute, (self.wide >> i) & 1) != call.compute
            ):
                call.mixed = True
        if self.checker is not None and (
            not uniform
            or code != call.compute
            or (
                dtype.category != FLOATING and (dtype.category != INTEGER or call.n > 2)
            )
            or (self.n_optional and call.n == self.n_operands)
        ):
            self.check_operands(call)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def check_operands(self, call: cython.pointer(Call)) -> cython.int:
        """Lets the operator's own rule refuse operands by their types."""
        self.checker(*[cython.cast(object, call.values[i]) for i in range(call.n)])
        return 0

    @cython.cfunc
    def compute_types(self, call: cython.pointer(Call)) -> object:
        """The name of the compute type, or a tuple with one for each operand."""
        name: str = dtype_of(call.compute).name
        i: cython.int
        wide: cython.bint
        found: cython.bint = False
        names: list
        t: Tensor
        if call.compute != CODE_FLOAT16 and call.compute != CODE_BFLOAT16:
            return name
        names = []
        for i in range(call.n):
            wide = (self.wide >> i) & 1 and not call.is_tensor[i]
            if i == self.wide_lone and call.is_tensor[i]:
                t = cython.cast(Tensor, cython.cast(object, call.values[i]))
                wide = t.numel_ == 1 and (
                    self.alone_wide or t.dtype_.code != call.compute
                )
            found = found or wide
            names.append("float32" if wide else name)
        return tuple(names) if found else name

    @cython.cfunc
    @cython.exceptval(check=False)
    def result_strides(
        self, call: cython.pointer(Call), strides: cython.pointer(int64_t)
    ) -> cython.bint:
        """The strides of a new result; True where they are row-major."""
        t: Tensor
        d: cython.int
        if self.kept and call.is_tensor[0]:
            t = cython.cast(Tensor, cython.cast(object, call.values[0]))
            if (self.kept >> t.dtype_.category) & 1 and same_sizes(t, call):
                if not (t.row_major or is_dense(t.ndim_, t.sizes, t.strides)):
                    return output_strides(
                        cython.address(call.operands[call.n_out]),
                        1,
                        t.ndim_,
                        t.sizes,
                        strides,
                    )
                for d in range(t.ndim_):
                    strides[d] = t.strides[d]
                return False
        if self.plain_result or (call.flat and not self.keeps_steps(call)):
            return True
        return strides_of_result(
            call, self.promoting, self.swapped, self.copied, self.shaped, strides
        )

    @cython.cfunc
    @cython.exceptval(check=False)
    def keeps_steps(self, call: cython.pointer(Call)) -> cython.bint:
        """Whether steps of single elements outlast a row-major call: beside a number."""
        i: cython.int
        odd: cython.bint = False
        numbers: cython.bint = False
        for i in range(call.n):
            if call.is_tensor[i]:
                odd = odd or steps_freely(
                    cython.cast(Tensor, cython.cast(object, call.values[i]))
                )
            else:
                numbers = numbers or (self.shaped >> i) & 1
        return odd and numbers

    @cython.cfunc
    def fresh_output(
        self, call: cython.pointer(Call), code: cython.int, device: Device
    ) -> Tensor:
        """A result laid out as the operator lays it out."""
        strides: int64_t[64]
        if self.result_strides(call, strides):
            return new_empty(call.ndim, call.sizes, cython.NULL, dtype_of(code), device)
        return new_empty(call.ndim, call.sizes, strides, dtype_of(code), device)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def prepare_target(
        self, t: Tensor, call: cython.pointer(Call), op: Operator, result: DType
    ) -> cython.int:
        """Refuse to write where type, shape or memory do not allow it; resize ``out``."""
        strides: int64_t[64]
        i: cython.int
        if t.storage.device.kind != call.device_kind:
            raise RuntimeError(
                "Expected all tensors to be on the same device, but the result goes to "
                f"{t.storage.device}{describe(call, op.name)}"
            )
        refuse_internal_overlap(t)
        self.refuse_reading(t, call)  # in the memory that it has now
        grows: cython.bint = op.form == OUT and not same_sizes(t, call)
        if grows:
            refuse_growth(t, call)
        rule: cython.int = type_rule(op, call)
        if self.rule == RULE_REAL and call.result != call.compute:
            rule = CAST  # what is real of complex numbers is copied there
        check_output_type(rule, result, t, op.base_name())
        if grows:
            plain: cython.bint = self.result_strides(call, strides)
            fit_output(
                t,
                call.ndim,
                call.sizes,
                cython.NULL if plain else strides,
                op.out_quiet,
            )
            self.refuse_reading(t, call)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def refuse_reading(self, t: Tensor, call: cython.pointer(Call)) -> cython.int:
        """Refuse to write into a part of an operand; know where operands are now."""
        i: cython.int
        item: Tensor
        for i in range(call.n):
            if call.is_tensor[i]:
                item = cython.cast(Tensor, cython.cast(object, call.values[i]))
                refuse_partial_overlap(t, item)
                call.operands[call.n_out + i].data = item.pointer()
        return 0

    @cython.cfunc
    def run_converted(
        self,
        op: Operator,
        slots: pp_object,
        call: cython.pointer(Call),
        target: Tensor,
        result: DType,
    ) -> Tensor:
        """Write to what takes memory that operands lie in, once all of them are read.

        PyTorch looks at the memory before it grows, and overwrites what it has yet to
        read.
        """
        refuse_internal_overlap(target)
        self.refuse_reading(target, call)
        refuse_growth(target, call)
        check_output_type(type_rule(op, call), result, target, op.base_name())
        found: Tensor = op.functional.call(slots)
        fit_output(target, call.ndim, call.sizes, found.strides, op.out_quiet)
        return copy_into(target, found)

    @cython.cfunc
    def run_uniform(self, op: Operator, slots: pp_object, count: cython.int) -> Tensor:
        """The common case: row-major CPU tensors of one shape and type, few elements.

        Floating tensors may have Python numbers beside them. None where the call is
        anything else, and before the kernel for the type has been found once.
        """
        first: Tensor = None
        t: Tensor
        out: Tensor
        operands: p_object[3]
        data: cython.p_char[4]
        ints: int64_t[9]
        scalars: cython.double[4]
        numbers: cython.bint = False
        number: cython.double
        single: cython.float
        i: cython.int
        d: cython.int
        for i in range(count):
            item = cython.cast(object, slots[self.positions[i]])
            if isinstance(item, Tensor):
                t = cython.cast(Tensor, item)
                if not t.row_major or t.storage.device is not CPU_DEVICE:
                    return None
                if first is None:
                    first = t
                    if t.numel_ > GRAIN or t.numel_ == 0:
                        return None
                elif t.dtype_ is not first.dtype_ or t.ndim_ != first.ndim_:
                    return None
                else:
                    for d in range(t.ndim_):
                        if t.sizes[d] != first.sizes[d]:
                            return None
                data[1 + i] = t.pointer()
                ints[2 + i] = t.dtype_.itemsize
            elif type(item) is float or (type(item) is int and fits_int64(item)):
                data[1 + i] = cython.NULL
                ints[2 + i] = 0
                numbers = True
            else:
                return None
        if first is None or first.wrapped_number:
            return None
        if watched:  # all of them is told
            scalars[0] = scalars[1] = scalars[2] = scalars[3] = 0
        if numbers and number_code(first.dtype_.code, False) != first.dtype_.code:
            return None  # numbers beside half precision are passed as float32
        if (numbers or self.kept) and steps_freely(first):
            return None
        i = (self.n_operands - count) * 64 + first.dtype_.code
        fn: kernel_t = self.native[i]
        if fn == cython.NULL:
            return None
        d = self.native_result[i]
        code: cython.int = first.dtype_.code
        for i in range(count):
            if data[1 + i] == cython.NULL:
                if code == 6:
                    number = cython.cast(object, slots[self.positions[i]])
                    single = cython.cast(cython.float, number)
                    if single - single != 0 and number - number == 0:
                        return None  # too large: it may be refused
                    cython.cast(cython.p_float, cython.address(scalars[i]))[0] = single
                elif code == 7:
                    scalars[i] = cython.cast(object, slots[self.positions[i]])
                else:
                    return None
                data[1 + i] = cython.cast(cython.p_char, cython.address(scalars[i]))
        if op.form == FUNCTIONAL:
            out = None
            if destination != cython.NULL:
                for i in range(count):
                    operands[i] = slots[self.positions[i]]
                out = take_destination(first.ndim_, first.sizes, d, operands, count)
            if out is None:
                out = new_empty(
                    first.ndim_, first.sizes, cython.NULL, dtype_of(d), CPU_DEVICE
                )
        elif op.form == OUT:
            item = cython.cast(object, slots[op.n_args - 1])
            if not isinstance(item, Tensor):
                return None
            out = cython.cast(Tensor, item)
            if (
                not out.row_major
                or out.storage.device is not CPU_DEVICE
                or out.dtype_.code != d
                or out.ndim_ != first.ndim_
                or shares(out, slots, self, 0)
            ):
                return None
            for i in range(out.ndim_):
                if out.sizes[i] != first.sizes[i]:
                    return None
        else:
            out = cython.cast(Tensor, cython.cast(object, slots[0]))
            if (
                out is not first
                or d != code
                or (count > 1 and shares(out, slots, self, 1))
            ):
                return None
        data[0] = out.pointer()
        ints[0] = first.numel_
        ints[1] = out.dtype_.itemsize
        if watched:
            launch_own(
                fn, data, 1 + count, ints, 2 + count,
                cython.cast(cython.p_char, scalars), 32,
            )  # fmt: skip
        begun: int64_t = begin_kernel() if timing_kernels else 0
        faults: cython.int = fn(data, ints, 0, 1)
        if begun:
            end_kernel(cython.cast(cython.p_void, fn), first.numel_, begun, 0, 0)
        if faults:
            raise_fault(faults)
        return out

    @cython.cfunc
    def run(self, op: Operator, slots: pp_object, keys: uint64_t) -> object:
        call: Call
        i: cython.int
        fn: kernel_t
        outs: tuple = None
        call.n = 0
        call.n_out = self.n_outputs
        call.device_kind = KIND_CPU
        if self.mask_at >= 0:
            check_mask(op, cython.cast(object, slots[self.mask_at]))
        count: cython.int = self.n_operands
        for _ in range(self.n_optional):
            item = cython.cast(object, slots[self.positions[count - 1]])
            default = self.defaults[count - 1]
            if item is not default and (item is True or item != default):
                break
            if self.checker is not None and type(item) is not type(default):
                # 1.0 changes nothing where 1 does not, but may be refused
                self.checker(
                    *[
                        cython.cast(object, slots[self.positions[i]])
                        for i in range(count)
                    ]
                )
            count -= 1
        if count <= 3 and self.n_outputs == 1:
            quick: Tensor = self.run_uniform(op, slots, count)
            if quick is not None:
                return quick
        for i in range(count):
            add_operand(
                cython.address(call), cython.cast(object, slots[self.positions[i]])
            )
        statics: tuple = ()
        if self.static_positions:
            statics = tuple(
                [
                    cython.cast(object, slots[cython.cast(cython.int, p)])
                    for p in self.static_positions
                ]
            )
        if self.rule_function is None:
            self.resolve(cython.address(call))
        else:
            outs = self.resolve_by_function(cython.address(call))
        examine(cython.address(call), op.name)
        if op.form == FUNCTIONAL and self.n_outputs == 1:
            result: Tensor = None
            if destination != cython.NULL and call.device_kind == KIND_CPU:
                result = take_destination(
                    call.ndim, call.sizes, call.result, call.values, call.n
                )
            if result is None:
                result = self.fresh_output(
                    cython.address(call),
                    call.result,
                    device_of_call(cython.address(call)),
                )
            set_output(cython.address(call), 0, result)
            if call.device_kind == KIND_META:
                return result
            if not result.storage.device.on_host:
                device: Device = result.storage.device
                store_numbers(cython.address(call), self.wide, self.strict)
                kernel: object = None
                if not call.mixed and not statics:
                    i = (self.n_operands - call.n) * 64 + call.compute
                    kernel = self.device_kernels.get(i | device.kind << 8)
                if kernel is None:
                    names = (dtype_of(call.result).name,)
                    kernel = self.find_for_device(
                        cython.address(call), device, statics, names
                    )
                run_on_device(kernel, device, cython.address(call))
                return result
            fn = cython.NULL
            if not call.mixed and not statics:
                fn = self.native[(self.n_operands - call.n) * 64 + call.compute]
            if fn == cython.NULL:
                fn = self.find(
                    cython.address(call), statics, (dtype_of(call.result).name,)
                ).fn
            # a kernel that is missing is told of before a number that is too large
            store_numbers(cython.address(call), self.wide, self.strict)
            run_call(fn, cython.address(call))
            return result
        return self.run_form(op, slots, cython.address(call), statics, outs)

    @cython.cfunc
    def run_form(
        self,
        op: Operator,
        slots: pp_object,
        call: cython.pointer(Call),
        statics: tuple,
        outs: tuple,
    ) -> object:
        """Several outputs, in-place and out= forms."""
        k: cython.int
        targets: list = []
        if op.form == INPLACE:
            targets.append(cython.cast(object, slots[0]))
            if outs is None and call.result != call.compute and self.rule == RULE_REAL:
                # complex numbers have real results, which have no room there
                name = op.base_name().removesuffix("_")
                raise RuntimeError(
                    f"In-place {name} is not supported for complex tensors."
                )
            if not same_sizes(targets[0], call):
                raise RuntimeError(
                    f"output with shape {list(targets[0].shape)} doesn't match the "
                    f"broadcast shape {[call.sizes[k] for k in range(call.ndim)]}"
                )
            if op.out_overlap & INTERNAL_OVERLAP and repeats_elements(targets[0]):
                if op.out_overlap & INTERNAL_WARNS:
                    warn_of_expanded(op.base_name())
                return write_to_overlapping(targets[0], op.functional.call(slots), True)
        elif op.form == OUT:
            given = cython.cast(object, slots[op.n_args - 1])
            targets.extend([given] if isinstance(given, Tensor) else given)
            if (
                self.n_outputs == 1
                and not same_sizes(targets[0], call)
                and shares(targets[0], slots, self, 0)
            ):
                code = call.result if outs is None else _code_named(outs[0])
                return self.run_converted(op, slots, call, targets[0], dtype_of(code))
        else:
            device = device_of_call(call)
            for k in range(self.n_outputs):
                code = call.result if outs is None else _code_named(outs[k])
                targets.append(self.fresh_output(call, code, device))
        differs: cython.bint = self.place_targets(op, call, targets, outs)
        if differs and op.form == OUT:  # rounded to the result's own type first
            return write_rounded(op, slots, targets)
        if call.device_kind != KIND_META:
            names = tuple([cython.cast(Tensor, t).dtype_.name for t in targets])
            where: Device = cython.cast(Tensor, targets[0]).storage.device
            if where.on_host:
                native = self.find(call, statics, names)
                store_numbers(call, self.wide, self.strict)
                run_call(native.fn, call)
            else:
                store_numbers(call, self.wide, self.strict)
                found = self.find_for_device(call, where, statics, names)
                run_on_device(found, where, call)
        if op.form == OUT:
            return cython.cast(object, slots[op.n_args - 1])
        return targets[0] if self.n_outputs == 1 else tuple(targets)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def place_targets(
        self, op: Operator, call: cython.pointer(Call), targets: list, outs: tuple
    ) -> cython.int:
        """Have a call write to its outputs; whether one has not its result's type."""
        k: cython.int
        differs: cython.int = 0
        for k in range(self.n_outputs):
            if op.form != FUNCTIONAL:
                code = call.result if outs is None else _code_named(outs[k])
                self.prepare_target(targets[k], call, op, dtype_of(code))
                differs |= cython.cast(Tensor, targets[k]).dtype_.code != code
            set_output(call, k, targets[k])
        return differs

    @cython.cfunc
    def resolve_by_function(self, call: cython.pointer(Call)) -> tuple:
        """A rule of the operator's own: operand types in, (compute, outputs) out."""
        dtypes = []
        i: cython.int
        for i in range(call.n):
            if (self.promoting >> i) & 1:
                value = cython.cast(object, call.values[i])
                dtypes.append(
                    cython.cast(Tensor, value).dtype_
                    if call.is_tensor[i]
                    else dtype_of(code_of_number(value))
                )
        compute, outs = self.rule_function(*dtypes)
        call.compute = _code_named(compute)
        call.result = _code_named(outs[0])
        call.mixed = True
        return outs

    @cython.cfunc
    def operand_types(self, call: cython.pointer(Call)) -> tuple:
        """The names of the operands' types, those of numbers too."""
        i: cython.int
        code: cython.int
        t: Tensor
        types: list = []
        for i in range(call.n):
            if call.is_tensor[i]:
                t = cython.cast(Tensor, cython.cast(object, call.values[i]))
                types.append(t.dtype_.name)
            else:
                code = number_code(call.compute, (self.wide >> i) & 1)
                types.append(dtype_of(code).name)
        return tuple(types)

    @cython.cfunc
    def find_for_device(
        self, call: cython.pointer(Call), device: Device, statics: tuple, outs: tuple
    ) -> object:
        """The backend's own kernel for these types where the operands are."""
        i: cython.int
        key = (
            device.kind,
            self.operand_types(call),
            outs,
            self.compute_types(call),
            statics,
        )
        kernel = self.special.get(key)
        if kernel is None:
            kernel = backend_of(device).launch.specialize(self.source, *key[1:])
            kernel = self.special.setdefault(key, kernel)
        if not call.mixed and not statics and outs == (dtype_of(call.result).name,):
            i = (self.n_operands - call.n) * 64 + call.compute
            self.device_kernels[i | device.kind << 8] = kernel
        return kernel

    @cython.cfunc
    def find(
        self, call: cython.pointer(Call), statics: tuple, outs: tuple
    ) -> NativeKernel:
        """The native kernel for these types, generated at the first need."""
        i: cython.int
        names = self.operand_types(call)
        compute = self.compute_types(call)
        key = (names, outs, compute, statics)
        kernel = self.special.get(key)
        if kernel is None:
            kernel = self.source.specialize(names, outs, compute, statics)
            # the first of several threads wins: its code is kept alive here
            kernel = self.special.setdefault(key, kernel)
        if not call.mixed and not statics and outs == (dtype_of(call.result).name,):
            i = (self.n_operands - call.n) * 64 + call.compute
            self.native[i] = cython.cast(NativeKernel, kernel).fn
            self.native_result[i] = call.result
        return kernel


def _code_named(name):
    from rushlight.core.dtype import all_dtypes

    return all_dtypes()[name].code


def run_pointwise(
    source, inputs, outputs=None, out_dtypes=None, compute=None, static=()
):
    """One generic elementwise launch of a ``@pointwise`` kernel from Python.

    Args:
        source: the kernel.
        inputs: tensors or numbers, broadcast against each other.
        outputs: tensors to write, or None to allocate as ``out_dtypes`` says.
        out_dtypes: names of the results' types; default the compute type.
        compute: name of the type to compute in; default the promoted one.
        static: compile-time arguments.
    """
    call: Call
    k: cython.int
    if state().included & WAITING:
        notify_readers()
    call.n = 0
    call.device_kind = KIND_CPU
    count = len(outputs) if outputs is not None else len(out_dtypes or (0,))
    call.n_out = count
    for value in inputs:
        add_operand(cython.address(call), value)
    call.compute = (
        promote_call(cython.address(call), 0xFFFFFFFF)
        if compute is None
        else _code_named(compute)
    )
    compute_name = dtype_of(call.compute).name
    examine(cython.address(call), source.name)
    if outputs is None:
        names = tuple(out_dtypes) if out_dtypes else (compute_name,)
        outputs = outputs_of(cython.address(call), [_code_named(n) for n in names])
    else:
        widen(cython.address(call), outputs[0])
        names = tuple([t.dtype.name for t in outputs])
    for k in range(count):
        set_output(cython.address(call), k, outputs[k])
        if not cython.cast(Tensor, outputs[k]).storage.device.has_memory:
            call.device_kind = KIND_META
    if call.device_kind != KIND_META:
        store_numbers(cython.address(call), 0xFFFFFFFF, 0)
        scalar = dtype_of(number_code(call.compute, True)).name
        types = tuple(
            [v.dtype.name if isinstance(v, Tensor) else scalar for v in inputs]
        )
        kinds = [compute_name if isinstance(v, Tensor) else scalar for v in inputs]
        where: Device = cython.cast(Tensor, outputs[0]).storage.device
        if where.on_host:
            kernel = source.specialize(types, names, tuple(kinds), tuple(static))
            run_call(cython.cast(NativeKernel, kernel).fn, cython.address(call))
        else:
            kernel = backend_of(where).launch.specialize(
                source, types, names, tuple(kinds), tuple(static)
            )
            run_on_device(kernel, where, cython.address(call))
    return outputs[0] if count == 1 else tuple(outputs)


@cython.cfunc
def outputs_of(call: cython.pointer(Call), codes: list) -> list:
    """Fresh outputs of types, or the one that is offered for the only one."""
    device: Device = device_of_call(call)
    if len(codes) == 1 and destination != cython.NULL and device.on_host:
        out: Tensor = take_destination(
            call.ndim, call.sizes, codes[0], call.values, call.n
        )
        if out is not None:
            return [out]
    return [laid_out(call, code, device) for code in codes]


@cython.cfunc
def widen(call: cython.pointer(Call), target: Tensor):
    """Broadcast the inputs to the sizes of a given output."""
    d: cython.int
    ok: cython.bint = call.ndim <= target.ndim_
    if ok:
        for d in range(call.ndim):
            size: int64_t = call.sizes[d]
            ok = ok and (
                size == 1 or size == target.sizes[target.ndim_ - call.ndim + d]
            )
    if not ok:
        raise RuntimeError(
            f"output with shape {list(target.shape)} doesn't match the broadcast shape "
            f"{[call.sizes[d] for d in range(call.ndim)]}"
        )
    if not same_sizes(target, call):
        call.flat = False
    call.ndim = target.ndim_
    call.numel = target.numel_
    for d in range(target.ndim_):
        call.sizes[d] = target.sizes[d]


def promoted_type(values):
    """The type that arithmetic on tensors and numbers together would have."""
    call: Call
    call.n = 0
    call.n_out = 0
    for value in values:
        if not isinstance(value, Tensor) or call.n >= 12:
            add_operand(cython.address(call), value)
            continue
        # its type and its rank are asked, not its memory: it may have none
        call.values[call.n] = cython.cast(p_object, value)
        call.is_tensor[call.n] = True
        call.n += 1
    return dtype_of(promote_call(cython.address(call), 0xFFFFFFFF))
