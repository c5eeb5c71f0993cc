"""Sizes that cannot be, and memory that is written twice."""

from .table import mistake


@mistake(
    RuntimeError,
    """
Storage size calculation overflowed with sizes=[4611686018427387904]
""",
)
def more_elements_than_can_be_counted(rl):
    # Meant: 2**6.
    rl.empty(2**62)


@mistake(
    RuntimeError,
    """
Storage size calculation overflowed with sizes=[4294967296, 4294967296]
""",
)
def a_product_of_sizes_that_overflows(rl):
    # Meant: (2**3, 2**2).
    rl.empty(2**32, 2**32)


@mistake(
    RuntimeError,
    """
DefaultCPUAllocator: can't allocate memory: you tried to allocate 281474976710656 \
bytes. Error code 12 (Cannot allocate memory)
  in use: ...
""",
)
def more_bytes_than_there_are(rl):
    # Meant: 2**10.
    rl.empty(2**46)


@mistake(
    RuntimeError,
    """
Trying to create tensor with negative dimension -3: [2, -3]
""",
)
def a_negative_size(rl):
    # Meant: the length of a list that was not empty.
    rl.empty(2, -3)


@mistake(
    RuntimeError,
    """
upper bound and lower bound inconsistent with step sign
""",
)
def a_range_in_the_wrong_direction(rl):
    # Meant: step 1.
    rl.arange(0, 5, -1)


@mistake(
    RuntimeError,
    """
random_ expects 'from' to be less than 'to', but got from=5 >= to=5
""",
)
def an_empty_interval_of_integers(rl):
    # Meant: randint(0, 5, (2,)).
    rl.randint(5, 5, (2,))


@mistake(
    RuntimeError,
    """
unsupported operation: more than one element of the written-to tensor refers to a \
single memory location. Please clone() the tensor before performing the operation.
  written to: float32[3] with strides [0]
""",
)
def writing_to_elements_that_share_memory(rl):
    # Meant: expand(3).clone().
    rl.ones(1).expand(3).add_(1)


@mistake(
    RuntimeError,
    """
unsupported operation: some elements of the input tensor and the written-to tensor \
refer to a single memory location. Please clone() the tensor before performing the \
operation.
  written to: float32[3] with strides [1] from element 1
  input: float32[3] with strides [1] from element 0 of the same storage
""",
)
def shifting_a_vector_within_itself(rl):
    # Meant: x[:-1].clone().
    x = rl.ones(4)
    x[1:].add_(x[:-1])


@mistake(
    RuntimeError,
    """
maximum size for tensor at dimension 0 is 3 but size is 4
""",
)
def a_window_wider_than_the_vector(rl):
    # Meant: unfold(0, 3, 1).
    rl.ones(3).unfold(0, 4, 1)
