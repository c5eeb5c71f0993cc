# ruff: noqa: E501 (a row of the table is a line)
"""Operators on numbers, texts, lists and dictionaries: schemas, and how each runs.

A line is PyTorch's schema, ``=>``, and the Python expression that computes it with
``{0}``, ``{1}``, … for the operands. ``t``, ``k`` and ``v`` stand for any type.
"""

_ARITHMETIC = """
aten::add.int(int a, int b) -> int => {0} + {1}
aten::add.complex(complex a, complex b) -> complex => {0} + {1}
aten::add.float(float a, float b) -> float => {0} + {1}
aten::add.complex_int(complex a, int b) -> complex => {0} + {1}
aten::add.complex_float(complex a, float b) -> complex => {0} + {1}
aten::add.int_complex(int a, complex b) -> complex => {0} + {1}
aten::add.float_complex(float a, complex b) -> complex => {0} + {1}
aten::add.int_float(int a, float b) -> float => {0} + {1}
aten::add.float_int(float a, int b) -> float => {0} + {1}
aten::add(Scalar a, Scalar b) -> Scalar => {0} + {1}
aten::add.str(str a, str b) -> str => {0} + {1}
aten::add.t(t[] a, t[] b) -> t[] => {0} + {1}
aten::add_.t(t[](a!) self, t[] b) -> t[](a!) => run.extended({0}, {1})
aten::sub.int(int a, int b) -> int => {0} - {1}
aten::sub.complex(complex a, complex b) -> complex => {0} - {1}
aten::sub.float(float a, float b) -> float => {0} - {1}
aten::sub.complex_int(complex a, int b) -> complex => {0} - {1}
aten::sub.complex_float(complex a, float b) -> complex => {0} - {1}
aten::sub.int_complex(int a, complex b) -> complex => {0} - {1}
aten::sub.float_complex(float a, complex b) -> complex => {0} - {1}
aten::sub.int_float(int a, float b) -> float => {0} - {1}
aten::sub.float_int(float a, int b) -> float => {0} - {1}
aten::sub(Scalar a, Scalar b) -> Scalar => {0} - {1}
aten::mul.int(int a, int b) -> int => num.wrapped({0} * {1})
aten::mul.complex(complex a, complex b) -> complex => {0} * {1}
aten::mul.float(float a, float b) -> float => {0} * {1}
aten::mul.complex_int(complex a, int b) -> complex => {0} * {1}
aten::mul.complex_float(complex a, float b) -> complex => {0} * {1}
aten::mul.int_complex(int a, complex b) -> complex => {0} * {1}
aten::mul.float_complex(float a, complex b) -> complex => {0} * {1}
aten::mul.int_float(int a, float b) -> float => {0} * {1}
aten::mul.float_int(float a, int b) -> float => {0} * {1}
aten::mul(Scalar a, Scalar b) -> Scalar => {0} * {1}
aten::mul.left_t(t[] l, int n) -> t[] => {0} * {1}
aten::mul.right_(int n, t[] l) -> t[] => {0} * {1}
aten::mul.str_int(str s, int n) -> str => {0} * {1}
aten::div.int(int a, int b) -> float => num.divided({0}, {1})
aten::div.complex(complex a, complex b) -> complex => {0} / {1}
aten::div.float(float a, float b) -> float => num.divided({0}, {1})
aten::div(Scalar a, Scalar b) -> float => num.divided({0}, {1})
aten::floordiv.int(int a, int b) -> int => num.floor_divided({0}, {1})
aten::floordiv.float(float a, float b) -> float => num.floor_divided({0}, {1})
aten::floordiv.int_float(int a, float b) -> float => num.floor_divided({0}, {1})
aten::floordiv.float_int(float a, int b) -> float => num.floor_divided({0}, {1})
aten::floordiv(Scalar a, Scalar b) -> Scalar => num.floor_divided({0}, {1})
aten::remainder.int(int a, int b) -> int => num.remainder({0}, {1})
aten::remainder.float(float a, float b) -> float => num.remainder({0}, {1})
aten::remainder.int_float(int a, float b) -> float => num.remainder({0}, {1})
aten::remainder.float_int(float a, int b) -> float => num.remainder({0}, {1})
aten::remainder(Scalar a, Scalar b) -> Scalar => num.remainder({0}, {1})
aten::fmod.int(int a, int b) -> float => num.c_remainder({0}, {1})
aten::fmod.float(float a, float b) -> float => num.c_remainder({0}, {1})
aten::fmod.int_float(int a, float b) -> float => num.c_remainder({0}, {1})
aten::fmod.float_int(float a, int b) -> float => num.c_remainder({0}, {1})
aten::fmod(Scalar a, Scalar b) -> float => num.c_remainder({0}, {1})
aten::pow.int(int a, int b) -> float => num.power({0}, {1})
aten::pow.complex(complex a, complex b) -> complex => {0} ** {1}
aten::pow.float(float a, float b) -> float => num.power({0}, {1})
aten::pow.int_float(int a, float b) -> float => num.power({0}, {1})
aten::pow.float_int(float a, int b) -> float => num.power({0}, {1})
aten::pow.int_to_int(int a, int b) -> int => num.whole_power({0}, {1})
aten::pow.Scalar_Scalar(Scalar a, Scalar b) -> float => num.power({0}, {1})
aten::neg.int(int a) -> int => -{0}
aten::neg.float(float a) -> float => -{0}
aten::neg.complex(complex a) -> complex => -{0}
aten::neg.Scalar(Scalar a) -> Scalar => -{0}
aten::bitwise_not.int(int a) -> int => ~{0}
prim::abs.int(int a) -> int => abs({0})
prim::abs.float(float a) -> float => abs({0})
prim::abs.complex(complex a) -> float => abs({0})
prim::abs.Scalar(Scalar a) -> Scalar => abs({0})
aten::__and__.int(int a, int b) -> int => {0} & {1}
aten::__and__.bool(bool a, bool b) -> bool => {0} and {1}
aten::__or__.int(int a, int b) -> int => {0} | {1}
aten::__or__.bool(bool a, bool b) -> bool => {0} or {1}
aten::__xor__.int(int a, int b) -> int => {0} ^ {1}
aten::__xor__.bool(bool a, bool b) -> bool => {0} != {1}
aten::__lshift__.int(int a, int b) -> int => num.shifted_left({0}, {1})
aten::__rshift__.int(int a, int b) -> int => num.shifted_right({0}, {1})
aten::__not__(bool self) -> bool => not {0}
aten::divmod.int(int x, int y) -> (int, int) => num.quotient_and_rest({0}, {1})
aten::divmod.float(float x, float y) -> (float, float) => num.quotient_and_rest({0}, {1})
aten::divmod.int_float(int x, float y) -> (float, float) => num.quotient_and_rest(float({0}), {1})
aten::divmod.float_int(float x, int y) -> (float, float) => num.quotient_and_rest({0}, float({1}))
aten::round.int(int a) -> float => num.nearest({0})
aten::round.float(float a) -> float => num.nearest({0})
prim::min.int(int a, int b) -> int => num.least({0}, {1})
prim::min.float(float a, float b) -> float => num.least({0}, {1})
prim::min.int_float(int a, float b) -> float => float(num.least({0}, {1}))
prim::min.float_int(float a, int b) -> float => float(num.least({0}, {1}))
prim::min(Scalar a, Scalar b) -> Scalar => num.least({0}, {1})
prim::min.int_list(int[] l, int[] r) -> int[] => min({0}, {1})
prim::min.self_int(int[] self) -> int => min({0})
prim::min.self_float(float[] self) -> float => min({0})
prim::min.self_bool(bool[] self) -> bool => min({0})
prim::max.int(int a, int b) -> int => num.greatest({0}, {1})
prim::max.float(float a, float b) -> float => num.greatest({0}, {1})
prim::max.int_float(int a, float b) -> float => float(num.greatest({0}, {1}))
prim::max.float_int(float a, int b) -> float => float(num.greatest({0}, {1}))
prim::max(Scalar a, Scalar b) -> Scalar => num.greatest({0}, {1})
prim::max.int_list(int[] l, int[] r) -> int[] => max({0}, {1})
prim::max.self_int(int[] self) -> int => max({0})
prim::max.self_float(float[] self) -> float => max({0})
prim::max.self_bool(bool[] self) -> bool => max({0})
aten::sum.int(int[] self) -> int => sum({0})
aten::sum.float(float[] self) -> float => float(sum({0}))
aten::sum.bool(bool[] self) -> int => sum({0})
aten::any.int(int[] self) -> bool => any({0})
aten::any.float(float[] self) -> bool => any({0})
aten::any.bool(bool[] self) -> bool => any({0})
aten::any.str(str[] self) -> bool => any({0})
aten::all.int(int[] self) -> bool => all({0})
aten::all.float(float[] self) -> bool => all({0})
aten::all.bool(bool[] self) -> bool => all({0})
"""

