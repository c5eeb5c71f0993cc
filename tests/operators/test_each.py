"""Operators over lists of tensors agree with PyTorch's `_foreach_` functions."""

import re

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch", reason="the oracle is not installed")

DTYPES = ["float32", "float64", "bfloat16", "float16", "int64", "uint8", "bool"]
DTYPES += ["complex64"]
SHAPES = [(2, 3), (4,), (), (1, 2)]
# What the oracle cannot differentiate, or not for every overload.
NOT_DERIVED = ("addcmul", "addcdiv", "powsum")
SCHEMAS = {
    f"{schema.name[6:]}.{schema.overload_name}".rstrip("."): schema
    for schema in torch._C._jit_get_all_schemas()
    if schema.name.startswith("aten::_foreach_")
    and not schema.overload_name.endswith("out")
    and hasattr(torch, schema.name[6:])
}


def tensors(m, dtype, offset=0, shapes=SHAPES):
    made = []
    for k, shape in enumerate(shapes):
        count = int(np.prod(shape))
        values = (np.arange(count) * 7 + 3 * k + offset) % 5 / 2 + 0.25
        made.append(m.tensor(values.reshape(shape).tolist(), dtype=getattr(m, dtype)))
    return made


def arguments(m, schema, dtype):
    """A value for every required argument of a schema."""
    args = []
    for at, argument in enumerate(schema.arguments):
        kind = str(argument.type)
        if argument.has_default_value():
            break
        if kind == "List[Tensor]":
            square = schema.name.endswith("_mm")
            shapes = [(2, 2), (3, 3)] if square else SHAPES
            args.append(tensors(m, dtype, at, shapes))
        elif kind == "List[number]":
            args.append([2, 1.5, True, 3])
        elif kind == "Tensor" and argument.name == "scalars":
            args.append(m.tensor([1.0, 2.0, 3.0, 4.0]))
        elif kind == "Tensor":
            args.append(m.tensor(2.0))
        else:
            args.append(2)
    return args


def outcome(m, schema, dtype):
    """Values, types, strides and gradients, or the class of the exception."""
    args = arguments(m, schema, dtype)
    written = schema.name.endswith("_")
    leaves = [
        x.requires_grad_()
        for group in args
        if isinstance(group, list)
        for x in group
        if hasattr(x, "requires_grad_")
        and (x.is_floating_point() or x.is_complex())
        and not written
    ]
    try:
        result = getattr(m, schema.name[6:])(*args)
    except Exception as error:
        return type(error).__name__
    found = [(str(x.dtype).rpartition(".")[2], x.stride(), plain(x)) for x in result]
    wanted = [x.abs().sum() for x in result if x.requires_grad]
    if wanted and not schema.name.endswith(NOT_DERIVED):
        sum(wanted).backward()
        found += [None if x.grad is None else plain(x.grad) for x in leaves]
    if written:
        found += [plain(x) for x in args[0]]
    return found


def plain(x):
    wide = {"bfloat16": "float32"}.get(str(x.dtype).rpartition(".")[2])
    x = x.detach()
    return (x.float() if wide else x).numpy()


def same(left, right):
    if isinstance(left, (list, tuple)):
        assert len(left) == len(right)
        for a, b in zip(left, right, strict=True):
            same(a, b)
    elif isinstance(left, np.ndarray):
        np.testing.assert_allclose(left, right, rtol=2e-3, atol=1e-3)
    else:
        assert left == right


@pytest.mark.parametrize("name", SCHEMAS)
def test_an_operator_over_lists_is_the_oracles(name):
    for dtype in DTYPES:
        ours, theirs = (outcome(m, SCHEMAS[name], dtype) for m in (rl, torch))
        same(ours, theirs)


MISTAKES = {
    "no tensor": lambda m, a: m._foreach_add([], 1),
    "no tensor to change": lambda m, a: m._foreach_zero_([]),
    "no matrix": lambda m, a: m._foreach_mm([], []),
    "lists of two lengths": lambda m, a: m._foreach_add(a, a[:1]),
    "fewer numbers than tensors": lambda m, a: m._foreach_add(a, [1.0]),
    "a tensor with dimensions": lambda m, a: m._foreach_mul(a, m.ones(2)),
    "a vector too long": lambda m, a: m._foreach_addcmul(a, a, a, m.ones(3)),
    "a matrix of numbers": lambda m, a: m._foreach_addcdiv(a, a, a, m.ones(1, 2)),
    "a list too short": lambda m, a: m._foreach_addcmul(a, a, a[:1]),
    "weights too few": lambda m, a: m._foreach_lerp(a, a, [0.5]),
    "sources too few": lambda m, a: m._foreach_copy_(a, a[:1]),
    "an empty maximum": lambda m, a: m._foreach_max([m.ones(0)]),
    "whole numbers' norm": lambda m, a: m._foreach_norm([m.ones(2, dtype=m.int64)]),
    "whole numbers' powers": lambda m, a: m._foreach_powsum(
        [m.ones(2, dtype=m.int64)], 3
    ),
    "a sum that is no whole number": lambda m, a: m._foreach_add_(
        [m.ones(2, dtype=m.int64)], 1.5
    ),
    "a leaf": lambda m, a: m._foreach_exp_([m.ones(2, requires_grad=True)]),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_list_that_does_not_fit_is_refused_in_the_oracles_words(name):
    said = []
    for m in (rl, torch):
        with pytest.raises(Exception) as caught:
            MISTAKES[name](m, [m.ones(2), m.ones(3)])
        said.append((caught.type.__name__, str(caught.value).splitlines()[0]))
    assert said[0] == said[1]


def test_every_list_operator_of_the_oracle_is_there():
    names = [n for n in dir(torch) if re.match("_foreach_", n)]
    assert names and not [n for n in names if not hasattr(rl, n)]


@pytest.mark.parametrize("kind", [list, tuple])
def test_in_place_the_list_itself_is_given_back(kind):
    for m in (rl, torch):
        tensors = kind([m.tensor([-1.0]), m.tensor([2.0])])
        for call in (m._foreach_abs_, lambda x, m=m: m._foreach_add_(x, 1)):
            assert call(tensors) is tensors
