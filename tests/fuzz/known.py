"""Differences from PyTorch that are meant, or are PyTorch's: each with its reason."""

from __future__ import annotations

import re

from tests.fuzz.where import WHERE

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
        r"(pca|svd)_lowrank",
        r"class",
        r"NotImplementedError: .*(qr|svd).* for RuntimeError: expected m1 and m2 .*",
        "half precision has no factors: PyTorch refuses a product before",
    ),
    (
        r"searchsorted|bucketize|where",
        r"accepted",
        r".*got \(.*self=Tensor.*",
        "the operator's own name of an argument, which functions take as well",
    ),
    (
        r"stft",
        r"refused|class",
        r"TypeError: .*argument '(center|onesided|return_complex)' must be bool.*",
        "PyTorch's Python asks what it is given for its truth, or finds another overload",
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
        r"linalg\.householder_product|ormqr",
        r"gradient",
        r".*, not \(?-?(nan|inf).*",
        "PyTorch undoes reflections, and divides by zero where one has no inverse",
    ),
    (
        r".*",
        r"accepted",
        r".*Autograd not support dtype: .*",
        "PyTorch gives whole numbers a history, and refuses it then",
    ),
    (
        r"nn\.functional\.instance_norm",
        r"refused",
        r".*mixed dtype.*",
        "parameters of several types, not all of which PyTorch looks at",
    ),
    (
        r"fft\.ihfftn",
        r"refused",
        r".*functions with out=.*",
        "PyTorch makes it of other transforms, and copies their graph into out=",
    ),
    (
        r"nn\.functional\.conv_transpose.*",
        r"accepted|class",
        r".*stride should be greater than zero, but got stride_\w+: -?\d.*",
        "PyTorch's plain kernels count steps in 32 bits",
    ),
    (
        r"nn\.functional\.conv.*",
        r"refused",
        r".*Kernel size: \(.*\d{18,}.*",
        "so wide a kernel that PyTorch's product of taps and their distance overflows",
    ),
    (
        r"nn\.functional\.conv_transpose.*",
        r"refused",
        r".*utput size is too small.*",
        "results without elements: PyTorch's own kernels refuse them, oneDNN's do not",
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
        r"__r?matmul__|((add|sub|baddb|addb|b)?mm|matmul|mv|addm[mv]|v?dot)_?"
        r"|nn\.functional\.(linear|conv.*)",
        r"values|gradient",
        r".*\(?-?inf[+-]inf\)?j?.*, not \(?(nan[+-](nan|inf)|-?inf[+-]nan).*",
        "infinite complex products, whose parts PyTorch adds in another order",
    ),
    (
        r"(masked\.)?(cum)?prod|nn\.functional\.grid_sample"
        r"|nn\.functional\.binary_cross_entropy_with_logits",
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
        r"values|argument",
        r".*is \d[\d.]*e-\d\d+, not 0\.0",
        "PyTorch adds one before it halves, and the tail vanishes beside it",
    ),
    (
        r"special\.erfcx",
        r"gradient",
        r".*is -?\d[\d.]*e-0[78], not -?0\.0",
        "far out two terms of the slope cancel: one rounding is left, or none",
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
        r".* not \(?(-?inf|nan).*",
        "PyTorch counts the elements of dim=() as one in the gradient",
    ),
    (
        r"native_group_norm",
        r"accepted",
        r".*Expected X\.is_contiguous.*",
        "a demand of PyTorch's kernel that group_norm meets",
    ),
    (
        r"(nn\.functional\.|native_)batch_norm",
        r"refused|class",
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
        r"nn\.functional\.conv.*",
        r"accepted",
        r".*Input type .* and bias type .* should be the same.*",
        "oneDNN refuses a bias of another type, PyTorch's own kernels add it",
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
        r"nn\.functional\.(batch|instance)_norm|native_batch_norm",
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
        r".*, not (nan|-?inf|-?0\.0)",
        "PyTorch negates unsigned targets, and overflows in half precision",
    ),
    (
        r"nn\.functional\.(.*_loss|max_unpool.*)",
        r"class",
        r".*for UFuncTypeError: .*",
        "a NumPy number is added to a text, or subtracted from one",
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
        r"nn\.functional\.mish",
        r"gradient",
        r".*is -?0\.0, not nan",
        "far out PyTorch's second derivative multiplies zero by an overflow",
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
        r"special\.hermite_polynomial_\w+",
        r"values|argument",
        r".*is -?0\.0, not nan",
        "zeros that PyTorch's recurrence in single precision takes from infinities",
    ),
    (
        r"expm1_?",
        r"values|argument",
        r".*is \(-?inf[+-]0j\), not \(-?inf[+-]nanj\)",
        "PyTorch multiplies an infinite exponential by the sine of zero",
    ),
    (
        r"masked\.(logsumexp|median)",
        r"values",
        r".*is 18446744073709551615, not (9223372036854775808|0)",
        "a number beyond an unsigned integer becomes one, which C does not define",
    ),
    (
        r"special\.((shifted_)?chebyshev|legendre|laguerre|hermite)_polynomial_\w+",
        r"values|argument",
        r".*is nan, not .*",
        "PyTorch returns what it has not computed for NaN",
    ),
    (
        r"special\.(bessel_y[01]|bessel_j[01]|airy_ai)",
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
        r".*",
        r"accepted",
        r".*SymIntArrayRef expected to contain only concrete integers",
        "PyTorch takes the integers below -(2**62) of a list for symbols",
    ),
    (
        r"nn\.functional\.embedding_bag",
        r"class",
        r"RuntimeError: .*expected offsets that do not fall.* for IndexError: index out of"
        r" range in self",
        "PyTorch reads indices beside those given, and what is there decides",
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
        r"TypeError: .*argument 'out' must be Tensor, not (bool|int|float).*",
        "PyTorch takes a number for a tensor that it cannot write to",
    ),
    (
        r"empty_permuted",
        r"class",
        r".*verflow when unpacking.* for RuntimeError: Stride calculation overflowed.*",
        "two wrong arguments, and PyTorch names the other",
    ),
    (
        r"empty_permuted",
        r"class",
        r"TypeError: .* for RuntimeError: Cannot access accelerator.*",
        "two wrong arguments, and PyTorch names the other",
    ),
    (
        r"floor_divide|heaviside|\w+_scatter|histogram(dd)?",
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
        r"nn\.functional\.layer_norm",
        r"gradient",
        r".*is -?0\.0, not nan",
        "PyTorch's squares overflow",
    ),
    (
        r".*",
        r"class",
        r".*functions with out=.* for NotImplementedError: .*not implemented for.*",
        "of two faults PyTorch tells the type that it has no kernel for",
    ),
    (
        r"index_copy_?",
        r"class",
        r"RuntimeError: .*index out of.* for IndexError: index_copy_.*out of bounds.*",
        "PyTorch has two kernels, which refuse an index by two types",
    ),
    (
        r"atan2_?",
        r"gradient",
        r".*elements are off by .* on average",
        "steps in half precision: second gradients are tenths off on both sides",
    ),
    (
        r"nn\.functional\.gelu",
        r"gradient",
        r".*is -?\d[\d.]*e-[23]\d, not -?\d[\d.]*e-[23]\d",
        "far left one is taken from a hyperbolic tangent: what rounding leaves of it",
    ),
    (
        r"special\.i[01]e",
        r"gradient",
        r".*is (-?\d+\.\d{4})[^,]*, not \1.*",
        "far out two terms of the slope cancel: what rounding leaves of them",
    ),
    (
        r"_chunk_cat",
        r"refused",
        r".*(more than one element of the written-to|refer to a single memory location).*",
        "PyTorch does not look whether out= shows an element twice",
    ),
    (
        r"combinations",
        r"accepted",
        r".*integer multiplication overflow",
        "more places than there are elements: PyTorch counts a grid that it cuts later",
    ),
    (
        r"nn\.functional\.softplus",
        r"gradient",
        r".*, not nan",
        "PyTorch divides an infinite exponential by itself",
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
        r"(addm[mv]|addr|addbmm|baddbmm)_?",
        r"refused",
        r".*(more than one element of the written-to|refer to a single memory location).*",
        "PyTorch does not look whether what it adds to shows an element twice",
    ),
    (
        r"(masked\.)?norm|linalg\.(vector_)?norm|nn\.functional\.p(airwise_)?dist(ance)?"
        r"|dist|(masked|nn\.functional)\.normalize",
        r"gradient",
        r".*is (-?0\.0|\(-?0[+-]0j\)|-?0j), not \(?nan.*",
        "the sum of powers overflows, and PyTorch divides infinities",
    ),
    (
        r"_unsafe_masked_index_put_accumulate",
        r"class",
        r"IndexError: at least one index must be provided for .*",
        "PyTorch's kernel asserts that there are indices once it has looked at values",
    ),
    (
        r"cdist",
        r"class",
        r"NotImplementedError: .*cdist.* not implemented for .*expected scalar type .*",
        "of two faults PyTorch tells that of two types first, and we the type without kernel",
    ),
    (
        r"nn\.functional\.linear_cross_entropy",
        r"class",
        r"IndexError: Target .* is out of bounds.* for RuntimeError: size mismatch .*",
        "of two faults PyTorch tells that of the targets' sizes first",
    ),
    (
        r"signal\.windows\..*",
        r"class",
        r"TypeError: only 0-dimensional arrays .* for RuntimeError: linspace only .*",
        "an array for a number: PyTorch's linspace is what refuses it",
    ),
    (
        r"stft",
        r"accepted",
        r".*MKL FFT error: Intel oneMKL DFTI ERROR: Inconsistent configuration.*",
        "a batch of no signals, which Intel's library refuses",
    ),
    (
        r"argm(in|ax)",
        r"class",
        r"RuntimeError: .*functions with out=.* for IndexError: Dimension out of range.*",
        "of two faults PyTorch tells that of the dimension first",
    ),
    (
        r"nn\.functional\.adaptive_(avg|max)_pool[123]d",
        r"class",
        r"NotImplementedError: .* for RuntimeError: numel: integer multiplication overflow.*",
        "of two faults PyTorch tells the size that overflows first",
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