_CONVERSIONS = """
aten::Int.Scalar(Scalar a) -> int => num.whole({0})
aten::Int.float(float a) -> int => num.whole({0})
aten::Int.bool(bool a) -> int => int({0})
aten::Int.str(str a) -> int => int({0})
aten::Int.Tensor(Tensor a) -> int => int({0})
aten::Float.Scalar(Scalar a) -> float => float({0})
aten::Float.int(int a) -> float => float({0})
aten::Float.bool(bool a) -> float => float({0})
aten::Float.str(str a) -> float => float({0})
aten::Float.Tensor(Tensor a) -> float => float({0})
aten::Complex.Scalar(Scalar a) -> complex => complex({0})
aten::Complex.int_int(int x, int y) -> complex => complex({0}, {1})
aten::Complex.float_float(float x, float y) -> complex => complex({0}, {1})
aten::Complex.Tensor(Tensor a) -> complex => complex({0})
aten::Bool.int(int a) -> bool => bool({0})
aten::Bool.float(float a) -> bool => bool({0})
aten::Bool.Tensor(Tensor a) -> bool => bool({0})
aten::IntImplicit(Tensor a) -> int => run.number({0}, int)
aten::FloatImplicit(Tensor a) -> float => run.number({0}, float)
aten::ScalarImplicit(Tensor a) -> Scalar => {0}.item()
aten::str(t elem) -> str => run.text({0})
aten::hash.generic(t value) -> int => hash({0})
aten::ord(str string) -> int => ord({0})
aten::chr(int i) -> str => chr({0})
aten::hex(int i) -> str => hex({0})
aten::oct(int i) -> str => oct({0})
aten::bin(int i) -> str => bin({0})
prim::TupleIndexDynamic(t self, int i) -> Any => {0}[{1}]
prim::NumToTensor.Scalar(Scalar a) -> Tensor => run.tensor({0})
"""

