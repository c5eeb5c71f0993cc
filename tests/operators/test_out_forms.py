"""`out=` of every operator: identity, resizing, types, gradients, as the oracle's."""

import itertools
import warnings

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch", reason="the oracle is not installed")
pytest.importorskip("expecttest", reason="the oracle's samples need it")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db

from tests.operators.oracle import to_rushlight  # noqa: E402
from tests.operators.test_oracle_samples import LEFT_OUT, RANDOM, find  # noqa: E402

# Where the oracle's forms disagree with each other, and why ours is left as it is.
APART = {
    "diff": "gradients are refused for some orders only",
    "tensordot": "gradients are refused for some dimensions only",
    "addr": "gradients are refused though beta is zero",
    "matmul": "a product with gaps gets new memory",
    "nn.functional.linear": "a product with gaps gets new memory",
    "native_batch_norm": "statistics that nothing fills are resized",
    "normal": "sizes of means are not broadcast",
    "nonzero": "its matrix lies column by column",
    "fft.ifft": "what is resized gets the strides of a work space",
    "mode": "lines of one element are not resized",
    "split_with_sizes_copy": "leaves are written to",
    "cumsum": "no running sums of complex numbers yet",
    "cumprod": "no running products of complex numbers yet",
    "equal": "its result is no tensor",
    "_native_batch_norm_legit": "statistics that nothing fills are resized",
    "_batch_norm_with_update": "the oracle's forms with `out=` take other arguments",
    "histogramdd": "its edges are tensors in a tuple: held to more in test_small_operators",
    "empty": "nothing is written",
    "arange": "a warning in other words",
    "narrow_copy": "values go astray in memory with gaps",
    "nn.functional.avg_pool3d": "values go astray in memory with gaps",
    "nn.functional.gelu": "values go astray in memory with gaps",
}
KEPT = ("float64", "float16", "int64", "int32", "uint8", "bool", "complex64")


def operators():
    """Those with an ``out=`` on both sides, one entry a name."""
    seen = set()
    for info in op_db:
        if not info.supports_out or info.name in seen or info.name in APART:
            continue
        function = find(info.name)
        if function is None or LEFT_OUT.get(info.name, RANDOM) is not RANDOM:
            continue
        if torch.float32 not in info.dtypes:
            continue
        seen.add(info.name)
        yield pytest.param(info, function, id=info.name)


def of_narrow_types():
    """Of these, those that take half precision or bytes and draw no numbers."""
    for case in operators():
        info, _ = case.values
        if info.name not in LEFT_OUT and {torch.float16, torch.uint8} & set(
            info.dtypes
        ):
            yield case


def outputs_for(result, name):
    """A tensor for each of a result's, changed."""
    several = isinstance(result, (list, tuple))
    made = [changed(t, name) for t in (result if several else [result])]
    return tuple(made) if several else made[0]


def spaced(t):
    """A transposed tensor with gaps, of the sizes of ``t``."""
    wide = torch.full([*t.shape[::-1], 2], 1, dtype=t.dtype)
    return wide.select(-1, 0).permute(*range(t.ndim)[::-1])


def longer(t):
    """One more along the last dimension."""
    sizes = [*t.shape[:-1], t.shape[-1] + 1] if t.ndim else [2]
    return torch.full(sizes, 1, dtype=t.dtype)


CHANGES = {
    "as it is": lambda t: torch.full(t.shape, 1, dtype=t.dtype),
    "spaced": lambda t: spaced(t) if t.ndim else torch.full((), 1, dtype=t.dtype),
    "longer": longer,
    "empty": lambda t: torch.empty(0, dtype=t.dtype),
    "wants grad": lambda t: torch.full(t.shape, 1, dtype=t.dtype).requires_grad_(
        t.is_floating_point()
    ),
}


def changed(t, name):
    """An output for a result: of another layout, or of another type."""
    if name in CHANGES:
        return CHANGES[name](t)
    return torch.full(t.shape, 1, dtype=getattr(torch, name))


