"""What a call was given is what it goes on with, whatever becomes of its lists."""

import pytest

import rushlight as rl

pytest.importorskip("torch", reason="the samples are PyTorch's")


def lists_in(value):
    """The lists of an argument, made of tuples too, which can then be changed."""
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return [value] + [found for item in value for found in lists_in(item)]
    return []


def with_lists(value):
    if type(value) in (list, tuple):
        return [with_lists(item) for item in value]
    return value


def results_of(result):
    if isinstance(result, rl.Tensor):
        return [result]
    if isinstance(result, (list, tuple)):
        return [leaf for item in result for leaf in results_of(item)]
    return []


def gradients(function, args, kwargs, change):
    """Gradients of a call whose lists were changed after it."""
    from tests.plans import Build, Variant

    build = Build(Variant("as it is"))
    args, kwargs = build(args), build(kwargs)
    rl.manual_seed(0)
    results = [t for t in results_of(function(*args, **kwargs)) if t.requires_grad]
    inputs = [t for t in build.tensors.values() if t.requires_grad]
    if not results or not inputs:
        return None
    for found in lists_in([*args, *kwargs.values()])[1:]:
        change(found)
    ones = [rl.ones_like(t) for t in results]
    found = rl.autograd.grad(results, inputs, ones, allow_unused=True)
    return [None if grad is None else grad.to_dense().tolist() for grad in found]


@pytest.mark.filterwarnings("ignore")  # of lists in place of tuples, and their samples
def test_lists_changed_before_backward_change_no_gradient():
    from tests.fuzz import draw
    from tests.plans import lookup

    swept, wrong = 0, []
    for index, (info, has_function) in [*enumerate(draw.operators())][::3]:
        function = lookup(("function" if has_function else "method", info.name))
        for args, kwargs in draw.samples(index, "float32")[:2]:
            args, kwargs = (
                with_lists(args),
                {k: with_lists(v) for k, v in kwargs.items()},
            )
            if function is None or len(lists_in([*args, *kwargs.values()])) < 2:
                continue
            try:
                wanted = gradients(function, args, kwargs, lambda found: None)
            except (RuntimeError, TypeError, ValueError, IndexError):
                continue  # no such call: others judge that
            if wanted is None:
                continue
            swept += 1
            if repr(gradients(function, args, kwargs, list.clear)) != repr(wanted):
                wrong.append(info.name)
    assert swept > 30
    assert not wrong


def test_one_list_may_serve_several_recorded_calls():
    x = rl.randn(5, requires_grad=True)
    weights, places, results = rl.arange(5.0), [0], []
    for shift in range(3):
        places[0] = shift
        results.append(rl.roll(x, places, [0]))
    for shift, result in enumerate(results):
        (found,) = rl.autograd.grad((result * weights).sum(), x)
        assert found.tolist() == rl.roll(weights, [-shift], [0]).tolist()


def test_one_list_may_serve_calls_that_follow_a_plan():
    x, places = rl.arange(5.0), [0]
    for shift in [*range(5)] * 3:
        places[0] = shift
        assert rl.roll(x, places, [0])[shift].item() == 0
