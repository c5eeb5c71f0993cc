"""Hooks of all kinds, in the oracle's order and with its arguments and warnings."""

from __future__ import annotations

import warnings

import pytest

from tests.nn.sides import assert_same_on_both_sides, plain

PROGRAMS: dict = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def _net(m):
    net = m.nn.Sequential(m.nn.Linear(2, 3), m.nn.Tanh(), m.nn.Linear(3, 1))
    for index, parameter in enumerate(net.parameters()):
        parameter.data.fill_(0.1 * (index + 1))
    return net


def _shapes(value):
    if value is None:
        return None
    if isinstance(value, (tuple, list)):
        return [_shapes(each) for each in value]
    return list(value.shape) if hasattr(value, "shape") else repr(value)


@program
def forward_hooks_and_their_order(m):
    net, seen = _net(m), []

    def note(word):
        return lambda *args: seen.append((word, _shapes(args[1:])))

    net.register_forward_hook(note("first"))
    net.register_forward_hook(note("last"))
    net.register_forward_hook(note("before"), prepend=True)
    net.register_forward_pre_hook(note("pre"))
    net.register_forward_pre_hook(note("pre before"), prepend=True)
    handle = net[0].register_forward_hook(note("inner"))
    net(m.ones(4, 2))
    handle.remove()
    net(m.ones(4, 2))
    return seen


@program
def hooks_with_keyword_arguments(m):
    seen = []

    class Layer(m.nn.Module):
        def forward(self, x, factor=1.0):
            return x * factor

    layer = Layer()
    layer.register_forward_pre_hook(
        lambda module, args, kwargs: (args, {"factor": kwargs["factor"] * 2}),
        with_kwargs=True,
    )
    layer.register_forward_hook(
        lambda module, args, kwargs, result: seen.append(sorted(kwargs.items())),
        with_kwargs=True,
    )
    return layer(m.ones(2), factor=3.0), seen


@program
def hooks_that_replace_what_they_see(m):
    net = _net(m)
    net.register_forward_pre_hook(lambda module, args: args[0] * 2)
    net[2].register_forward_hook(lambda module, args, result: result + 1)
    return net(m.ones(4, 2))


@program
def a_pre_hook_with_a_wrong_result(m):
    net = _net(m)
    net.register_forward_pre_hook(lambda *args: 3, with_kwargs=True)
    net(m.ones(4, 2))


@program
def hooks_that_are_always_called(m):
    net, seen = _net(m), []
    net.register_forward_hook(
        lambda module, args, result: seen.append(_shapes(result)), always_call=True
    )
    net.register_forward_hook(lambda *args: seen.append("not this one"))
    try:
        net(m.ones(4, 5))
    except RuntimeError:
        seen.append("failed")
    return seen


@program
def full_backward_hooks(m):
    net, seen = _net(m), []
    x = m.ones(4, 2, requires_grad=True)

    def note(module, before, after):
        seen.append([type(module), _shapes(before), _shapes(after)])

    for each in net.modules():
        each.register_full_backward_hook(note)
    net(x).sum().backward()
    return seen, x.grad


@program
def full_backward_hooks_that_replace_gradients(m):
    net = _net(m)
    x = m.ones(4, 2, requires_grad=True)
    net[2].register_full_backward_hook(lambda module, before, after: (before[0] * 3,))
    net.register_full_backward_pre_hook(lambda module, after: (after[0] * 5,))
    net(x).sum().backward()
    return x.grad, [each.grad for each in net.parameters()]


@program
def full_backward_hooks_without_gradients_of_inputs(m):
    net, seen = _net(m), []
    net.register_full_backward_hook(
        lambda module, before, after: seen.append([_shapes(before), _shapes(after)])
    )
    net(m.ones(4, 2)).sum().backward()
    return seen


@program
def backward_pre_hooks_in_order(m):
    net, seen = _net(m), []
    net.register_full_backward_pre_hook(lambda module, after: seen.append("second"))
    net.register_full_backward_pre_hook(
        lambda module, after: seen.append("first"), prepend=True
    )
    net(m.ones(4, 2)).sum().backward()
    return seen


@program
def older_backward_hooks(m):
    layer, seen = m.nn.Tanh(), []
    layer.register_backward_hook(
        lambda module, before, after: seen.append([_shapes(before), _shapes(after)])
    )
    x = m.ones(2, requires_grad=True)
    layer(x).sum().backward()
    return seen


@program
def both_kinds_of_backward_hooks(m):
    layer = m.nn.Tanh()
    layer.register_backward_hook(lambda *args: None)
    layer.register_full_backward_hook(lambda *args: None)


