"""There is one kind of handle for hooks of tensors, nodes, modules and optimizers."""

import pickle

import rushlight as rl
from rushlight.utils.hooks import RemovableHandle


def test_every_hook_has_the_handle_that_users_know():
    x = rl.ones(2, requires_grad=True)
    y = x * 2
    layer = rl.nn.Linear(2, 2)
    optimizer = rl.optim.SGD(layer.parameters(), lr=0.1)
    handles = [
        x.register_hook(lambda grad: None),
        y.register_hook(lambda grad: None),
        x.register_post_accumulate_grad_hook(lambda tensor: None),
        y.grad_fn.register_hook(lambda given, got: None),
        y.grad_fn.register_prehook(lambda given: None),
        layer.register_forward_hook(lambda *args: None),
        optimizer.register_step_post_hook(lambda *args: None),
    ]
    assert all(type(handle) is RemovableHandle for handle in handles)
    assert len({handle.id for handle in handles}) == len(handles)
    assert RemovableHandle.__module__ == "rushlight.utils.hooks"
    for handle in handles:
        handle.remove()
        handle.remove()


def test_a_handle_of_a_tensor_s_hook_ends_with_its_block():
    x = rl.ones(2, requires_grad=True)
    seen = []
    with x.register_hook(seen.append):
        (x * 3).sum().backward()
    (x * 3).sum().backward()
    assert [grad.tolist() for grad in seen] == [[3.0, 3.0]]


def test_a_handle_outlives_what_it_belongs_to():
    x = rl.ones(2, requires_grad=True)
    handle = x.register_hook(print)
    copied = pickle.loads(pickle.dumps(handle.__getstate__()[1]))
    del x
    handle.remove()
    assert copied == handle.id
