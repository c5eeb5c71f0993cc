"""Elementwise operators write their ``out=``, and in place, without a copy of the result."""

import warnings

import numpy as np
import pytest

import rushlight
from rushlight.dispatch.declared import (
    ARGUMENTS,
    BATCHING,
    IMPLEMENTATION,
    KIND,
    OUTPUT,
    says,
)
from rushlight.dispatch.dispatcher import every_operator

COUNT = 1 << 17  # elements: plans are followed for fewer than 128 kB
TENSOR, OPTIONAL, NUMBERS, INTEGER, TEXT = {0, 4}, 1, {5, 6, 12}, 7, 16
# Of several steps, whose first results may not lie in what is read again.
SEVERAL = {"float_power.Tensor_Tensor", "ldexp.Tensor", "polygamma"}
WHOLE = {"gcd", "lcm"}  # and those of bits
TRUTH = {"condition", "mask"}
OTHERS = {"masked_fill.Tensor": {"value": 2.0}, "clamp.Tensor": {"min": "like"},
          "clip.Tensor": {"max": "like"}, "clamp": {"min": 0.5, "max": 1.0},
          "clip": {"min": 0.5}}  # fmt: skip


def elementwise():
    for op in every_operator():
        if not op.entry or op.form or op.namespace != "aten" or len(op.returns) != 1:
            continue
        done = op.entry[IMPLEMENTATION]
        if done is None or op.full_name == "bernoulli":
            continue
        told = done[KIND] == "pointwise" or op.entry[BATCHING] == "elementwise"
        if told or says(op, "direct", OUTPUT):
            yield op


def operands(op, draw):
    """Arguments by position and by name; None where a kind is not known here."""
    given, named = [], {}
    whole = op.full_name in WHOLE or op.full_name.startswith("bitwise")
    chosen = OTHERS.get(op.full_name, {})
    for name, kind, default, by_name, *_ in op.entry[ARGUMENTS]:
        if name in chosen:
            value = chosen[name]
            if op.full_name == "masked_fill.Tensor":
                value = rushlight.tensor(value)
            value = draw() if value is not None and value == "like" else value
        elif name in TRUTH:
            value = draw() > 0.7
        elif kind in TENSOR:
            value = (draw() * 8).to(rushlight.int32) if whole else draw()
        elif default is not ...:
            value = default
        elif kind in NUMBERS:
            value = 0.75
        elif kind == INTEGER:
            value = 2
        elif kind == TEXT:
            value = "floor"
        else:
            return None
        if by_name:
            named[name] = value
        else:
            given.append(value)
    return given, named


def forms():
    for op in elementwise():
        for form in (op.inplace, op.out):
            if form is not None and op.full_name not in SEVERAL:
                yield op, form


def called(op, form, given, named):
    """What a form writes, and what it gives."""
    if form is op.inplace:
        return given[0], form(*given, **named)
    out = rushlight.empty_like(op(*given, **named))
    return out, form(*given, **named, out=out)


def peak(call):
    rushlight.cpu.reset_peak_memory_stats()
    before = rushlight.cpu.memory_stats()["allocated_bytes.all.current"]
    call()
    return rushlight.cpu.memory_stats()["allocated_bytes.all.peak"] - before


def test_no_memory_of_the_results_size_is_asked_for():
    lost, seen = [], 0
    for op, form in forms():
        rng = np.random.default_rng(0)

        def draw(rng=rng):
            return rushlight.tensor(rng.uniform(0.3, 0.9, COUNT).astype("float32"))

        found = operands(op, draw)
        assert found is not None, f"{op.full_name}: say here what it is called with"
        given, named = found
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            out, _ = called(op, form, given, named)  # its kernel is made
            last = {} if form is op.inplace else {"out": out}
            asked = peak(lambda f=form, g=given, n=named, o=last: f(*g, **n, **o))
        seen += 1
        if asked > COUNT * out.element_size() / 2:
            lost.append((op.full_name, form.name, asked))
    assert seen > 200
    assert not lost


