"""Differences from PyTorch that are meant, or are PyTorch's: each with its reason."""

from __future__ import annotations

import re

import numpy as np

from tests.fuzz.factors import recomposed, same_spectrum
from tests.fuzz.faults import tells_another_fault
from tests.fuzz.specs import EPSILON, TensorSpec

# (operator, kind of difference, the difference's text, why it stands)
EXPLAINED = [
    (
        r".*",
        r"class",
        r"TypeError: .* for RuntimeError: .*scalar\.isIntegral.*",
        "PyTorch takes a tensor of a truth value for an integer, and stumbles over it",
    ),
    (
        r"nn\.functional\.scaled_dot_product_attention",
        r"accepted",
        r".*Currently do not support dropout > 0",
        "no chance of being left out: one of PyTorch's two kernels refuses it",
    ),
    (
        r"linalg\.cholesky_ex",
        r"values",
        r"result\[0\]: .*",
        "what is left of a matrix that could not be factored; the codes agree",
    ),
    (
        r"stft",
        r"refused|class",
        r"TypeError: .*argument '(center|return_complex)' must be bool.*",
        "PyTorch's Python asks whatever it is given for its truth",
    ),
    (
        r"linalg\.matrix_power",
        r"accepted|gradient",
        r".*(functions with out=|Expected out tensor to have dtype).*|.*requires_grad is True",
        "PyTorch refuses out= by what writes it, a product, an inverse or a copy",
    ),
    (
        r"fft\.\w+",
        r"class",
        r"IndexError: Dim.* for RuntimeError: \w+ expects a .* output tensor, but got .*",
        "of two faults PyTorch tells that of out= first",
    ),
    (
        r"fft\.(ifft|ihfft)",
        r"accepted",
        r".*Found dtype Complex(Double|Float) but expected Complex.*",
        "PyTorch turns what it computed into the conjugate in out= itself",
    ),
    (
        r"nn\.functional\.ctc_loss",
        r"refused",
        r".*labels are between 0 and.*",
        "labels that there are none of, which PyTorch does not look at",
    ),
    (
        r"nn\.functional\.fractional_max_pool[23]d",
        r"refused",
        r".*pool (time|height|width) -?\d{12,} too large.*",
        "windows so large that PyTorch's sums for their places overflow",
    ),
    (
        r"(add|sub|baddb|addb|b)?mm|matmul|mv|addm[mv]|nn\.functional\.(linear|conv.*)",
        r"values|gradient",
        r".*\(?-?inf[+-]inf\)?j?.*, not \(?nan[+-]nan.*",
        "infinite complex products, whose parts PyTorch adds in another order",
    ),
    (
        r"(masked\.)?(cum)?prod|nn\.functional\.grid_sample",
        r"gradient",
        r".*is -?(inf|nan), not -?(inf|nan)",
        "overflow on another way",
    ),
    (
        r"linalg\.det",
        r"accepted",
        r".*(torch\.lu_factor: Expected tensor with 2 or more|tensor\.mH is only).*",
        "PyTorch resizes the matrix that is its own out= before it reads it",
    ),
    (
        r"linalg\.solve",
        r"accepted",
        r".*torch\.linalg\.lu_solve: A must be batches of square matrices.*",
        "PyTorch resizes the matrix that is its own out= before it reads it",
    ),
    (
        r"linalg\.ldl_solve",
        r"gradient",
        r".*requires_grad is False",
        "PyTorch has no gradient here, and lets out= require one",
    ),
    (
        r"special\.ndtr",
        r"gradient",
        r".*requires_grad is False",
        "PyTorch makes ndtr of other operators, and copies their graph into out=",
    ),
    (
        r"linalg\.ldl_solve",
        r"refused",
        r".*must be negative in pairs.*",
        "PyTorch takes pivots for which LAPACK leaves the matrix",
    ),
    (
        r".*",
        r"accepted",
        r".*NotImplementedError: .*not implemented for.*",
        "a type for which PyTorch has no kernel",
    ),
    (
        r"sort",
        r"values",
        r"result\[1\]: .*",
        "places of equal elements: PyTorch's vector instructions do not sort stably",
    ),
    (r"argsort", r"values", r"result: .*", "places of equal elements, as for sort"),
    (r"m?sort", r"gradient", r"\[0\]: .*", "places of equal elements, as for sort"),
    (
        r"(std|var)(_mean)?",
        r"gradient",
        r".* not (-?inf|nan)",
        "PyTorch counts the elements of dim=() as one in the gradient",
    ),
    (
        r"native_group_norm",
        r"accepted",
        r".*Expected X\.is_contiguous.*",
        "a demand of PyTorch's kernel that group_norm meets",
    ),
    (
        r"native_batch_norm",
        r"refused",
        r".*(more than one element of the written-to|should contain).*",
        "PyTorch writes beside the running statistics, or into them several times",
    ),
    (
        r".*",
        r"accepted",
        r".*does not support automatic differentiation for outputs with complex.*",
        "gradients of complex numbers that PyTorch has no formulas for",
    ),
    (
        r".*",
        r"class",
        r".*for NotImplementedError: .*not implemented for 'UInt(16|32|64)'",
        "wrong arguments of types that PyTorch has no kernel for",
    ),
    (
        r"(nn\.functional\.|native_)batch_norm",
        r"class",
        r"IndexError: Dimension out of range.*for RuntimeError: (running_\w+ should|Small).*",
        "PyTorch looks for the channels of a vector behind its sizes",
    ),
    (
        r"(unsafe_)?chunk",
        r"accepted",
        r".*split_size can only be 0 .*|.*got split_size=-.*",
        "so many chunks that PyTorch's sum for their size overflows",
    ),
    (
        r"fft\..*",
        r"accepted",
        r".*MKL FFT error.*Inconsistent configuration parameters",
        "oneMKL has no plan for a batch of no signals",
    ),
    (
        r"nn\.functional\.pad",
        r"refused|class",
        r".*around the (0|-\d+) elements that are left.*",
        "PyTorch's circular padding returns memory that nothing was written to",
    ),
    (
        r"kron",
        r"accepted",
        r".*view size is not compatible.*",
        "PyTorch's kron sees the product of strided operands in a shape it may not have",
    ),
    (
        r"logsumexp",
        r"accepted",
        r".*output with shape \[\] doesn't match.*",
        "PyTorch loses the dimensions of dim=() between two steps",
    ),
    (
        r"nn\.functional\.conv.*",
        r"class",
        r"RuntimeError: Input type .* for NotImplementedError: .(slow_conv|compute).*",
        "operands of two types: PyTorch's plain kernels refuse the input's type first",
    ),
    (
        r"nn\.functional\.conv[123]d",
        r"refused",
        r".*Input type .* and bias type .* should be the same.*",
        "PyTorch's dilated kernels add a bias of any type, the others refuse it",
    ),
    (
        r"nn\.functional\.conv.*",
        r"accepted",
        r".*could not create a primitive descriptor.*",
        "sizes that oneDNN has no plan for",
    ),
    (
        r"nn\.functional\.conv_transpose.*",
        r"values",
        r".*, not \(?nan.*",
        "oneDNN multiplies zeros between elements by infinite weights, others do not",
    ),
    (
        r"nn\.functional\.(batch|instance)_norm",
        r"values",
        r".*is -?inf, not nan",
        "PyTorch folds mean times weight into the shift: infinite weights leave NaN",
    ),
    (
        r"nn\.functional\.multi(label_)?_?margin_loss",
        r"class",
        r".*for NotImplementedError: .*not implemented for '(Half|BFloat16)'",
        "wrong targets of types that PyTorch has no kernel for",
    ),
    (
        r"nn\.functional\.multilabel_margin_loss",
        r"values",
        r"result: 1 of 1: \[0\] is nan, not .*",
        "PyTorch's mean over no rows is never written",
    ),
    (
        r"nn\.functional\.soft_margin_loss",
        r"gradient",
        r".*, not (nan|-?0\.0)",
        "PyTorch negates unsigned targets, and overflows in half precision",
    ),
    (
        r"nn\.functional\..*_loss",
        r"class",
        r".*for UFuncTypeError: .*",
        "a NumPy number for a reduction is added to a text",
    ),
    (
        r"nn\.functional\.max_unpool.*",
        r"class|words",
        r".*(b''|'\w+').* for IndexError: tuple index out of range",
        "bytes and texts are taken for a sequence of sizes",
    ),
    (
        r"nn\.functional\.scaled_dot_product_attention",
        r"refused",
        r".*Expected size for first two dimensions of batch2 tensor.*",
        "keys and values of different lengths, at which PyTorch's kernel does not look",
    ),
    (
        r"nn\.functional\.scaled_dot_product_attention",
        r"gradient",
        r".*is (-?\d+\.\d{3})[^,]*, not \1.*",
        "rounding of large scores, by which shares change in their fourth digit",
    ),
    (
        r"nn\.functional\.scaled_dot_product_attention",
        r"values|gradient",
        r".*is nan, not -?0\.0",
        "PyTorch's fused kernel takes rows of NaN scores for rows without keys",
    ),
    (
        r"__r\w+__",
        r"refused",
        r"TypeError: .*(takes exactly one argument|expected at least 1 argument).*",
        "Python itself counts the arguments of its operators' methods",
    ),
    (
        r"nn\.functional\.hardswish",
        r"gradient",
        r".*is nan, not .*",
        "at NaN PyTorch's whole vectors give NaN, the elements behind them do not",
    ),
    (
        r"nn\.functional\.(hard|soft)shrink",
        r"gradient",
        r".*not -?0\.0",
        "at NaN PyTorch's whole vectors take no gradient, the elements behind them do",
    ),
    (
        r"special\.((shifted_)?chebyshev|hermite|laguerre|legendre)_polynomial_\w+",
        r"values|argument",
        r".*is -?inf, not nan",
        "PyTorch's recurrence in single precision subtracts infinities",
    ),
    (
        r"special\.((shifted_)?chebyshev|legendre|laguerre|hermite)_polynomial_\w+",
        r"values|argument",
        r".*is nan, not .*",
        "PyTorch returns what it has not computed for NaN",
    ),
    (
        r"special\.(bessel_y1|bessel_j[01]|airy_ai)",
        r"values|argument",
        r".*is (-?\d\.\d{2})[^,]*, not \1.*",
        "PyTorch's table for the middle has but seven digits",
    ),
    (
        r"(linalg\.)?matrix_exp",
        r"values|gradient",
        r".*, not nan",
        "PyTorch's powers overflow, and infinities of both signs meet",
    ),
    (
        r"(linalg\.)?(lu|lu_factor|lu_factor_ex)",
        r"values",
        r".*(is|not) \(?(nan|-?inf).*",
        "which elements infinities reach depends on the blocks of LAPACK's algorithm",
    ),
    (
        r"native_(group|layer)_norm",
        r"values",
        r"result\[1\]: .*is -?inf, not nan",
        "PyTorch's running mean subtracts an infinite one from itself",
    ),
    (
        r"nn\.functional\.glu",
        r"values|gradient|argument",
        r".*is -?inf, not nan",
        "infinity times a share that PyTorch rounds to zero",
    ),
    (
        r"to",
        r"refused",
        r"TypeError: to\(\) received .*got \(Tensor, (float|complex|bool|int).*",
        "PyTorch's parser takes a number for the tensor whose type is wanted",
    ),
    (
        r"broadcast_shapes",
        r"refused",
        r"ValueError: Overflow when unpacking long long",
        "PyTorch's Size of such an integer can be neither read nor printed",
    ),
    (
        r"split",
        r"accepted",
        r".*must be tuple of ints, not numpy\.\w+",
        "PyTorch takes a NumPy integer for a list of sizes",
    ),
    (
        r"index_add_?",
        r"class",
        r"RuntimeError: index out of range.* for IndexError: index out of range.*",
        "PyTorch has two kernels, which refuse an index by two types",
    ),
    (
        r"(add|sub|rsub)_?|__r(add|sub)__",
        r"values|argument",
        r".*\] is \(?-?(inf|\d).*, not \(?.*nan.*",
        "PyTorch multiplies by alpha where it is one, and infinity by its zero part",
    ),
    (
        r"grid_sampler(_[23]d)?|nn\.functional\.grid_sample",
        r"gradient",
        r".*is -?\d[\d.e-]*, not -?\d[\d.e-]*",
        "differences of large elements cancel: both sides are as far from the exact ones",
    ),
    (
        r"(special\.)?logit_?",
        r"gradient",
        r".*is -?inf, not -?inf",
        "at -0.0 PyTorch's whole vectors divide by it, the elements behind do not",
    ),
    (
        r".*",
        r"class",
        r"RuntimeError: Expected one of cpu.*device string.* for TypeError: .*",
        "two wrong arguments, and PyTorch reads a device's name last",
    ),
    (
        r"empty_permuted",
        r"class",
        r"TypeError: .* for RuntimeError: Cannot access accelerator.*",
        "two wrong arguments, and PyTorch names the other",
    ),
    (
        r"floor_divide|\w+_scatter|histogram(dd)?",
        r"gradient",
        r"result(\[\d\])*: requires_grad is False",
        "PyTorch gives a result a history that has no gradient",
    ),
    (
        r"ldexp_?",
        r"gradient",
        r".*, not -?0\.0",
        "PyTorch's gradient takes two to a negative integer for zero",
    ),
    (
        r"addm[mv]|addr|addbmm|baddbmm|ldexp_?",
        r"gradient",
        r".*is -?inf, not nan",
        "PyTorch adds up infinities of both signs where we multiply a sum by infinity",
    ),
    (
        r"renorm",
        r"gradient",
        r".*, not \(?nan.*",
        "PyTorch's squares overflow",
    ),
    (
        r"index_select",
        r"class",
        r"IndexError: index out of range.* for RuntimeError: INDICES element.*",
        "PyTorch has two kernels, which refuse an index by two types",
    ),
    (
        r"[dhv]?split|tensor_split|[dhv]split",
        r"accepted",
        r".*cannot be represented as a SymInt.*",
        "a border of the split from which PyTorch subtracts beyond its integers",
    ),
    (
        r".*",
        r"class",
        r".*verflow when unpacking long.* for RuntimeError: .*SymInt.*",
        "PyTorch takes an integer beyond int64 for one that is not known yet",
    ),
    (
        r"nn\.functional\.unfold",
        r"refused",
        r".*negative padding \d{18,}.*",
        "PyTorch's sums of sizes and padding overflow",
    ),
    (
        r"addm[mv]_|addr_|addbmm_|baddbmm_",
        r"refused",
        r".*more than one element of the written-to tensor.*",
        "PyTorch does not look whether what it adds to shows an element twice",
    ),
    (
        r"(masked\.)?norm|linalg\.(vector_)?norm",
        r"gradient",
        r".*is (-?0\.0|\(-?0[+-]0j\)), not \(?nan.*",
        "the sum of powers overflows, and PyTorch divides infinities",
    ),
    (
        r"as_strided_",
        r"refused",
        r".*Storage size calculation overflowed.*",
        "PyTorch multiplies negative sizes until they are none",
    ),
    (
        r"unfold(_copy)?",
        r"refused",
        r".*Stride calculation overflowed.*",
        "PyTorch's product for a stride overflows",
    ),
    (
        r"cdist",
        r"gradient",
        r".*, not nan",
        "PyTorch's gradient at p=1 takes NaN for a sign",
    ),
    (
        r"cdist",
        r"values",
        r".*is inf, not nan",
        "PyTorch subtracts infinities where it computes distances by a product",
    ),
    (
        r"cdist",
        r"values",
        r".*is 0\.0(0\d+)?, not 0\.0(0\d+)?",
        "rows that meet: the root of what rounding leaves of a product, on both sides",
    ),
]