def outcome(module, function, sample, out):
    """What a call leaves: the exception's class, or warning, identity and layout."""
    outs = out if isinstance(out, tuple) else (out,)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = function(sample.input, *sample.args, **sample.kwargs, out=out)
        except Exception as error:
            return type(error).__name__, str(error), None
    results = result if isinstance(result, (list, tuple)) else (result,)
    return (
        any("was resized" in str(one.message) for one in caught),
        [one is two for one, two in zip(results, outs)],
        [laid(t) for t in outs],
        [t.detach().numpy(force=True) if module is torch else t.numpy(force=True)
         for t in outs],
    )  # fmt: skip


def laid(t):
    """Sizes, and the strides that say something."""
    strides = [step for step, size in zip(t.stride(), t.shape) if size > 1]
    return list(t.shape), strides if 0 not in t.shape else []


class Carried:
    """A sample on our side."""

    def __init__(self, sample):
        carried = {}
        self.input, self.args, self.kwargs = (
            to_rushlight(part, carried)
            for part in (sample.input, sample.args, sample.kwargs)
        )


def close(left, right):
    return np.allclose(left, right, 1e-4, 3e-5, equal_nan=True)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("info, function", list(operators()))
def test_out_has_the_oracles_rules(info, function):
    torch.manual_seed(0)
    sample = next(iter(info.sample_inputs("cpu", torch.float32)))
    result = info.op(sample.input, *sample.args, **sample.kwargs)
    wrong = []
    for name in (*CHANGES, *KEPT):
        theirs = outputs_for(result, name)
        mine = to_rushlight(theirs)
        want = outcome(torch, info.op, sample, theirs)
        got = outcome(rl, function, Carried(sample), mine)
        if want[0] in (True, False) and got[0] in (True, False):
            same = want[:3] == got[:3] and (
                info.name in LEFT_OUT or all(map(close, want[3], got[3]))
            )
        else:
            same = want[0] == got[0]
        refused = want[0] in ("RuntimeError", "NotImplementedError")
        if not same and not (name in KEPT and refused):  # ours may take more types
            wrong.append((name, want[:3], got[:3]))
    assert not wrong


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("info, function", list(of_narrow_types()))
def test_what_goes_to_a_wider_type_is_rounded_as_the_oracles(info, function):
    wrong = []
    for narrow, wide in ((torch.float16, torch.float32), (torch.uint8, torch.int32)):
        if narrow not in info.dtypes:
            continue
        torch.manual_seed(0)
        sample = next(iter(info.sample_inputs("cpu", narrow)))
        result = info.op(sample.input, *sample.args, **sample.kwargs)
        if not isinstance(result, torch.Tensor) or result.dtype is not narrow:
            continue
        theirs = torch.ones(result.shape, dtype=wide)
        mine = to_rushlight(theirs)
        want = outcome(torch, info.op, sample, theirs)
        got = outcome(rl, function, Carried(sample), mine)
        if want[0] in (True, False) and got[0] in (True, False):
            kept = [np.all(x[3][0].astype(result.numpy(force=True).dtype) == x[3][0])
                    for x in (want, got)]  # fmt: skip
            if kept[0] != kept[1]:
                wrong.append((narrow, want[3], got[3]))
    assert not wrong


def test_a_sum_beyond_half_precision_is_infinite_in_a_wider_output():
    for t in (rl, torch):
        half = t.tensor([33000.0], dtype=t.float16)
        assert t.add(half, half, out=t.empty(1)).tolist() == [float("inf")]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", "gather index_select cumsum cat add neg".split())
def test_an_output_in_the_memory_of_an_input_is_refused_as_the_oracle_refuses(name):
    told = []
    for module in (torch, rl):
        for shift in (0, 1):
            buffer = module.arange(8.0)
            x, out = buffer[:6], buffer[shift : shift + 6]
            index = module.tensor([0, 1, 2, 3, 4, 5])
            first = [x[:3], x[3:]] if name == "cat" else x
            rest = {"gather": (0, index), "index_select": (0, index), "add": (x,),
                    "neg": ()}.get(name, (0,))  # fmt: skip
            try:
                told.append(getattr(module, name)(first, *rest, out=out).tolist())
            except RuntimeError as error:
                told.append(str(error)[:60])
    assert told[:2] == told[2:]


