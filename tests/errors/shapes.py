"""Sizes that do not fit together."""

from .table import mistake


@mistake(
    RuntimeError,
    """
The size of tensor a (3) must match the size of tensor b (4) at non-singleton \
dimension 1
  operator: add.Tensor
  operand 0: float32[2, 3] on cpu
  operand 1: float32[4] on cpu
""",
)
def adding_a_bias_of_another_length(rl):
    # Meant: one number for each of the three columns.
    rl.ones(2, 3) + rl.ones(4)


@mistake(
    RuntimeError,
    """
mm: mat1 and mat2 shapes cannot be multiplied (3x4 and 5x4): mat1 has 4 columns but \
mat2 has 5 rows
  mat1: float32[3, 4] on cpu
  mat2: float32[5, 4] on cpu
""",
)
def multiplying_matrices_without_transposing(rl):
    # Meant: rl.mm(a, b.t()).
    rl.mm(rl.ones(3, 4), rl.ones(5, 4))


@mistake(
    RuntimeError,
    """
Expected size for first two dimensions of batch2 tensor to be: [2, 4] but got: [2, 5].
  batch1: float32[2, 3, 4] on cpu
  batch2: float32[2, 5, 6] on cpu
""",
)
def multiplying_batches_of_other_matrices(rl):
    # Meant: matrices of four rows in the second batch.
    rl.bmm(rl.ones(2, 3, 4), rl.ones(2, 5, 6))


@mistake(
    RuntimeError,
    """
both arguments to matmul need to be at least 1D, but they are 0D and 2D
""",
)
def multiplying_a_number_as_a_matrix(rl):
    # Meant: 2 * matrix.
    rl.matmul(rl.tensor(2.0), rl.ones(2, 2))


@mistake(
    RuntimeError,
    """
Given groups=1, weight of size [6, 1, 3, 3], expected input[1, 3, 8, 8] to have 1 \
channels, but got 3 channels instead
""",
)
def convolving_channels_that_the_weight_lacks(rl):
    # Meant: a weight for three channels.
    rl.nn.functional.conv2d(rl.ones(1, 3, 8, 8), rl.ones(6, 1, 3, 3))


@mistake(
    RuntimeError,
    """
Calculated padded input size per channel: (2 x 2). Kernel size: (3 x 3). Kernel size \
can't be greater than actual input size
  input: float32[1, 3, 2, 2] on cpu
  weight: float32[6, 3, 3, 3] on cpu
""",
)
def convolving_an_image_smaller_than_the_kernel(rl):
    # Meant: padding=1.
    rl.nn.functional.conv2d(rl.ones(1, 3, 2, 2), rl.ones(6, 3, 3, 3))


@mistake(
    RuntimeError,
    """
linear: mat1 and mat2 shapes cannot be multiplied (2x3 and 5x4): input has 3 features \
but weight takes 5
  input: float32[2, 3] on cpu
  weight: float32[4, 5] on cpu
""",
)
def applying_a_layer_to_too_few_features(rl):
    # Meant: a weight of shape (4, 3).
    rl.nn.functional.linear(rl.ones(2, 3), rl.ones(4, 5))


@mistake(
    RuntimeError,
    """
Sizes of tensors must match except in dimension 0. Expected size 3 but got size 4 for \
tensor number 1 in the list.
""",
)
def joining_rows_of_two_lengths(rl):
    # Meant: dim=1.
    rl.cat([rl.ones(2, 3), rl.ones(2, 4)])


@mistake(
    ValueError,
    """
torch.cat(): expected a non-empty list of Tensors
""",
)
def joining_nothing(rl):
    # Meant: a list that a loop had filled.
    rl.cat([])


@mistake(
    RuntimeError,
    """
stack expects each tensor to be equal size, but got [2] at entry 0 and [3] at entry 1
""",
)
def stacking_vectors_of_two_lengths(rl):
    # Meant: vectors padded to one length.
    rl.stack([rl.ones(2), rl.ones(3)])


@mistake(
    RuntimeError,
    """
shape '[4]' is invalid for input of size 6
""",
)
def viewing_six_elements_as_four(rl):
    # Meant: view(6).
    rl.ones(2, 3).view(4)