def direct():
    return [pair for pair in forms() if says(pair[0], "direct", OUTPUT)]


@pytest.mark.parametrize("count", [48, COUNT])
@pytest.mark.parametrize("layout", ["rows", "turned", "expanded"])
def test_what_is_written_is_what_the_function_gives(count, layout):
    for op, form in direct():
        rng = np.random.default_rng(1)

        def draw(rng=rng):
            numbers = rng.uniform(-1.5, 1.5, (count // 16, 16)).astype("float32")
            if layout == "expanded":
                return rushlight.tensor(numbers[:1]).expand(count // 16, 16)
            tensor = rushlight.tensor(numbers)
            return tensor.t() if layout == "turned" else tensor

        given, named = operands(op, draw)
        if form is op.inplace and layout == "expanded":
            continue
        wanted = op(*given, **named)
        version = given[0]._version if isinstance(given[0], rushlight.Tensor) else 0
        written, result = called(op, form, given, named)
        np.testing.assert_array_equal(written.numpy(), wanted.numpy(), op.full_name)
        assert result is written
        if form is op.inplace:
            assert written._version == version + 1, op.full_name


def test_outputs_that_are_operands_are_read_first():
    """All of an operand, as PyTorch allows it; parts of it where nothing is refused."""
    for op, form in direct():
        given, named = operands(op, lambda: rushlight.rand(COUNT) + 0.5)
        tensors = [t for t in given if isinstance(t, rushlight.Tensor) and t.ndim]
        if form is op.inplace or tensors[0].is_complex():
            continue
        wanted = op(*given, **named)
        if wanted.dtype is not tensors[0].dtype:
            continue
        form(*given, **named, out=tensors[-1])
        np.testing.assert_array_equal(tensors[-1].numpy(), wanted.numpy(), op.full_name)


def test_halves_are_cubed_with_a_square_of_their_own():
    for dtype in (rushlight.bfloat16, rushlight.float16):
        x = rushlight.rand(COUNT).to(dtype)
        wanted = x**3
        assert x.pow_(3).equal(wanted)


def test_outputs_of_another_type_or_size_take_a_copy():
    x = rushlight.rand(COUNT)
    wide = rushlight.empty(COUNT, dtype=rushlight.float64)
    rushlight.round(x, decimals=1, out=(narrow := rushlight.empty(0)))
    assert narrow.equal(rushlight.round(x, decimals=1))
    rushlight.div(x, 3.0, rounding_mode="floor", out=wide)
    assert wide.equal(rushlight.div(x, 3.0, rounding_mode="floor").double())


def test_gradients_are_asked_for_as_before():
    x = rushlight.rand(COUNT, requires_grad=True)
    y = x * 2
    y.clamp_(0.5, 1.5)
    y.sum().backward()
    inside = (2 * x >= 0.5) & (2 * x <= 1.5)
    assert x.grad.equal(rushlight.where(inside, 2.0, 0.0))
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        rushlight.clamp(x, 0, 1, out=rushlight.empty(COUNT))
    with pytest.raises(RuntimeError, match="leaf"):
        rushlight.nn.functional.relu6(x, inplace=True)
    z = rushlight.rand(COUNT, requires_grad=True) * 9
    kept = z.exp()
    z.clip_(0, 1)
    kept.sum().backward()
    w = rushlight.rand(COUNT, requires_grad=True) * 9
    squared = w * w
    with rushlight.no_grad():
        rushlight.nn.functional.relu6(w, inplace=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        squared.sum().backward()


def test_an_error_leaves_nothing_offered():
    x = rushlight.rand(COUNT)
    with pytest.raises(RuntimeError, match="rounding_mode"):
        rushlight.div(x, 2.0, rounding_mode="up", out=rushlight.empty(COUNT))
    result = rushlight.clamp(x, 0, 0.5)
    assert result.data_ptr() != x.data_ptr()
