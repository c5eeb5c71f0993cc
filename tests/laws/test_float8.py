"""Numbers of eight bits are converted, moved and refused as PyTorch does it."""

import functools
import io
import itertools

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:Casting complex values")

FORMATS = [
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e4m3fnuz",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
]
OTHERS = [
    "float32",
    "float64",
    "float16",
    "bfloat16",
    "int32",
    "int64",
    "int16",
    "bool",
    "complex64",
    "complex128",
]


def codes(module, name):
    """Every number of a format."""
    return module.arange(256).to(module.uint8).view(getattr(module, name))


def patterns():
    """Bits of float32: all upper halves, with lower halves on and beside the ties."""
    lower = [0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF]
    upper = torch.arange(1 << 16).unsqueeze(1) << 16
    return (upper | torch.tensor(lower)).flatten().to(torch.int32)


def bits(t):
    """The elements as integers, and so comparable where they are NaN."""
    if t.is_complex():
        t = t.real.contiguous()
    width = {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}[t.element_size()]
    return t.view(getattr(rl if isinstance(t, rl.Tensor) else torch, width)).tolist()


@pytest.mark.parametrize("name", FORMATS)
def test_every_code_stands_for_the_float32_of_pytorch(name):
    assert bits(codes(rl, name).float()) == bits(codes(torch, name).float())


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("stride", [1, 3])
def test_every_tie_rounds_and_every_bound_ends_as_in_pytorch(name, stride):
    theirs = patterns().view(torch.float32)
    ours = rl.from_dlpack(theirs)
    kind = getattr(rl, name)
    target = rl.zeros(len(ours), stride, dtype=kind)[:, 0]
    target.copy_(ours)
    expected = theirs.to(getattr(torch, name))
    assert bits(target.contiguous()) == bits(expected)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("other", OTHERS)
def test_values_of_every_type_become_the_same_codes(name, other):
    values = [0.0, -0.0, 0.3, -1.7, 5.0, 100.5, 300.0, -460.0, 6e4, -7e4]
    if other.startswith(("f", "bf")):
        values += [float("inf"), -float("inf"), float("nan"), 1e-3, 1e-6]

    def convert(module):
        wide = module.tensor(values, dtype=module.float64)
        return wide.to(getattr(module, other)).to(getattr(module, name))

    assert bits(convert(rl)) == bits(convert(torch))


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("other", [*OTHERS, *FORMATS])
def test_codes_become_the_same_values_of_every_type(name, other):
    def convert(module):
        every = codes(module, name)
        if other.startswith("int"):  # what NaN and large numbers become is no matter
            every = every[every.float().abs() < 3e4]
        return every.to(getattr(module, other))

    assert bits(convert(rl)) == bits(convert(torch))


@pytest.mark.parametrize("name", FORMATS)
def test_single_numbers_go_in_and_out_as_whole_tensors_do(name):
    every = codes(rl, name)
    kind = getattr(rl, name)
    values = every.tolist()
    assert repr(values) == repr(codes(torch, name).tolist())
    assert repr([x.item() for x in every]) == repr(values)
    wanted = [*values, 1e39, -1e39, 464.0, 464.1, 1e-9, 0.0009765625, 6e4, 61440.0]
    wanted += [float(v) for v in patterns()[::397].view(torch.float32)]
    assert bits(rl.tensor(wanted, dtype=kind)) == bits(
        torch.tensor(wanted, dtype=getattr(torch, name))
    )


def outcome(function):
    """A tensor's bits, or the type of what was raised and the first line of it."""
    try:
        return bits(function())
    except (RuntimeError, TypeError) as error:
        return type(error), str(error).split("\n")[0].split(": ")[0]


EXTREMES = [0, 1, -1, True, 500, 0.0, -0.0, 2.5, -1.0, 1e39, -1e5, 250.0, 1e-39]


@pytest.mark.parametrize("name", [*FORMATS, "float16", "bfloat16"])
@pytest.mark.parametrize("value", [*EXTREMES, float("inf"), float("nan"), 1 + 0j])
def test_fills_refuse_numbers_beyond_the_range_where_pytorch_does(name, value):
    makers = (
        lambda m: m.full((2,), value, dtype=getattr(m, name)),
        lambda m: m.full((1,), value, dtype=getattr(m, name)),
        lambda m: m.empty(3, dtype=getattr(m, name)).fill_(value),
        lambda m: m.empty((), dtype=getattr(m, name)).fill_(value),
        lambda m: m.zeros(2, dtype=getattr(m, name)),
        lambda m: m.ones(2, dtype=getattr(m, name)),
        lambda m: m.tensor(value, dtype=getattr(m, name)),
    )
    ours, theirs = (
        [outcome(functools.partial(make, module)) for make in makers]
        for module in (rl, torch)
    )
    assert ours == theirs


