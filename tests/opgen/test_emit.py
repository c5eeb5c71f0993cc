"""What opgen writes: one golden specimen of each output."""

import ast

import pytest

from opgen.emit.derivatives import derivative_of, write_family
from opgen.emit.reference import write_pages
from opgen.emit.stubs import write_functions, write_methods
from opgen.emit.tables import write_tables
from opgen.emit.tests import write_samples
from opgen.parse import Faults, parse_text

SPECIMEN = """\
- op: mul.Tensor(Tensor self, Tensor|Scalar other) -> Tensor
  variants: [function, method, inplace, out]
  operators: [__mul__]
  pointwise: mul
  dtype: promote
  derivative:
    self: grad * other
    other: grad * self
  doc: Product of the inputs.
- op: cat(Tensor[] tensors, int dim=0) -> Tensor
  cpu: cat
  derivative:
    tensors: cat_gradient(grad, tensors.shapes, dim)
  doc: Tensors joined along a dimension.
"""

GOLDEN_DERIVATIVES = '''\
"""Derivatives of the operators in rushlight/operators/elementwise/binary.yaml."""

from rushlight.operators.elementwise import binary as family


def mul_Tensor(needs, grad, other, self):
    """rushlight/operators/elementwise/binary.yaml:1"""
    grad_other = grad * self if needs & 2 else None
    grad_self = grad * other if needs & 1 else None
    return (
        grad_self,
        grad_other,
    )


def cat(needs, grad, tensors_shapes, dim):
    """rushlight/operators/elementwise/binary.yaml:10"""
    return family.cat_gradient(grad, tensors_shapes, dim)
'''


@pytest.fixture
def entries():
    faults = Faults()
    entries = parse_text(
        SPECIMEN, "rushlight/operators/elementwise/binary.yaml", faults
    )
    assert faults.messages == []
    return entries


@pytest.fixture
def derivatives(entries, monkeypatch):
    names = {"mul": 1, "cat": 2, "cat_gradient": 3}
    monkeypatch.setattr("opgen.emit.derivatives.defined_names", lambda module: names)
    return [derivative_of(entry, {"mul", "cat"}) for entry in entries]


def test_derivatives_are_plain_functions(derivatives):
    assert write_family("binary", derivatives) == GOLDEN_DERIVATIVES


def test_what_is_saved_follows_from_the_formulas(derivatives):
    product, joined = derivatives
    assert product.saved == ((0, 1, 1), (0, 0, 2))  # other for self, self for other
    assert product.flags == 2  # the first argument is saved
    assert joined.saved == ((7, 0, 1), (0, 1, 1))  # the shapes, then dim
    assert joined.groups == ((0, True),)


def test_tables_are_literals(entries, derivatives):
    tree = ast.parse(write_tables(entries, derivatives))
    rows = ast.literal_eval(tree.body[-1].value)
    assert [row[:2] for row in rows] == [("mul", "Tensor"), ("cat", "")]
    name, kind, default, kwarg_only, size, flags = rows[0][2][1]
    assert (name, kind, default, kwarg_only, size, flags) == (
        "other", 4, ..., False, 0, 0,
    )  # fmt: skip
    assert rows[0][4] == 15
    assert rows[0][7][:3] == (
        "pointwise",
        "rushlight.operators.elementwise.binary",
        "mul",
    )
    assert rows[0][8] == ("promote", (0, 1))


def test_stubs_are_python(entries):
    functions = write_functions(entries, None)
    ast.parse(functions)
    assert (
        "def mul(input: Tensor, other: Tensor | Number, *, out: Any = ...) -> Tensor"
        in functions
    )
    methods = write_methods(entries)
    ast.parse(methods)
    assert "    def mul_(self, other: Tensor | Number) -> Tensor: ..." in methods
    assert "    def __mul__(self, other: Any) -> Tensor: ..." in methods


def test_pages_name_gradients_and_places(entries):
    page = write_pages(entries)["binary.md"]
    assert "- Gradient of self: `grad * other`." in page
    assert "- Declared at `rushlight/operators/elementwise/binary.yaml:1`." in page


def test_elementwise_operators_get_samples(entries):
    text = write_samples(entries)
    assert "('mul', 'Tensor', -3.0, 3.0, 2, True, None)" in text
    assert "'cat'" not in text