def writes_what_it_reads(case):
    """Whether `out=` lies in the memory of an argument."""
    out = case.kwargs.get("out")
    outs = out if isinstance(out, (list, tuple)) else [out]
    written = {id(spec.buffer) for spec in outs if hasattr(spec, "buffer")}
    return any(id(t.buffer) in written for t in _tensors(case.args))


def reads_itself(case):
    """Whether the first argument's memory is another argument's, too."""
    first, *others = _tensors([*case.args, *case.kwargs.values()])
    return any(spec.buffer is first.buffer for spec in others)


def writes_with_strides(case):
    """Whether `out=` is not row-major, or is an argument, too."""
    out = case.kwargs.get("out")
    return hasattr(out, "strides") and (has_strides(case) or writes_what_it_reads(case))


def writes_some_twice(case):
    """Whether `out=` shows an element several times."""
    out = case.kwargs.get("out")
    return any(repeated(spec) for spec in _tensors([out]))


def infinite(case):
    """Whether an argument has elements that are infinite or NaN."""
    return any(
        spec.dtype.startswith(("float", "bfloat", "complex"))
        and not np.isfinite(spec.values()).all()
        for spec in _tensors([*case.args, *case.kwargs.values()])
    )


def unknown_interpolation(case):
    """Whether the way to interpolate, or to go on at the edge, is none that there is."""
    return any(way not in (0, 1, 2) for way in case.args[2:4])