PLACED = {  # windows on the operand's memory: elements 20 to 43 are read
    "partly over it": lambda room, x: room[40:46].view(2, 3),
    "over it once grown": lambda room, x: room[10:12],
    "beside it": lambda room, x: room[120:126].view(2, 3),
    "at the end of the memory": lambda room, x: room[198:200],
    "one element several times": lambda room, x: room[100:101].expand(3, 5),
    "the operand": lambda room, x: x,
    "another view of it": lambda room, x: x.view(4, 6),
    "moved by one": lambda room, x: room[21:45].view(4, 6),
    "with gaps": lambda room, x: room[20:68].view(4, 12)[:, :6],
    "turned": lambda room, x: room[20:44].view(6, 4).t(),
    "nothing": lambda room, x: room[30:30],
}
SLICED = ["index_add", "index_copy", "index_reduce"]
PICKED = ["gather", "scatter", "scatter_add", "scatter_reduce"]
CALLED = (
    ["abs", "exp", "angle", "nan_to_num", "negative", "sign", "nonzero", "msort"]
    + [
        "add",
        "multiply",
        "subtract",
        "clip",
        "ldexp",
        "maximum",
        "less",
        "pow",
        "where",
    ]
    + ["cat", "concat", "stack", "hstack", "vstack", "dstack", "column_stack"]
    + ["cumsum", "cumprod", "logcumsumexp", "kron", "bitwise_and", "take_along_dim"]
    + SLICED
    + PICKED
)


def arguments(m, name, x):
    if name in (
        "abs",
        "exp",
        "angle",
        "nan_to_num",
        "negative",
        "sign",
        "nonzero",
        "msort",
    ):
        return (x,)
    if name.startswith(("cum", "logcum")):
        return x, 0
    if name in SLICED + PICKED:
        index = m.tensor([0, 1]) if name in SLICED else m.zeros(2, 6, dtype=m.int64)
        source = () if name == "gather" else (m.ones(2, 6, dtype=x.dtype),)
        return x, 0, index, *source, *(("amax",) if "reduce" in name else ())
    if name == "take_along_dim":
        return x, m.zeros(4, 6, dtype=m.int64), 1
    if name in ("cat", "concat") or name.endswith("stack"):
        return ([x, x],)
    if name == "where":
        return m.ones(4, 6, dtype=m.bool), x, x
    return x, m.ones(2, 4, 6, dtype=x.dtype)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("place", PLACED)
@pytest.mark.parametrize("name", CALLED)
def test_outputs_in_operands_memory_are_refused_and_resized_as_on_pytorch(name, place):
    found = []
    for m in (rl, torch):
        dtype = m.int64 if name in ("bitwise_and", "nonzero") else m.float32
        room = m.arange(200).to(dtype)
        x = room[20:44].view(4, 6)
        given = arguments(m, name, x)
        try:
            out = PLACED[place](room, x)
            found.append(tuple(getattr(m, name)(*given, out=out).shape))
        except RuntimeError as error:
            if "out_ptr ==" in str(error):
                return  # PyTorch fails an assertion of its own
            found.append(type(error).__name__)
    assert found[0] == found[1]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["add", "mul", "exp", "atan2", "lt"])
def test_outputs_grow_over_operands_once_these_are_read(name):
    room = rl.arange(1.0, 13.0)
    x, y = room[6:10], room[0:4].clone()
    expected = getattr(rl, name)(*((x, y) if name != "exp" else (x,)))
    out = room[10:12] if name != "lt" else rl.empty(0, dtype=rl.bool)
    written = getattr(rl, name)(*((x, y) if name != "exp" else (x,)), out=out)
    assert written is out
    assert out.tolist() == expected.tolist()


