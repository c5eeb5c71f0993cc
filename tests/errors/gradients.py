"""Gradients that cannot be had."""

from .table import mistake


@mistake(
    RuntimeError,
    """
a leaf Variable that requires grad is being used in an in-place operation.
""",
)
def changing_a_parameter_in_place(rl):
    # Meant: to do so under no_grad.
    weight = rl.ones(3, requires_grad=True)
    weight.add_(1)


@mistake(
    RuntimeError,
    """
a view of a leaf Variable that requires grad is being used in an in-place operation.
""",
)
def changing_a_view_of_a_parameter_in_place(rl):
    # Meant: to do so under no_grad.
    weight = rl.ones(3, requires_grad=True)
    weight.view(3).add_(1)


@mistake(
    RuntimeError,
    """
one of the variables needed for gradient computation has been modified by an inplace \
operation: [rushlight.FloatTensor [3]], which is output 0 of Exp, is at version 1; \
expected version 0 instead.
  needed by: ExpBackward0
  modified to version 1 at FILE:LINE in changing_a_value_that_backward_needs: \
y.add_(1)
Write the result to a new tensor there, or clone the tensor before the change.
""",
)
def changing_a_value_that_backward_needs(rl):
    # Meant: y = y + 1.
    x = rl.ones(3, requires_grad=True)
    y = x.exp()
    y.add_(1)
    y.sum().backward()


@mistake(
    RuntimeError,
    """
Trying to backward through the graph a second time (or directly access saved tensors \
after they have already been freed). Saved intermediate values of the graph are freed \
when you call .backward() or autograd.grad(). Specify retain_graph=True if you need \
to backward through the graph a second time or if you need to access saved tensors \
after calling backward.
""",
)
def going_backward_twice(rl):
    # Meant: retain_graph=True the first time.
    x = rl.ones(3, requires_grad=True)
    y = (x * x).sum()
    y.backward()
    y.backward()


@mistake(
    RuntimeError,
    """
grad can be implicitly created only for scalar outputs
""",
)
def going_backward_from_a_vector(rl):
    # Meant: y.sum().backward().
    x = rl.ones(3, requires_grad=True)
    (x * 2).backward()


@mistake(
    RuntimeError,
    """
element 0 of tensors does not require grad and does not have a grad_fn
""",
)
def going_backward_without_a_graph(rl):
    # Meant: requires_grad=True.
    rl.ones(3).sum().backward()


@mistake(
    RuntimeError,
    """
add(): functions with out=... arguments don't support automatic differentiation, but \
one of the arguments requires grad.
""",
)
def writing_a_differentiable_result_into_out(rl):
    # Meant: result = rl.add(x, x).
    x = rl.ones(3, requires_grad=True)
    rl.add(x, x, out=rl.empty(3))


@mistake(
    RuntimeError,
    """
Mismatch in shape: grad_output[0] has a shape of rushlight.Size([4]) and output[0] \
has a shape of rushlight.Size([3]).
""",
)
def a_gradient_of_another_shape(rl):
    # Meant: a gradient of three elements.
    x = rl.ones(3, requires_grad=True)
    (x * 2).backward(rl.ones(4))


@mistake(
    RuntimeError,
    """
Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.
""",
)
def an_array_of_a_tensor_that_requires_grad(rl):
    # Meant: x.detach().numpy().
    rl.ones(3, requires_grad=True).numpy()


@mistake(
    RuntimeError,
    """
The differentiated Tensor at index 0 appears to not have been used in the graph. Set \
allow_unused=True if this is the desired behavior.
""",
)
def an_input_that_was_not_used(rl):
    # Meant: allow_unused=True.
    x = rl.ones(3, requires_grad=True)
    other = rl.ones(3, requires_grad=True)
    rl.autograd.grad((x * 2).sum(), [other])