def steps_for_one(case):
    """Whether a dimension of one element has a step that no row-major tensor has."""
    for spec in _tensors([*case.args, *case.kwargs.values()]):
        dense = TensorSpec.dense([], spec.dtype, spec.sizes).strides
        if any(
            size == 1 and stride != own
            for size, stride, own in zip(spec.sizes, spec.strides, dense)
        ):
            return True
    return False


def whole_numbers(case):
    """Whether all arguments are of whole numbers."""
    specs = list(_tensors([*case.args, *case.kwargs.values()]))
    return not any(s.dtype.startswith(("float", "bfloat")) for s in specs)


def last_order(case):
    """Whether an order is beyond 32 bits: PyTorch adds one, and rounds it."""
    return any(isinstance(a, int) and a >= 2**31 - 1 for a in case.args)


def leaves_columns_out(case):
    """Whether `gelsy` is told to take small columns for none."""
    cut = case.args[2] if len(case.args) > 2 else case.kwargs.get("rcond")
    driver = case.kwargs.get("driver") or "gelsy"
    return driver == "gelsy" and (infinite(case) or (cut is not None and cut > 1e-6))


def nearly_singular(case):
    """Whether the first matrices hold one without its inverse, but for rounding."""
    first = next(_tensors(case.args), None)
    if case.path[1].startswith("linalg.tensor"):
        return repeats(case)  # of whichever dimensions the matrix has
    if first is None or len(first.sizes) < 2 or not first.numel:
        return False
    matrices = first.values().reshape(first.sizes)
    if not np.isfinite(matrices).all():
        return True
    sizes = np.linalg.svd(matrices.astype(complex), compute_uv=False)
    least, largest = sizes[..., -1], sizes[..., 0]
    steps = 4 * max(first.sizes[-2:]) * EPSILON.get(first.dtype, 0)
    return bool((least <= steps * largest).any())


