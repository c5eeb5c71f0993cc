"""Lists of tensors with something else in them."""

import pytest

import rushlight as rl

CALLS = {
    "cat": (lambda m, x: m.cat([x, None]), "element 1 in argument 0, but got NoneType"),
    "stack": (lambda m, x: m.stack((x, x, 3)), "element 2 in argument 0, but got int"),
    "numbers": (lambda m, x: m.cat([3, 4]), "element 0 in argument 0, but got int"),
    "nested": (
        lambda m, x: m.vstack([x, [x]]),
        "element 1 in argument 0, but got list",
    ),
    "one of several schemas": (
        lambda m, x: m._foreach_add([x, None], 1),
        "element 1 in argument 0, but got NoneType",
    ),
    "the second argument": (
        lambda m, x: m._foreach_add([x, x], [x, "a"]),
        "element 1 in argument 1, but got str",
    ),
    "the rest of the arguments": (
        lambda m, x: m.block_diag(x, None),
        "element 1 in argument 0, but got NoneType",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_is_no_tensor_is_told_by_its_place(name):
    call, told = CALLS[name]
    with pytest.raises(TypeError, match=f"expected Tensor as {told}"):
        call(rl, rl.ones(2))
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match=f"expected Tensor as {told}"):
        call(torch, torch.ones(2))
