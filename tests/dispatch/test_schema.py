"""Operator signatures: parsed, printed, refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rushlight.dispatch.schema import (
    KINDS,
    Argument,
    Return,
    Schema,
    SchemaError,
    Type,
    parse,
    varargs_index,
)

TYPES = st.sampled_from(sorted(KINDS)).map(Type.parse)
NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)


@st.composite
def schemas(draw):
    names = draw(st.lists(NAMES, max_size=5, unique=True))
    boundary = draw(st.integers(0, len(names)))
    args = tuple(
        Argument(name, draw(TYPES), ..., number >= boundary)
        for number, name in enumerate(names)
    )
    returns = tuple(
        Return(Type.parse("Tensor"), None) for _ in range(draw(st.integers(0, 3)))
    )
    return Schema("", draw(NAMES), draw(st.sampled_from(["", "out"])), args, returns)


@given(schemas())
def test_a_schema_prints_as_text_that_parses_back(schema):
    assert parse(str(schema)) == schema


@pytest.mark.parametrize(
    "text",
    [
        "aten::sub.Tensor(Tensor self, Tensor|Scalar other, *, Scalar a=1) -> Tensor",
        "copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)",
        "max.dim(Tensor self, int dim, bool keep=False) -> (Tensor values, Tensor at)",
        'gelu(Tensor self, *, str approximate="none") -> Tensor',
        "f(Tensor?[] indices, int[2]? size=[1, -2], float eps=1e-05) -> ()",
        "split(Tensor(a -> *) self, int size) -> Tensor(a)[]",
        "g(ScalarType? dtype=None, MemoryFormat format=contiguous_format) -> Tensor",
    ],
)
def test_a_schema_prints_as_it_was_written(text):
    assert str(parse(text)) == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("add", "must start with"),
        ("add(Tensor self", "unclosed bracket"),
        ("add(Tensor self)", "no '-> result'"),
        ("add(Tensor) -> Tensor", "not 'Type name'"),
        ("add(Thing self) -> Tensor", "'Thing' is not a type"),
        ("add(Tensor a, Tensor a) -> Tensor", "two arguments named 'a'"),
        ("add(int a=1, int b) -> Tensor", "needs a default"),
        ("add(int a=1+1) -> Tensor", "not a default value"),
    ],
)
def test_a_text_that_is_no_schema_is_refused(text, words):
    with pytest.raises(SchemaError, match=words.replace("(", r"\(")):
        parse(text)


def test_only_a_lone_list_of_sizes_may_be_given_as_numbers():
    def index(text):
        return varargs_index(parse(text).args, method=False)

    assert index("zeros(int[] size, *, bool x=False) -> Tensor") == 0
    assert index("view(Tensor self, int[] size) -> Tensor") == 1
    assert index("sum(Tensor self, int[1]? dim, bool keepdim=False) -> Tensor") is None
