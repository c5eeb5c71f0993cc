"""Dtypes, devices and kinds of argument that an operator does not take."""

from .table import mistake


@mistake(
    RuntimeError,
    """
mean(): could not infer output dtype. Input dtype must be either a floating point or \
complex dtype. Got: Long
""",
)
def averaging_integers(rl):
    # Meant: x.float().mean().
    rl.tensor([1, 2]).mean()


@mistake(
    IndexError,
    """
tensors used as indices must be long, int, byte or bool tensors, not rushlight.float32
""",
)
def indexing_with_floats(rl):
    # Meant: a mask, or positions of dtype int64.
    rl.ones(3)[rl.ones(2)]


@mistake(
    IndexError,
    """
only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are \
valid indices (got float)
""",
)
def indexing_with_a_fraction(rl):
    # Meant: 3 // 2.
    rl.ones(3)[3 / 2]


@mistake(
    RuntimeError,
    """
nll_loss: expected target dtype to be int64 or uint8, but got int32
  target: int32[2] on cpu
""",
)
def labels_of_dtype_int32(rl):
    # Meant: target.long().
    rl.nn.functional.nll_loss(rl.ones(2, 3), rl.ones(2, dtype=rl.int32))


@mistake(
    RuntimeError,
    """
expected m1 and m2 to have the same dtype, but got: float != double
  mm: float32[2, 2] on cpu, float64[2, 2] on cpu
""",
)
def multiplying_matrices_of_two_dtypes(rl):
    # Meant: both in float32.
    rl.mm(rl.ones(2, 2), rl.ones(2, 2, dtype=rl.float64))


@mistake(
    RuntimeError,
    """
Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or \
`logical_xor()` operator instead.
""",
)
def subtracting_truth_values(rl):
    # Meant: a ^ b.
    rl.tensor([True]) - rl.tensor([False])


@mistake(
    RuntimeError,
    """
Negation, the `-` operator, on a bool tensor is not supported. If you are trying to \
invert a mask, use the `~` or `logical_not()` operator instead.
""",
)
def negating_a_mask(rl):
    # Meant: ~mask.
    -rl.tensor([True])


@mistake(
    NotImplementedError,
    """
"bitwise_and" is not implemented for float32 and float32
""",
)
def combining_the_bits_of_floats(rl):
    # Meant: the masks that the floats were compared to.
    rl.ones(2) & rl.ones(2)


@mistake(
    RuntimeError,
    """
result type Float can't be cast to the desired output type Long
""",
)
def adding_a_fraction_to_integers_in_place(rl):
    # Meant: x = x + 1.5.
    rl.tensor([1, 2]).add_(1.5)


@mistake(
    RuntimeError,
    """
Integers to negative integer powers are not allowed.
""",
)
def raising_integers_to_a_negative_power(rl):
    # Meant: x.float() ** -1.
    rl.tensor([2]) ** -1


@mistake(
    RuntimeError,
    """
only Tensors of floating point dtype can require gradients, not rushlight.int64
""",
)
def gradients_of_integers(rl):
    # Meant: dtype=rl.float32.
    rl.ones(3, dtype=rl.int64, requires_grad=True)


@mistake(
    TypeError,
    """
exp(): argument 'input' (position 1) must be Tensor, not str
""",
)
def taking_the_exponential_of_text(rl):
    # Meant: rl.exp(rl.tensor(float("1"))).
    rl.exp("1")


@mistake(
    TypeError,
    """
new(): invalid data type 'str'
""",
)
def making_a_tensor_of_text(rl):
    # Meant: rl.tensor(float("1")).
    rl.tensor("1")


@mistake(
    ValueError,
    """
expected sequence of length 2 at dim 1 (got 1)
""",
)
def making_a_tensor_of_ragged_rows(rl):
    # Meant: rows of one length.
    rl.tensor([[1, 2], [3]])


@mistake(
    TypeError,
    """
add() received an invalid combination of arguments - got (Tensor, Tensor, beta=int), \
but expected one of:
 * (Tensor input, Tensor other, *, Number alpha = 1)
 * (Number self, Tensor other, *, Number alpha = 1)
""",
)
def a_keyword_that_no_overload_has(rl):
    # Meant: alpha=2.
    rl.add(rl.ones(2), rl.ones(2), beta=2)


@mistake(
    TypeError,
    """
exp() takes 1 positional argument but 2 were given
""",
)
def an_argument_too_many(rl):
    # Meant: rl.exp(x).
    rl.exp(rl.ones(2), rl.ones(2))


@mistake(
    RuntimeError,
    """
Tensor on device meta is not on the expected device cpu!
  operator: add.Tensor
  remedy: move one of them with .to(device)
""",
)
def adding_a_tensor_without_data(rl):
    # Meant: both tensors on one device.
    rl.ones(3) + rl.ones(3, device="meta")


@mistake(
    RuntimeError,
    """
index.Tensor: indices should be either on cpu or on the same device as the indexed \
tensor (cpu)
  float32[3] on cpu
  int64[2] on meta
  remedy: move one of them with .to(device)
""",
)
def picking_rows_by_an_index_without_data(rl):
    # Meant: an index on the CPU.
    rl.ones(3)[rl.zeros(2, dtype=rl.int64, device="meta")] + 0


@mistake(
    RuntimeError,
    """
Tensor.item() cannot be called on meta tensors
""",
)
def reading_a_tensor_without_data(rl):
    # Meant: a tensor on the CPU.
    rl.ones(1, device="meta").item()


@mistake(
    RuntimeError,
    """
a Tensor with 2 elements cannot be converted to Scalar
""",
)
def reading_two_numbers_as_one(rl):
    # Meant: tolist().
    rl.ones(2).item()


@mistake(
    RuntimeError,
    """
Boolean value of Tensor with more than one value is ambiguous
""",
)
def the_truth_of_two_numbers(rl):
    # Meant: (x == y).all().
    bool(rl.ones(2) == rl.ones(2))


@mistake(
    TypeError,
    """
iteration over a 0-d tensor
""",
)
def iterating_over_a_number(rl):
    # Meant: a vector.
    list(rl.tensor(1.0))


@mistake(
    TypeError,
    """
len() of a 0-d tensor
""",
)
def the_length_of_a_number(rl):
    # Meant: a vector.
    len(rl.tensor(1.0))
