"""An operator of two results becomes one of the first, where nobody reads the second.

    s4, s5 = max_pool2d_with_indices(s0, ...)   ->   s4 = _max_pool_values(s0, ...)

Law: the second result is in a storage that the step makes, that no other step touches and
that nobody sees afterwards.
"""

from rushlight.graph.steps import FRESH, step_of
from rushlight.graph.tape import made_call

# The operator of the first result alone, which takes the same arguments.
ALONE = {
    f"aten.max_pool{axes}d_with_indices.default": "_max_pool_values"
    for axes in (1, 2, 3)
}


def drop(graph):
    """Replaces the steps of a graph whose last results nobody reads."""
    from rushlight.dispatch.dispatcher import packets

    touched = [slot for step in graph.steps for slot in {*step.touched}]
    for number, step in enumerate(graph.steps):
        name = ALONE.get(str(step.op))
        if name is None or not is_unread(graph, step, touched):
            continue
        op = packets()["aten", name].default
        call = step.call
        kinds = [call.kind(i) for i in range(len(call.values))]
        first = call.results[0][1]
        graph.steps[number] = step_of(
            made_call(op, list(call.values), kinds, call, first)
        )


def is_unread(graph, step, touched):
    """Whether all results but the first are new storages that only their step touches."""
    results = step.call.results
    if not step.call.device.on_host or any(kind != FRESH for kind, _ in results):
        return False
    first, *others = (value.slot for _, value in results)
    return not any(
        slot == first or graph.lives(slot) or touched.count(slot) > 1 for slot in others
    )