_TEXT = """
aten::len.str(str s) -> int => len({0})
aten::__getitem__.str(str s, int index) -> str => {0}[{1}]
aten::__contains__.str(str container, str item) -> bool => {1} in {0}
aten::slice.str(str string, int? start=None, int? end=None, int step=1) -> str => {0}[{1}:{2}:{3}]
aten::list(str self) -> str[] => list({0})
aten::count(str self, str substr, int start=0, int end=-1) -> int => {0}.count({1}, {2}, run.upto({0}, {3}))
aten::find(str self, str substr, int start=0, int end=-1) -> int => {0}.find({1}, {2}, run.upto({0}, {3}))
aten::rfind(str self, str substr, int start=0, int end=-1) -> int => {0}.rfind({1}, {2}, run.upto({0}, {3}))
aten::index.str(str self, str substr, int start=0, int end=-1) -> int => {0}.index({1}, {2}, run.upto({0}, {3}))
aten::startswith(str self, str substr, int start=0, int end=-1) -> bool => {0}.startswith({1}, {2}, run.upto({0}, {3}))
aten::endswith(str self, str substr, int start=0, int end=-1) -> bool => {0}.endswith({1}, {2}, run.upto({0}, {3}))
aten::split.str(str self, str? separator=None, int max=-1) -> str[] => {0}.split({1}, {2})
aten::rsplit(str self, str separator=" ", int max=-1) -> str[] => {0}.rsplit({1}, {2})
aten::splitlines(str self, bool keepends=False) -> str[] => {0}.splitlines({1})
aten::join(str self, str[] values) -> str => {0}.join({1})
aten::replace(str self, str old, str new, int max=-1) -> str => {0}.replace({1}, {2}, {3})
aten::strip(str self, str chars=" \\n\\t\\f\\v") -> str => {0}.strip({1})
aten::lstrip(str self, str chars=" \\n\\t\\f\\v") -> str => {0}.lstrip({1})
aten::rstrip(str self, str chars=" \\n\\t\\f\\v") -> str => {0}.rstrip({1})
aten::center(str self, int width, str fillchar=" ") -> str => {0}.center({1}, {2})
aten::ljust(str self, int width, str fillchar=" ") -> str => {0}.ljust({1}, {2})
aten::rjust(str self, int width, str fillchar=" ") -> str => {0}.rjust({1}, {2})
aten::zfill(str self, int width) -> str => {0}.zfill({1})
aten::expandtabs(str self, int tabsize=8) -> str => {0}.expandtabs({1})
aten::partition(str self, str separator) -> (str, str, str) => {0}.partition({1})
aten::rpartition(str self, str separator) -> (str, str, str) => {0}.rpartition({1})
aten::upper(str self) -> str => {0}.upper()
aten::lower(str self) -> str => {0}.lower()
aten::title(str self) -> str => {0}.title()
aten::capitalize(str self) -> str => {0}.capitalize()
aten::swapcase(str self) -> str => {0}.swapcase()
aten::isupper(str self) -> bool => {0}.isupper()
aten::islower(str self) -> bool => {0}.islower()
aten::isalpha(str self) -> bool => {0}.isalpha()
aten::isalnum(str self) -> bool => {0}.isalnum()
aten::isdigit(str self) -> bool => {0}.isdigit()
aten::isdecimal(str self) -> bool => {0}.isdecimal()
aten::isnumeric(str self) -> bool => {0}.isnumeric()
aten::isspace(str self) -> bool => {0}.isspace()
aten::istitle(str self) -> bool => {0}.istitle()
aten::isidentifier(str self) -> bool => {0}.isidentifier()
aten::isprintable(str self) -> bool => {0}.isprintable()
"""