@mistake(
    RuntimeError,
    """
view size is not compatible with input tensor's size and stride (at least one \
dimension spans across two contiguous subspaces). Use .reshape(...) instead.
  self: float32[3, 2] with strides [1, 3]
  size: [6]
""",
)
def viewing_a_transpose_as_one_row(rl):
    # Meant: reshape, which copies.
    rl.ones(2, 3).t().view(6)


@mistake(
    RuntimeError,
    """
only one dimension can be inferred
""",
)
def leaving_two_sizes_to_be_inferred(rl):
    # Meant: view(-1, 3).
    rl.ones(2, 3).view(-1, -1)


@mistake(
    RuntimeError,
    """
shape '[4, -1]' is invalid for input of size 6
""",
)
def reshaping_to_rows_that_do_not_divide(rl):
    # Meant: reshape(3, -1).
    rl.ones(2, 3).reshape(4, -1)


@mistake(
    RuntimeError,
    """
The expanded size of the tensor (4) must match the existing size (3) at non-singleton \
dimension 1.  Target sizes: [2, 4].  Tensor sizes: [2, 3]
""",
)
def expanding_a_size_that_is_not_one(rl):
    # Meant: expand(4, 2, 3).
    rl.ones(2, 3).expand(2, 4)


@mistake(
    IndexError,
    """
Dimension out of range (expected to be in range of [-2, 1], but got 2)
""",
)
def squeezing_a_dimension_that_is_not_there(rl):
    # Meant: squeeze(1).
    rl.ones(2, 1).squeeze(2)


@mistake(
    IndexError,
    """
Dimension out of range (expected to be in range of [-2, 1], but got 2)
""",
)
def transposing_a_dimension_that_is_not_there(rl):
    # Meant: transpose(0, 1).
    rl.ones(2, 3).transpose(0, 2)


@mistake(
    RuntimeError,
    """
permute(): duplicate dims are not allowed.
""",
)
def permuting_one_dimension_twice(rl):
    # Meant: permute(1, 0).
    rl.ones(2, 3).permute(0, 0)


@mistake(
    RuntimeError,
    """
dim 0 appears multiple times in the list of dims
""",
)
def summing_one_dimension_twice(rl):
    # Meant: sum([0, 1]).
    rl.ones(2, 3).sum([0, 0])


@mistake(
    RuntimeError,
    """
split_with_sizes expects split_sizes to sum exactly to 3 (input tensor's size at \
dimension 0), but got split_sizes=[1, 1]
""",
)
def splitting_into_parts_that_do_not_add_up(rl):
    # Meant: split([1, 2]).
    rl.ones(3).split([1, 1])


@mistake(
    RuntimeError,
    """
start (2) + length (2) exceeds dimension size (3).
""",
)
def narrowing_past_the_end(rl):
    # Meant: narrow(0, 1, 2).
    rl.ones(3).narrow(0, 2, 2)


@mistake(
    RuntimeError,
    """
The size of tensor a ([2, 3]) must match the size of tensor b ([4]): the source \
cannot be expanded to the target
  target: float32[2, 3]
  source: float32[4]
""",
)
def copying_a_row_of_another_length(rl):
    # Meant: a source of shape (2, 3) or (3,).
    rl.ones(2, 3).copy_(rl.ones(4))


@mistake(
    RuntimeError,
    """
output with shape [3] doesn't match the broadcast shape [2, 3]
""",
)
def adding_a_matrix_into_a_vector(rl):
    # Meant: vector + matrix, which is a new matrix.
    rl.ones(3).add_(rl.ones(2, 3))


@mistake(
    RuntimeError,
    """
Given normalized_shape=[4], expected input with shape [*, 4], but got input of \
size[2, 3]
""",
)
def normalizing_a_shape_that_the_input_lacks(rl):
    # Meant: normalized_shape [3].
    rl.nn.functional.layer_norm(rl.ones(2, 3), [4])


@mistake(
    RuntimeError,
    """
max_pool2d: pad should be at most half of effective kernel size, but got pad=2, \
kernel_size=2 and dilation=1
""",
)
def padding_more_than_a_window_covers(rl):
    # Meant: padding=1.
    rl.nn.functional.max_pool2d(rl.ones(1, 1, 4, 4), 2, padding=2)