def least_alpha(case):
    """Whether the factor is the least integer, which has no opposite."""
    return case.kwargs.get("alpha") == -(2**63)


def computes_nothing(case):
    """Whether there are no elements in an argument, or in the result."""
    specs = _tensors([*case.args, *case.kwargs.values()])
    return 0 in [case.kwargs.get("size"), *(spec.numel for spec in specs)]


def least_correction(case):
    """Whether the correction is the least integer, which has no opposite."""
    return case.kwargs.get("correction") == -(2**63)


def lowest_order(case):
    """Whether an order is beyond what single precision counts to."""
    orders = [a for a in case.args if isinstance(a, (int, float))]
    return any(a < -(2**53) or 3.4e38 < a < float("inf") for a in orders)


def repeats(case):
    """Whether an argument shows an element several times."""
    return any(map(repeated, _tensors([*case.args, *case.kwargs.values()])))


def repeated(spec):
    """Whether a tensor shows an element several times, by a step of zero."""
    return any(step == 0 and size > 1 for size, step in zip(spec.sizes, spec.strides))


def has_strides(case):
    """Whether an argument is not row-major."""
    for t in _tensors([*case.args, *case.kwargs.values()]):
        step = 1
        for size, stride in zip(t.sizes[::-1], t.strides[::-1]):
            if size != 1 and stride != step:
                return True
            step *= size
    return False


