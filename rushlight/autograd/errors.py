"""What autograd says when a graph is used wrongly, in PyTorch's words."""

SECOND_BACKWARD = (
    "Trying to backward through the graph a second time (or directly access saved "
    "tensors after they have already been freed). Saved intermediate values of the "
    "graph are freed when you call .backward() or autograd.grad(). Specify "
    "retain_graph=True if you need to backward through the graph a second time or if "
    "you need to access saved tensors after calling backward."
)
BACKWARD_IN_TRANSFORM = (
    "backward() called inside a functorch transform. This is not supported, please use "
    "functorch.grad or functorch.vjp instead or call backward() outside of functorch "
    "transforms."
)
INFERENCE_SAVED = (
    "Inference tensors cannot be saved for backward. Please do not use Tensors created "
    "in inference mode in computation tracked by autograd. To work around this, you "
    "can make a clone to get a normal tensor and use it in autograd, or use "
    "`rushlight.no_grad()` instead of `rushlight.inference_mode()`."
)
DETACHED_IN_PLACE = (
    "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_()."
    "This is not supported, please use out-of-place `.detach()` instead"
)
CREATE_GRAPH_CYCLE = (
    "Using backward() with create_graph=True will create a reference cycle between the "
    "parameter and its gradient which can cause a memory leak. We recommend using "
    "autograd.grad when creating the graph to avoid this. If you have to use this "
    "function, make sure to reset the .grad fields of your parameters to None after "
    "use to break the cycle and avoid the leak."
)
_BOTH_INSIDE = (
    " Given that this use case is ambiguous and error-prone, it is forbidden. You can "
    "clarify your code by moving both the view and the inplace either both inside the "
    "{mode} block (if you don't want the inplace to be tracked) or both outside (if "
    "you want the inplace to be tracked)."
)
_REMEDIES = {
    "multi_output": (
        ". This view is the output of a function that returns multiple views. Such "
        "functions do not allow the output views to be modified inplace. You should "
        "replace the inplace operation by an out-of-place one."
    ),
    "no_grad": " with grad mode enabled." + _BOTH_INSIDE.format(mode="no_grad"),
    "inference_mode": " in normal mode." + _BOTH_INSIDE.format(mode="inference_mode"),
    "custom_function": (
        ". This view was created inside a custom Function (or because an input was "
        "returned as-is) and the autograd logic to handle view+inplace would override "
        "the custom backward associated with the custom Function, leading to incorrect "
        "gradients. This behavior is forbidden. You can fix this by cloning the output "
        "of the custom Function."
    ),
}


def operator_of(node) -> str:
    """The operator that made a node: ``Exp`` for ``ExpBackward0``.

    >>> from types import SimpleNamespace
    >>> operator_of(SimpleNamespace(name=lambda: "ExpBackward0"))
    'Exp'
    """
    return node.name().rsplit("Backward", 1)[0]


def describe_view_refusal(kind: str, operator: str, number: int, indirect: bool) -> str:
    """Why a view may not be changed in place, and what to do instead."""
    change = (
        "its base or another view of its base has been modified inplace"
        if indirect
        else "is being modified inplace"
    )
    mode = "inference" if kind == "inference_mode" else "no_grad"
    subject = f"A view was created in {mode} mode and "
    if operator and kind in ("no_grad", "inference_mode"):
        subject = (
            f"Output {number} of {operator} is a view of a view which was created in "
            f"{mode} mode and "
        )
    elif operator:
        subject = f"Output {number} of {operator} is a view and "
    return subject + change + _REMEDIES[kind]