_LISTS = """
aten::len.t(t[] a) -> int => len({0})
aten::__getitem__.t(t[](a) list, int idx) -> t => {0}[{1}]
aten::_set_item.t(t[](a!) l, int idx, t el) -> t[](a!) => run.set_item({0}, {1}, {2})
aten::Delete.t(t[](a!) self, int idx) -> () => {0}.__delitem__({1})
aten::slice.t(t[] l, int? start=None, int? end=None, int step=1) -> t[] => {0}[{1}:{2}:{3}]
aten::append.t(t[](a!) self, t el) -> t[](a!) => run.appended({0}, {1})
aten::extend.t(t[](a!) self, t[] other) -> () => {0}.extend({1})
aten::insert.t(t[](a!) self, int idx, t el) -> () => {0}.insert({1}, {2})
aten::pop.t(t[](a!) self, int idx=-1) -> t => {0}.pop({1})
aten::remove.t(t[](a!) self, t el) -> () => {0}.remove({1})
aten::clear.t(t[](a!) self) -> () => {0}.clear()
aten::reverse.t(t[](a!) self) -> () => {0}.reverse()
aten::copy.t(t[](a) self) -> t[] => list({0})
aten::list.t(t[] l) -> t[] => list({0})
aten::index.list(t[] self, t el) -> int => {0}.index({1})
aten::count.list(t[] self, t el) -> int => {0}.count({1})
aten::sort.list(t[](a!) self, bool reverse=False) -> () => {0}.sort(reverse={1})
aten::sorted.t(t[](a) self) -> t[] => sorted({0})
aten::__contains__.list(t[] l, t item) -> bool => {1} in {0}
aten::eq.list(t[] a, t[] b) -> bool => {0} == {1}
aten::ne.list(t[] a, t[] b) -> bool => {0} != {1}
aten::lt.list(t[] a, t[] b) -> bool => {0} < {1}
aten::le.list(t[] a, t[] b) -> bool => {0} <= {1}
aten::gt.list(t[] a, t[] b) -> bool => {0} > {1}
aten::ge.list(t[] a, t[] b) -> bool => {0} >= {1}
"""

