"""Indices and labels outside of what they name."""

from .table import mistake


@mistake(
    IndexError,
    """
index 3 is out of bounds for dimension 0 with size 3
""",
)
def an_element_past_the_end(rl):
    # Meant: x[-1].
    rl.ones(3)[3]


@mistake(
    IndexError,
    """
too many indices for tensor of dimension 1
""",
)
def an_index_too_many(rl):
    # Meant: x[0].
    rl.ones(3)[0, 0]


@mistake(
    IndexError,
    """
select(): index 3 out of range for tensor of size [2, 3] at dimension 1
""",
)
def a_column_past_the_last(rl):
    # Meant: select(1, 2).
    rl.ones(2, 3).select(1, 3)


@mistake(
    RuntimeError,
    """
index 3 is out of bounds for dimension 1 with size 3
""",
)
def gathering_past_the_last_column(rl):
    # Meant: positions counted from 0.
    rl.ones(2, 3).gather(1, rl.tensor([[3], [0]]))


@mistake(
    RuntimeError,
    """
index 3 is out of bounds for dimension 1 with size 3
""",
)
def scattering_past_the_last_column(rl):
    # Meant: positions counted from 0.
    rl.zeros(2, 3).scatter(1, rl.tensor([[3], [0]]), 1.0)


@mistake(
    IndexError,
    """
index out of range in self: 3 for a dimension of size 3
  self: float32[3] on cpu
  index: int64[1] on cpu
""",
)
def selecting_rows_past_the_last(rl):
    # Meant: positions counted from 0.
    rl.ones(3).index_select(0, rl.tensor([3]))


@mistake(
    IndexError,
    """
index 3 is out of bounds for dimension 0 with size 3
""",
)
def several_positions_past_the_end(rl):
    # Meant: positions counted from 0.
    rl.ones(3)[rl.tensor([0, 3])]


@mistake(
    IndexError,
    """
The shape of the mask [2] at index 0 does not match the shape of the indexed tensor \
[3] at index 0
""",
)
def a_mask_of_another_length(rl):
    # Meant: a mask of three elements.
    rl.ones(3)[rl.tensor([True, False])]


@mistake(
    IndexError,
    """
take(): tried to take from an empty tensor
  self: float32[0, 3] on cpu
""",
)
def taking_from_nothing(rl):
    # Meant: a tensor that a loop had filled.
    rl.ones(0, 3).take(rl.tensor([0]))


@mistake(
    RuntimeError,
    """
index_select(): self indexing axis dim should be positive
  self: float32[0, 3] on cpu
  index: int64[1] on cpu
""",
)
def a_word_of_no_vocabulary(rl):
    # Meant: a tensor that a loop had filled.
    rl.nn.functional.embedding(rl.tensor([0]), rl.ones(0, 3))


@mistake(
    IndexError,
    """
index out of range in self: 3 for a dimension of size 3
  self: float32[3, 2] on cpu
  index: int64[1] on cpu
""",
)
def a_word_outside_the_vocabulary(rl):
    # Meant: an embedding with a row for unknown words.
    rl.nn.functional.embedding(rl.tensor([3]), rl.ones(3, 2))


@mistake(
    IndexError,
    """
Target 3 is out of bounds.
""",
)
def a_label_past_the_last_class(rl):
    # Meant: labels counted from 0.
    rl.nn.functional.cross_entropy(rl.ones(2, 3), rl.tensor([0, 3]))


@mistake(
    IndexError,
    """
Target -1 is out of bounds.
""",
)
def a_negative_label(rl):
    # Meant: -100, the label that is left out.
    rl.nn.functional.nll_loss(rl.ones(2, 3), rl.tensor([0, -1]))


@mistake(
    ValueError,
    """
Expected input batch_size (2) to match target batch_size (1).
""",
)
def fewer_labels_than_samples(rl):
    # Meant: a label for each row.
    rl.nn.functional.cross_entropy(rl.ones(2, 3), rl.tensor([0]))


@mistake(
    RuntimeError,
    """
topk: selected index k out of range
  self: float32[3] on cpu
  k: 4
""",
)
def more_values_than_there_are(rl):
    # Meant: topk(3).
    rl.ones(3).topk(4)


@mistake(
    RuntimeError,
    """
chunk expects `chunks` to be greater than 0, got: 0
""",
)
def chunks_without_a_count(rl):
    # Meant: chunk(1).
    rl.ones(3).chunk(0)