COMPUTATIONS = {
    "add": lambda m, x: x + x,
    "sub": lambda m, x: x - x,
    "mul": lambda m, x: x * x,
    "div": lambda m, x: x / x,
    "neg": lambda m, x: -x,
    # in PyTorch, -0.0 stays, and so does the sign of a NaN
    "abs": lambda m, x: x.abs().float().nan_to_num().clamp(max=1e5).mul(512).long(),
    "exp": lambda m, x: x.exp(),
    "sqrt": lambda m, x: x.sqrt(),
    "tanh": lambda m, x: x.tanh(),
    "sigmoid": lambda m, x: x.sigmoid(),
    "relu": lambda m, x: m.relu(x),
    "eq": lambda m, x: x == x.roll(1),
    "ne": lambda m, x: x != x.roll(1),
    "lt": lambda m, x: x < x,
    "isnan": lambda m, x: x.isnan(),
    "isinf": lambda m, x: x.isinf(),
    # of the numbers only: PyTorch takes float8_e8m0fnu's NaN for one of them
    "isfinite": lambda m, x: x[:255].isfinite(),
    "sum": lambda m, x: x.sum(),
    "mean": lambda m, x: x.mean(),
    "prod": lambda m, x: x.prod(),
    "amax": lambda m, x: x.amax(),
    "argmax": lambda m, x: x.argmax(),
    "any": lambda m, x: x.any(),
    "all": lambda m, x: x.all(),
    "cumsum": lambda m, x: x.cumsum(0),
    "sort": lambda m, x: x.sort()[0],
    "nonzero": lambda m, x: x.nonzero(),
    "arange": lambda m, x: m.arange(3, dtype=x.dtype),
    "masked_fill": lambda m, x: x.masked_fill(m.ones(256, dtype=m.bool), 2.0),
    "mixed": lambda m, x: x + m.ones(256),
    "mixed_cat": lambda m, x: m.cat([x, m.ones(3)]),
    "flip": lambda m, x: x.flip(0),
    "tril": lambda m, x: x.view(16, 16).tril(),
    "softmax": lambda m, x: x.softmax(0),
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("operation", COMPUTATIONS)
def test_what_pytorch_does_not_compute_is_refused_in_its_words(name, operation):
    compute = COMPUTATIONS[operation]
    ours, theirs = (
        outcome(lambda m=m: compute(m, codes(m, name))) for m in (rl, torch)
    )
    assert ours == theirs


@pytest.mark.parametrize("name", FORMATS)
def test_moving_elements_keeps_their_bits(name):
    def moved(module):
        every = codes(module, name)
        table = every.view(16, 16)
        yield every.clone()
        yield table.t().contiguous()
        yield module.cat([every, every])
        yield module.stack([every, every])
        yield table[1:5, ::2].clone()
        yield every[module.tensor([3, 254])]
        yield every.index_select(0, module.tensor([255, 1]))
        yield every.repeat(2)
        yield every.roll(3)
        yield module.where(every.view(module.uint8) > 9, every, every.roll(1))
        yield every.masked_select(every.view(module.uint8) > 126)
        yield module.zeros(256, dtype=every.dtype).copy_(every)
        stored = io.BytesIO()
        module.save(every, stored)
        stored.seek(0)
        yield module.load(stored)

    for ours, theirs in itertools.zip_longest(moved(rl), moved(torch)):
        assert bits(ours) == bits(theirs)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_moving_narrow_floats_keeps_the_bits_of_nan(name):
    patterns = list(range(-(1 << 15), 1 << 15, 7))
    every = rl.tensor(patterns, dtype=rl.int16)
    copied = every.view(getattr(rl, name)).clone()
    assert copied.view(rl.int16).tolist() == every.tolist()


@pytest.mark.parametrize("name", FORMATS)
def test_they_print_as_in_pytorch(name):
    ours, theirs = (
        module.tensor([1.0, 2.5, -0.3]).to(getattr(module, name))
        for module in (rl, torch)
    )
    assert repr(ours) == repr(theirs).replace("torch.", "rushlight.")


def test_gradients_flow_through_a_conversion():
    x = rl.tensor([1.0, 2.0], requires_grad=True)
    x.to(rl.float8_e5m2).float().sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