_DICTIONARIES = """
aten::len.Dict(Dict(k, v) self) -> int => len({0})
aten::keys(Dict(k, v) self) -> k[] => list({0}.keys())
aten::values(Dict(k, v) self) -> v[] => list({0}.values())
aten::items(Dict(k, v) self) -> (k, v)[] => list({0}.items())
aten::__getitem__.Dict(Dict(k, v) self, k key) -> v => {0}[{1}]
aten::_set_item.Dict(Dict(k, v)(a!) l, k idx, v v) -> () => {0}.__setitem__({1}, {2})
aten::__contains__.Dict(Dict(k, v) dict, k key) -> bool => {1} in {0}
aten::get(Dict(k, v) self, k key) -> v? => {0}.get({1})
aten::get.default(Dict(k, v) self, k key, v default_value) -> v => {0}.get({1}, {2})
aten::setdefault(Dict(k, v)(a!) self, k key, v default_value) -> v => {0}.setdefault({1}, {2})
aten::Delete.Dict(Dict(k, v)(a!) self, k key) -> () => {0}.__delitem__({1})
aten::pop.Dict(Dict(k, v)(a!) self, k key) -> v => {0}.pop({1})
aten::pop.Dict_default(Dict(k, v)(a!) self, k key, v default_value) -> v => {0}.pop({1}, {2})
aten::popitem(Dict(k, v)(a!) self) -> (k, v) => {0}.popitem()
aten::clear.Dict(Dict(k, v)(a!) self) -> () => {0}.clear()
aten::update(Dict(k, v)(a!) self, Dict(k, v) to_add) -> () => {0}.update({1})
aten::copy.Dict(Dict(k, v)(a) self) -> Dict(k, v) => dict({0})
aten::dict.Dict(Dict(k, v)(a) self) -> Dict(k, v) => dict({0})
aten::dict.pairs((k, v)[] inputs) -> Dict(k, v) => dict({0})
aten::__is__(t self, t obj) -> bool => {0} is {1}
aten::__isnot__(t self, t obj) -> bool => {0} is not {1}
"""