TYPES = ["bool", "uint8", "int64", "float32", "float64", "complex64"]
NAMED_TWICE = {
    "arccos": "acos", "less": "lt", "multiply": "mul", "divide": "div", "fix": "trunc",
    "absolute": "abs", "negative": "neg", "concat": "cat", "clip": "clamp",
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("out", TYPES)
@pytest.mark.parametrize(
    "name",
    [*NAMED_TWICE, "sum", "nansum", "mean", "cumsum", "cumprod", "all", "clamp", "gcd"]
    + ["bitwise_or", "eq", "special.bessel_j0", "special.expit", "special.airy_ai"],
)
def test_types_and_gradients_of_outputs_are_taken_and_refused_as_on_pytorch(name, out):
    alone = {"arccos", "fix", "absolute", "negative", "sum", "nansum", "mean", "all"}
    for own in TYPES:
        for grad in (False, True) if out[0] in "fc" else (False,):
            found = []
            for m in (rl, torch):
                x = m.ones(3, dtype=getattr(m, own))
                given = (x,) if name in alone or "special" in name else (x, x)
                given = (x, 0) if name.startswith("cum") else given
                given = ([x, x],) if name == "concat" else given
                given = (x, 0, 2) if name in ("clip", "clamp") else given
                function = m
                for part in name.split("."):
                    function = getattr(function, part)
                target = m.empty(0, dtype=getattr(m, out), requires_grad=grad)
                try:
                    function(*given, out=target)
                    found.append("taken")
                except (RuntimeError, NotImplementedError, TypeError):
                    found.append("refused")
            assert found[0] == found[1], (own, grad)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("out", ("float32", "float64", "bfloat16", "complex64"))
def test_a_line_s_output_is_of_its_type_unless_its_weight_is_a_number(out):
    kinds = ("float32", "float64", "complex64")
    for own, weight in itertools.product(kinds, repeat=2):
        for sizes in itertools.product(((), (2,)), repeat=4):
            found = []
            for m in (rl, torch):
                of, weighs = (getattr(m, name) for name in (own, weight))
                start, end = (m.ones(s, dtype=of) for s in sizes[:2])
                target = m.ones(sizes[3], dtype=getattr(m, out))
                found.append(
                    asked(m.lerp, start, end, m.ones(sizes[2], dtype=weighs), target)
                )
            assert found[0] == found[1], (own, weight, sizes)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("out", ("float32", "float64", "complex64", "int64", "bool"))
@pytest.mark.parametrize("grad", (False, True))
def test_an_inner_product_with_a_number_is_written_as_a_product_is(grad, out):
    for own, other in itertools.product(("float32", "complex64", "int64"), repeat=2):
        if grad and own == "int64":
            continue
        for a, b in (((), ()), ((), (2,)), ((2,), ()), ((2, 3), (3,)), ((0,), ())):
            found = []
            for m in (rl, torch):
                first = m.full(a, 2, dtype=getattr(m, own), requires_grad=grad)
                second = m.full(b, 3, dtype=getattr(m, other))
                target = m.ones(2, dtype=getattr(m, out))
                found.append(asked(m.inner, first, second, target))
            assert found[0] == found[1], (own, other, a, b)


def asked(function, *given):
    """The type, sizes and elements of what is written, or the kind of refusal."""
    try:
        result = function(*given[:-1], out=given[-1])
    except Exception as error:
        return type(error).__name__
    dtype = str(result.dtype).rpartition(".")[2]
    return dtype, tuple(result.shape), result.reshape(-1).tolist()


METHODS_ALONE = {  # arguments of a method, which takes no output as the function does
    "add": (1,), "exp": (), "sum": (0,), "cumsum": (0,), "clamp": (0, 1), "tril": (),
    "argmax": (), "round": (), "mean": (0,), "all": (), "diag": (), "quantile": (0.5,),
    "sort": (0,), "max": (0,), "topk": (1,), "svd": (), "take": (rl.tensor([0]),),
}  # fmt: skip


@pytest.mark.parametrize("name", METHODS_ALONE)
def test_a_method_takes_no_output(name):
    several = {"sort": 2, "max": 2, "topk": 2, "svd": 3}.get(name)
    for out in (rl.empty(0), None):
        given = out if several is None or out is None else (out,) * several
        with pytest.raises(TypeError):
            getattr(rl.ones(3, 3), name)(*METHODS_ALONE[name], out=given)