@program
def hooks_on_all_modules(m):
    from_module = m.nn.modules.module
    seen = []
    handles = [
        from_module.register_module_forward_pre_hook(
            lambda module, args: seen.append(["pre", type(module)])
        ),
        from_module.register_module_forward_hook(
            lambda module, args, result: seen.append(["after", type(module)])
        ),
        from_module.register_module_full_backward_hook(
            lambda module, before, after: seen.append(["back", type(module)])
        ),
        from_module.register_module_full_backward_pre_hook(
            lambda module, after: seen.append(["back pre", type(module)])
        ),
    ]
    try:
        _net(m)(m.ones(4, 2, requires_grad=True)).sum().backward()
    finally:
        for handle in handles:
            handle.remove()
        from_module._global_is_full_backward_hook = None
    return seen


@program
def hooks_on_registration(m):
    from_module = m.nn.modules.module
    seen = []

    def note(kind):
        return lambda module, name, value: seen.append([kind, type(module), name])

    handles = [
        from_module.register_module_parameter_registration_hook(note("parameter")),
        from_module.register_module_buffer_registration_hook(note("buffer")),
        from_module.register_module_module_registration_hook(note("module")),
    ]
    try:
        net = m.nn.Sequential(m.nn.BatchNorm1d(2), m.nn.Linear(2, 2))
        net.extra = m.nn.ReLU()
        net.extra = None
    finally:
        for handle in handles:
            handle.remove()
    return seen


@program
def hooks_on_states(m):
    net, seen = _net(m), []
    net.register_state_dict_pre_hook(
        lambda module, prefix, keep_vars: seen.append(["pre", prefix, keep_vars])
    )
    net[0].register_state_dict_post_hook(
        lambda module, state, prefix, metadata: seen.append(
            [prefix, sorted(state), dict(metadata)]
        )
    )

    def rename(module, state, prefix, *rest):
        seen.append([prefix, len(rest)])
        if "old" in state:
            state[f"{prefix}0.weight"] = state.pop("old")

    net.register_load_state_dict_pre_hook(rename)

    def forgive(module, keys):
        seen.append([list(keys.missing_keys), list(keys.unexpected_keys)])
        keys.missing_keys.clear()

    net.register_load_state_dict_post_hook(forgive)
    state = net.state_dict()
    state["old"] = state.pop("0.weight") + 1
    del state["2.bias"]
    result = net.load_state_dict(state)
    return seen, repr(result), net[0].weight


@program
def a_loading_hook_that_returns_something(m):
    net = _net(m)
    net.register_load_state_dict_post_hook(lambda module, keys: 3)
    net.load_state_dict(net.state_dict())


@program
def a_saving_hook_that_returns_something(m):
    net = _net(m)
    net.register_state_dict_post_hook(lambda *args: 3)
    net.state_dict()


@program
def hooks_of_optimizers(m):
    seen = []
    parameter = m.nn.Parameter(m.ones(2))
    optimizer = m.optim.SGD([parameter], lr=0.1, momentum=0.9)
    parameter.grad = m.ones(2)
    optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append("before"))
    optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append("after"))
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("saving"))
    optimizer.register_state_dict_post_hook(lambda o, state: {**state, "more": 1})
    optimizer.register_load_state_dict_pre_hook(
        lambda o, state: seen.append(sorted(state))
    )
    optimizer.register_load_state_dict_post_hook(lambda o: seen.append("loaded"))
    optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.register_step_pre_hook(lambda o, args, kwargs: 3)
    try:
        optimizer.step()
    except RuntimeError as error:
        seen.append(str(error).partition(" must return")[2])
    return seen


@pytest.mark.parametrize("name", PROGRAMS)
def test_hooks_are_called_as_by_the_oracle(name):
    assert_same_on_both_sides(PROGRAMS[name])


def _warned(m, call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(m)
    return [[each.category.__name__, str(each.message)] for each in caught]


WARNINGS = {
    "several nodes": lambda m, layer: layer(m.ones(2, requires_grad=True)),
    "no tensors in": lambda m, layer: layer(m.ones(2, requires_grad=True), 3),
    "no tensors out": lambda m, layer: layer(
        m.ones(2, requires_grad=True), m.ones(2), as_dict=True
    ),
}


@pytest.mark.parametrize("name", WARNINGS)
def test_older_backward_hooks_warn_as_by_the_oracle(name):
    torch = pytest.importorskip("torch", reason="the oracle is not installed")
    import rushlight as rl

    def call(m):
        class Layer(m.nn.Module):
            def forward(self, x, y=None, as_dict=False):
                result = (x * 2).tanh()
                return {"a": result} if as_dict else result

        layer = Layer()
        layer.register_backward_hook(lambda *args: None)
        WARNINGS[name](m, layer)

    assert plain(_warned(rl, call)) == plain(_warned(torch, call))