_TENSORS = """
aten::size(Tensor self) -> int[] => list({0}.shape)
aten::size.int(Tensor self, int dim) -> int => {0}.size({1})
aten::sym_size.int(Tensor self, int dim) -> int => {0}.size({1})
aten::stride(Tensor self) -> int[] => list({0}.stride())
aten::stride.int(Tensor self, int dim) -> int => {0}.stride({1})
aten::storage_offset(Tensor self) -> int => {0}.storage_offset()
aten::dim(Tensor self) -> int => {0}.dim()
aten::numel(Tensor self) -> int => {0}.numel()
aten::len.Tensor(Tensor t) -> int => len({0})
aten::element_size(Tensor self) -> int => {0}.element_size()
aten::item(Tensor self) -> Scalar => {0}.item()
aten::is_floating_point(Tensor self) -> bool => {0}.is_floating_point()
aten::is_complex(Tensor self) -> bool => {0}.is_complex()
aten::is_contiguous(Tensor self) -> bool => {0}.is_contiguous()
aten::is_contiguous.memory_format(Tensor self, MemoryFormat memory_format) -> bool => {0}.is_contiguous(memory_format={1})
aten::is_leaf(Tensor self) -> bool => {0}.is_leaf
aten::requires_grad_(Tensor(a!) self, bool requires_grad=True) -> Tensor(a!) => {0}.requires_grad_({1})
aten::backward(Tensor self, Tensor? gradient=None, bool? retain_graph=None, bool create_graph=False) -> () => {0}.backward({1}, {2}, {3})
aten::cpu(Tensor(a) self) -> Tensor(a) => {0}.cpu()
aten::cuda(Tensor(a) self) -> Tensor(a) => {0}.cuda()
aten::get_device(Tensor self) -> int => {0}.get_device()
aten::eq.device(Device a, Device b) -> bool => {0} == {1}
aten::ne.device(Device a, Device b) -> bool => {0} != {1}
aten::device(str a) -> Device => torch.device({0})
aten::device.with_index(str type, int index) -> Device => torch.device({0}, {1})
aten::tensor(t[] data, *, ScalarType dtype=None, Device device=None, bool requires_grad=False) -> Tensor => torch.tensor({0}, dtype={1}, device={2}, requires_grad={3})
aten::tensor.float(float t, *, ScalarType dtype=None, Device device=None, bool requires_grad=False) -> Tensor => torch.tensor({0}, dtype={1}, device={2}, requires_grad={3})
aten::tensor.int(int t, *, ScalarType dtype=None, Device device=None, bool requires_grad=False) -> Tensor => torch.tensor({0}, dtype={1}, device={2}, requires_grad={3})
aten::tensor.bool(bool t, *, ScalarType dtype=None, Device device=None, bool requires_grad=False) -> Tensor => torch.tensor({0}, dtype={1}, device={2}, requires_grad={3})
aten::tensor.complex(complex t, *, ScalarType dtype=None, Device device=None, bool requires_grad=False) -> Tensor => torch.tensor({0}, dtype={1}, device={2}, requires_grad={3})
aten::as_tensor(Tensor(a) data, *, ScalarType dtype=None, Device device=None) -> Tensor(a) => torch.as_tensor({0}, dtype={1}, device={2})
aten::as_tensor.list(t[] data, *, ScalarType dtype=None, Device device=None) -> Tensor => torch.as_tensor({0}, dtype={1}, device={2})
aten::_convolution(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, bool transposed, int[] output_padding, int groups, bool benchmark, bool deterministic, bool cudnn_enabled, bool allow_tf32) -> Tensor => torch.convolution({0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}, {8})
aten::embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False) -> (Tensor, Tensor, Tensor, Tensor) => torch.embedding_bag({0}, {1}, {2}, {3}, {4}, {5}, {6}, {7})
aten::embedding_bag.padding_idx(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq, int mode, bool sparse, Tensor? per_sample_weights, bool include_last_offset, int? padding_idx) -> (Tensor, Tensor, Tensor, Tensor) => torch.embedding_bag({0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}, {8})
aten::is_grad_enabled() -> bool => torch.is_grad_enabled()
aten::set_grad_enabled(bool val) -> () => run.set_grad({0})
aten::warn(str message, int stacklevel=2) -> () => run.warn({0})
aten::get_num_threads() -> int => torch.get_num_threads()
aten::manual_seed(int seed) -> () => torch.manual_seed({0})
aten::is_scripting() -> bool => True
aten::__range_length(int lo, int hi, int step) -> int => len(range({0}, {1}, {2}))
aten::__derive_index(int index, int start, int step) -> int => {1} + {0} * {2}
prim::shape(Tensor a) -> int[] => list({0}.shape)
prim::dtype(Tensor a) -> int => run.code_of({0}.dtype)
prim::device(Tensor a) -> Device => {0}.device
prim::layout(Tensor a) -> int => run.code_of({0}.layout)
prim::is_cuda(Tensor a) -> bool => {0}.is_cuda
prim::is_cpu(Tensor a) -> bool => {0}.is_cpu
prim::is_mkldnn(Tensor a) -> bool => False
prim::is_sparse(Tensor a) -> bool => {0}.is_sparse
prim::is_quantized(Tensor a) -> bool => {0}.is_quantized
prim::is_meta(Tensor a) -> bool => {0}.is_meta
prim::is_nested(Tensor a) -> bool => {0}.is_nested
prim::requires_grad(Tensor a) -> bool => {0}.requires_grad
prim::grad(Tensor a) -> Tensor => {0}.grad
prim::data(Tensor(a) a) -> Tensor(a) => {0}.data
prim::name(Tensor a) -> str? => {0}.name
prim::itemsize(Tensor a) -> int => {0}.itemsize
prim::nbytes(Tensor a) -> int => {0}.nbytes
prim::type(Device self) -> str => {0}.type
prim::index(Device self) -> int? => {0}.index
aten::T(Tensor(a) a) -> Tensor(a) => {0}.T
aten::mT(Tensor(a) a) -> Tensor(a) => {0}.mT
aten::H(Tensor(a) a) -> Tensor(a) => {0}.H
aten::mH(Tensor(a) a) -> Tensor(a) => {0}.mH
aten::wait(Future(t) self) -> t => {0}.wait()
aten::warn(str message, int stacklevel=2) -> () => warnings.warn({0}, stacklevel={1})
aten::dict() -> Dict(str, Tensor) => dict()
aten::_unwrap_optional(t(a)? optional) -> t(a) => run.unwrapped({0})
aten::broadcast_tensors(Tensor[] tensors) -> Tensor[] => list(torch.broadcast_tensors(*{0}))
aten::meshgrid(Tensor[] tensors) -> Tensor[] => list(torch.meshgrid({0}, indexing="ij"))
aten::meshgrid.indexing(Tensor[] tensors, *, str indexing) -> Tensor[] => list(torch.meshgrid({0}, indexing={1}))
"""