def _tensors(values):
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _tensors(value)
        elif hasattr(value, "buffer"):
            yield value


def is_half(case):
    """Whether an argument is of a type of 16 bits."""
    arguments = _tensors([*case.args, *case.kwargs.values()])
    return any(t.dtype in ("float16", "bfloat16") for t in arguments)


def lies_in_gaps(case):
    """Whether `out=`, or what is written to, or an argument that it meets has gaps."""
    return any(
        spec.numel > 1 and not dense(spec)
        for spec in _tensors([*case.args, *case.kwargs.values()])
    )


def is_written_whole(case):
    """Whether `out=` is an argument itself."""
    out = case.kwargs.get("out")
    return hasattr(out, "buffer") and any(out is t for t in _tensors(case.args))


def far_out(case):
    """Whether there are arguments beyond what single precision counts to."""
    return any((np.abs(t.values()) > 2**24).any() for t in _tensors(case.args))


def dense(spec):
    """Whether a tensor fills its span with elements, each seen once."""
    step = 1
    for stride, size in sorted(zip(spec.strides, spec.sizes, strict=True)):
        if size != 1 and stride != step:
            return False
        step *= size
    return True


# The same, where the arguments are of a kind.
WHERE = [
    (
        r".*",
        r"refused",
        r".*refer to a single memory location.*",
        is_written_whole,
        "PyTorch resizes what it has yet to read, and no longer looks at it",
    ),
    (
        r"linalg\.matrix_rank",
        r"accepted",
        r".*Dimension out of range.*",
        writes_what_it_reads,
        "PyTorch resizes the matrix that is its own out= before it reads it",
    ),
    (
        r"(masked\.)?prod",
        r"gradient",
        r".*, not nan",
        infinite,
        "PyTorch divides the product by each element, NaN too",
    ),
    (
        r"special\.bessel_[jy][01]",
        r"values|argument",
        r".*is -?\d[\d.]*e-\d+, not -?\d[\d.]*e-\d+",
        far_out,
        "PyTorch subtracts an eighth of a turn from angles that have no such digit",
    ),
    (
        r"(special\.)?zeta",
        r"values|argument",
        r".*is -?0\.0, not nan",
        whole_numbers,
        "PyTorch multiplies infinities by what has vanished",
    ),
    (
        r".*",
        r"refused",
        r".*refer to a single memory location.*",
        lies_in_gaps,
        "PyTorch gives up looking for overlaps where memory has gaps",
    ),
    (
        r"[dhv]?stack|(row|column)_stack",
        r"refused",
        r".*to a single memory location.*",
        lambda case: writes_what_it_reads(case) or writes_some_twice(case),
        "PyTorch does not look whether a stack is written to what it is made of",
    ),
    (
        r"nn\.functional\.(elu|selu|celu)",
        r"gradient",
        r".*, not nan",
        infinite,
        "at NaN PyTorch's whole vectors give NaN, the elements behind them do not",
    ),
    (
        r"nn\.functional\.(relu6|hardtanh)",
        r"gradient",
        r".*, not -?0\.0",
        infinite,
        "at NaN PyTorch's whole vectors take no gradient, the elements behind them do",
    ),
    (
        r"linalg\.eigvals",
        r"values",
        r".*",
        same_spectrum,
        "eigenvalues in another order",
    ),
    (
        r".*",
        r"refused",
        r".*(without overflow|expected scalar type|the same dtype|not implemented for).*",
        computes_nothing,
        "numbers and types that PyTorch does not look at where there are no elements",
    ),
    (
        r".*",
        r"class",
        r".*",
        tells_another_fault,
        "of several faults PyTorch tells another first",
    ),
    (
        r"(linalg\.)?(qr|svd|eigh|eig|lu|lu_factor|lu_factor_ex)",
        r"values",
        r".*",
        recomposed,
        "other factors, as right: signs, phases, pivots of singular matrices",
    ),
    (
        r"linalg\.lstsq",
        r"values|gradient",
        r".*",
        leaves_columns_out,
        "PyTorch gives gelsy the order of columns that another matrix left",
    ),
    (
        r"inverse|lu|matrix_power|linalg\.(inv|inv_ex|matrix_power|tensorinv|solve|solve_ex"
        r"|lu_factor|cholesky|lstsq|ldl_factor|tensorsolve)",
        r"refused|accepted",
        r".*(LinAlgError: |is zero and using it).*",
        nearly_singular,
        "rounding decides whether a matrix that is nearly singular is singular",
    ),
    (
        r"(linalg\.)?(amax|amin|all|any|argmax|argmin|mean|prod|sum|nansum|max|min|aminmax"
        r"|median|nanmedian|std|var|count_nonzero|cum\w+|logcumsumexp|logsumexp|norm"
        r"|vector_norm|softmax|log_softmax|histc|addbmm|addmm|addmv|addr|baddbmm|bmm|mm"
        r"|mv|matmul|dot|vdot|inner|tensordot|multi_dot|nn\.functional\.linear)",
        r"values|argument",
        r".*",
        writes_what_it_reads,
        "PyTorch resizes or overwrites what it has yet to read",
    ),
    (
        r"(linalg\.)?(amax|amin|all|any|mean|prod|sum|nansum|max|min|std|var|cum\w+|norm"
        r"|vector_norm|histc|addbmm|addmm|addmv|addr|baddbmm|bmm|mm|mv|matmul|v?dot"
        r"|inner|tensordot|multi_dot|nn\.functional\.linear)",
        r"accepted",
        r".*(1D tensors expected|doesn't match the broadcast|cannot be multiplied"
        r"|Dimension out of range|must be a matrix|must match the size"
        r"|is not finite).*",
        writes_what_it_reads,
        "PyTorch resizes what it has yet to look at, and finds it unfit",
    ),
    (
        r"nn\.functional\.gelu",
        r"values",
        r".*\] is (inf|-?0\.0|\d[\d.e+]*), not (nan|inf)",
        is_half,
        "PyTorch's kernel for half precision overflows at large values",
    ),
    (
        r"nn\.functional\.avg_pool[23]d",
        r"values|argument",
        r".*",
        writes_with_strides,
        "PyTorch writes means to out= as if it were row-major",
    ),
    (
        r"(nan)?median",
        r"values",
        r".*",
        repeats,
        "2.13's median of repeated elements reads elements that are not there",
    ),
    (
        r"native_(batch|group)_norm",
        r"values|argument",
        r".*",
        has_strides,
        "PyTorch reads parameters as if they were row-major",
    ),
    (
        r"amax|amin|sum|prod|mean|nansum|all|any|norm|linalg\.vector_norm",
        r"values|argument",
        r".*",
        writes_some_twice,
        "PyTorch's reductions write several sums into one element",
    ),
    (
        r"fft\.\w+|i?stft",
        r"values|gradient|argument",
        r".*(inf|nan).*",
        infinite,
        "where infinities become NaN depends on how a transform is taken apart",
    ),
    (
        r"grid_sampler(_[23]d)?",
        r"values|gradient",
        r".*",
        unknown_interpolation,
        "PyTorch's result for an unknown way to interpolate is never written",
    ),
    (
        r"(special\.)?polygamma_?",
        r"values|argument",
        r".*",
        last_order,
        "PyTorch's order overflows",
    ),
    (
        r"norm",
        r"gradient",
        r".*",
        nearly_singular,
        "the turn of singular vectors that belong to zeros",
    ),
    (
        r"(masked\.)?norm|linalg\.(vector_)?norm|dist",
        r"values|gradient",
        r".*is (-?0\.0|inf), not (nan|1\.0|-?inf)",
        lowest_order,
        "PyTorch's order is infinite in single precision, and taken for a power",
    ),
    (
        r"nn\.functional\.(relu6|hardtanh)|nan_to_num|isfinite|rad2deg|deg2rad|frexp",
        r"strides",
        r".*",
        steps_for_one,
        "PyTorch keeps the steps of dimensions that have one element",
    ),
    (
        r"special\.ndtr",
        r"strides",
        r".*",
        steps_for_one,
        "PyTorch makes ndtr of five operators, each of which lays out its result anew",
    ),
    (
        r"(linalg\.)?(qr|pinv|pinverse)",
        r"values",
        r".*",
        infinite,
        "which elements infinities reach depends on the blocks of LAPACK's algorithm",
    ),
    (
        r"cov|(std|var)(_mean)?",
        r"values|gradient",
        r".*",
        least_correction,
        "PyTorch subtracts the least integer",
    ),
    (
        r"(linalg\.)?cross",
        r"gradient",
        r".*(is|not) -?0\.0.*",
        reads_itself,
        "both shares of one operand cancel: PyTorch rounds them alike, we do not",
    ),
    (
        r"nn\.functional\.scaled_dot_product_attention",
        r"values|gradient",
        r".*is -?\d[\d.e-]*, not nan",
        infinite,
        "PyTorch multiplies infinite values of keys that are hidden by their zero shares",
    ),
    (
        r"(linalg\.)?(pinv|pinverse|cond|svd|svdvals|matrix_(rank|norm)|norm|eigv?a?l?s?h)",
        r"accepted",
        r".*LinAlgError: .*failed to converge.*",
        infinite,
        "whether LAPACK's iterations end where elements are infinite",
    ),
    (
        r"special\.(shifted_)?chebyshev_polynomial_\w+",
        r"values|argument",
        r".*is -?\d[\d.]*(e-\d+)?, not -?\d[\d.]*(e-\d+)?",
        whole_numbers,
        "PyTorch takes cosines of large angles in single precision",
    ),
    (
        r"r?sub|__rsub__",
        r"values|argument",
        r".*",
        least_alpha,
        "PyTorch negates the least integer",
    ),
    (
        r"narrow_copy",
        r"values|argument",
        r".*",
        writes_what_it_reads,
        "PyTorch resizes what it has yet to read",
    ),
    (
        r"masked_scatter_|addmm_|addmv_|addr_|addbmm_|baddbmm_",
        r"values|argument",
        r".*",
        reads_itself,
        "PyTorch overwrites what it has yet to read",
    ),
    (
        r"(linalg\.)?(lu|lu_factor|lu_factor_ex|inv|inv_ex|inverse|solve|solve_ex|cond)",
        r"gradient",
        r".*",
        nearly_singular,
        "gradients by an inverse that there is only by rounding",
    ),
    (
        r"(linalg\.)?(s?logdet|det)",
        r"values|gradient",
        r".*",
        nearly_singular,
        "no full rank: rounding decides how near to zero the last pivot is",
    ),
]
_COMPILED = [
    (re.compile(op), re.compile(kind), re.compile(text, re.S), where, why)
    for op, kind, text, where, why in [
        *((*row[:3], None, row[3]) for row in EXPLAINED),
        *WHERE,
    ]
]


def explanation(case, kind, text):
    """Why a difference stands, or None."""
    for op, kinds, texts, where, why in _COMPILED:
        if (
            op.fullmatch(case.path[1])
            and kinds.fullmatch(kind)
            and texts.fullmatch(text)
            and (where is None or where(case))
        ):
            return why
    return None
