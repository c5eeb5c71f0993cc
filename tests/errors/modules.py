"""Layers, losses and state that do not fit."""

from .table import mistake


@mistake(
    RuntimeError,
    """
linear: mat1 and mat2 shapes cannot be multiplied (2x5 and 3x4): input has 5 features \
but weight takes 3
  input: float32[2, 5] on cpu
  weight: float32[4, 3] on cpu
  bias: float32[4] on cpu
""",
)
def a_layer_on_too_many_features(rl):
    # Meant: Linear(5, 4).
    rl.nn.Linear(3, 4)(rl.ones(2, 5))


@mistake(
    RuntimeError,
    """
Expected 3D (unbatched) or 4D (batched) input to conv2d, but got input of size: [8, 8]
""",
)
def an_image_without_channels(rl):
    # Meant: images.unsqueeze(1).
    rl.nn.Conv2d(1, 4, 3)(rl.ones(8, 8))


@mistake(
    TypeError,
    """
linear(): argument 'input' (position 1) must be Tensor, not list
""",
)
def a_layer_on_a_list(rl):
    # Meant: rl.tensor([1.0, 2.0]).
    rl.nn.Linear(2, 3)([1.0, 2.0])


@mistake(
    TypeError,
    """
linear(): argument 'input' (position 1) must be Tensor, not NoneType
""",
)
def a_layer_on_nothing(rl):
    # Meant: the result of the layer before, which returned nothing.
    rl.nn.Linear(2, 3)(None)


@mistake(
    TypeError,
    """
Linear.forward() missing 1 required positional argument: 'input'
""",
)
def a_layer_without_its_input(rl):
    # Meant: layer(x).
    rl.nn.Linear(2, 3)()


@mistake(
    RuntimeError,
    """
running_mean should contain 2 elements not 3
""",
)
def statistics_of_other_channels(rl):
    # Meant: BatchNorm2d(2).
    rl.nn.BatchNorm2d(3)(rl.ones(1, 2, 4, 4))


@mistake(
    ValueError,
    """
Expected more than 1 value per channel when training, got input size \
rushlight.Size([1, 3])
""",
)
def training_on_one_value_a_channel(rl):
    # Meant: a batch of more than one sample, or eval().
    rl.nn.BatchNorm1d(3)(rl.ones(1, 3))


@mistake(
    ValueError,
    """
dropout probability has to be between 0 and 1, but got 1.5
""",
)
def a_probability_above_one(rl):
    # Meant: 0.15.
    rl.nn.functional.dropout(rl.ones(3), 1.5)


@mistake(
    ValueError,
    """
Using a target size (rushlight.Size([3])) that is different to the input size \
(rushlight.Size([2])) is deprecated. Please ensure they have the same size.
""",
)
def targets_of_another_length(rl):
    # Meant: a target for each prediction.
    rl.nn.functional.binary_cross_entropy(rl.ones(2), rl.ones(3))


@mistake(
    RuntimeError,
    """
all elements of input should be between 0 and 1
  input: 2.0 to 2.0
""",
)
def predictions_that_are_no_probabilities(rl):
    # Meant: binary_cross_entropy_with_logits.
    rl.nn.functional.binary_cross_entropy(rl.ones(2) * 2, rl.ones(2))


@mistake(
    RuntimeError,
    """
Error(s) in loading state_dict for Linear:
	Missing key(s) in state_dict: "bias".
	Unexpected key(s) in state_dict: "extra".
	size mismatch for weight: copying a param with shape rushlight.Size([3, 4]) from \
checkpoint, the shape in current model is rushlight.Size([3, 2]).
""",
)
def the_state_of_another_layer(rl):
    # Meant: the state of a Linear(2, 3).
    rl.nn.Linear(2, 3).load_state_dict({"weight": rl.ones(3, 4), "extra": rl.ones(1)})


@mistake(
    TypeError,
    """
int is not a Module subclass
""",
)
def a_number_among_the_layers(rl):
    # Meant: rl.nn.Linear(1, 1).
    rl.nn.Sequential(1)


@mistake(
    AttributeError,
    """
'Linear' object has no attribute 'weights'
""",
)
def a_parameter_that_is_not_there(rl):
    # Meant: layer.weight.
    rl.nn.Linear(2, 3).weights.mean()