_REAL = "ceil floor".split()
_FLOATS = (
    "sqrt exp log log2 log10 log1p expm1 sin cos tan asin acos atan sinh cosh tanh asinh "
    "acosh atanh gamma lgamma erf erfc degrees radians fabs"
).split()
_TESTS = "isnan isinf isfinite".split()
_ORDERS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def _functions():
    for name in _REAL:
        yield f"aten::{name}.int(int a) -> int => {{0}}"
        yield f"aten::{name}.float(float a) -> int => num.rounded(math.{name}, {{0}})"
    for name in _FLOATS:
        for kind in ("int", "float"):
            yield f"aten::{name}.{kind}({kind} a) -> float => run.real(math.{name}, {{0}})"
        yield f"aten::{name}.Scalar(Scalar a) -> Scalar => run.real(math.{name}, {{0}})"
    for name in _TESTS:
        yield f"aten::{name}.float(float a) -> bool => math.{name}({{0}})"
    for name in ("atan2", "copysign"):
        for a, b in (
            ("int", "int"),
            ("float", "float"),
            ("int", "float"),
            ("float", "int"),
        ):
            yield (
                f"aten::{name}.{a}_{b}({a} a, {b} b) -> float => math.{name}({{0}}, {{1}})"
            )
    for a, b in (
        ("int", "int"),
        ("float", "float"),
        ("int", "float"),
        ("float", "int"),
    ):
        yield f"aten::log.{a}_{b}({a} a, {b} b) -> float => num.logarithm({{0}}, {{1}})"
    yield "aten::gcd.int(int a, int b) -> int => math.gcd({0}, {1})"
    yield "aten::factorial.int(int a) -> int => math.factorial({0})"
    yield "aten::modf(float a) -> (float, float) => math.modf({0})"
    yield "aten::frexp(float a) -> (float, int) => math.frexp({0})"
    yield "aten::ldexp(float x, int i) -> float => math.ldexp({0}, {1})"


def _orders():
    for name, sign in _ORDERS.items():
        kinds = [("int", "int"), ("float", "float"), ("int", "float"), ("float", "int")]
        kinds += [("Scalar", "Scalar"), ("str", "str")]
        if name in ("eq", "ne"):
            kinds += [("bool", "bool"), ("complex", "complex")]
        for a, b in kinds:
            yield f"aten::{name}.{a}_{b}({a} a, {b} b) -> bool => {{0}} {sign} {{1}}"


def lines():
    """All lines of the table."""
    texts = (_ARITHMETIC, _CONVERSIONS, _TEXT, _LISTS, _DICTIONARIES, _TENSORS)
    for text in texts:
        yield from filter(None, text.splitlines())
    yield from _functions()
    yield from _orders()


# Attributes of tensors and devices -> the operator that gives each.
PROPERTIES = {
    "shape": "aten::size",
    "dtype": "prim::dtype",
    "device": "prim::device",
    "layout": "prim::layout",
    "ndim": "aten::dim",
    "is_cuda": "prim::is_cuda",
    "is_cpu": "prim::is_cpu",
    "is_mkldnn": "prim::is_mkldnn",
    "is_sparse": "prim::is_sparse",
    "is_quantized": "prim::is_quantized",
    "is_meta": "prim::is_meta",
    "is_nested": "prim::is_nested",
    "is_leaf": "aten::is_leaf",
    "requires_grad": "prim::requires_grad",
    "grad": "prim::grad",
    "data": "prim::data",
    "name": "prim::name",
    "itemsize": "prim::itemsize",
    "nbytes": "prim::nbytes",
    "T": "aten::T",
    "mT": "aten::mT",
    "H": "aten::H",
    "mH": "aten::mH",
    "real": "aten::real",
    "imag": "aten::imag",
    "type": "prim::type",
    "index": "prim::index",
}
