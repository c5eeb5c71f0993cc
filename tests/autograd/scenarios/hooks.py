"""Hooks on tensors, nodes and groups, and the order they run in."""

from . import attempt, scenario


def leaf(t, *values):
    return t.tensor([float(v) for v in values]).requires_grad_()


@scenario
def hooks_run_in_a_fixed_order(t):
    a = leaf(t, 1, 2)
    y = a * 2
    z = y * 3
    log = []
    y.grad_fn.register_hook(lambda gi, go: log.append("node after"))
    y.grad_fn.register_prehook(lambda go: log.append("node before"))
    y.register_hook(lambda g: log.append("tensor"))
    y.retain_grad()
    a.register_post_accumulate_grad_hook(lambda x: log.append("accumulated"))
    a.register_hook(lambda g: log.append("leaf"))
    y.grad_fn.next_functions[0][0].register_prehook(lambda g: log.append("end before"))
    y.grad_fn.next_functions[0][0].register_hook(lambda g, o: log.append("end after"))
    z.sum().backward()
    return log, y.grad


@scenario
def a_tensor_hook_replaces_the_gradient(t):
    a = leaf(t, 1, 2)
    y = a * 2
    y.retain_grad()
    y.register_hook(lambda g: g * 10)
    y.register_hook(lambda g: g + 1)
    y.sum().backward()
    return y.grad, a.grad


@scenario
def a_leaf_hook_replaces_the_gradient(t):
    a = leaf(t, 1, 2)
    a.register_hook(lambda g: g * 10)
    (a * 2).sum().backward()
    (found,) = t.autograd.grad((a * 2).sum(), a)
    return a.grad, found


@scenario
def a_removed_hook_does_not_run(t):
    a = leaf(t, 1, 2)
    handle = a.register_hook(lambda g: g * 10)
    handle.remove()
    handle.remove()
    with a.register_hook(lambda g: g * 100):
        pass
    (a * 2).sum().backward()
    return a.grad


@scenario
def hooks_stay_with_the_history_they_were_put_on(t):
    a = leaf(t, 1, 2)
    y = a * 2
    log = []
    y.register_hook(lambda g: log.append(("old", g.tolist())))
    y.retain_grad()
    y.mul_(5)
    y.register_hook(lambda g: log.append(("new", g.tolist())))
    y.sum().backward()
    return log, y.grad, a.grad


@scenario
def retain_grad_keeps_an_inner_gradient(t):
    a = leaf(t, 1, 2)
    y = a * 2
    y.retain_grad()
    before = y.retains_grad, a.retains_grad
    (y * y).sum().backward(retain_graph=True)
    first = y.grad.clone()
    (y * y).sum().backward()
    return before, first, y.grad


@scenario
def what_retain_grad_keeps_is_nobody_elses(t):
    a = leaf(t, 1, 2)
    y = a * 2
    z = y + 1
    y.retain_grad()
    z.retain_grad()
    z.sum().backward()
    strides = y.grad.stride(), z.grad.stride()
    z.grad.zero_()
    y.grad.add_(1)
    return strides, y.grad, z.grad, a.grad


@scenario
def bad_registrations_are_refused(t):
    a = leaf(t, 1, 2)
    return (
        attempt(lambda: t.ones(2).register_hook(print)),
        attempt(lambda: t.ones(2).retain_grad()),
        attempt(lambda: (a * 2).register_post_accumulate_grad_hook(print)),
        attempt(lambda: t.ones(2).register_post_accumulate_grad_hook(print)),
    )


@scenario
def bad_replacements_are_refused(t):
    def run(hook, prepare=lambda y, hook: y.register_hook(hook)):
        y = leaf(t, 1, 2, 3) * 2
        prepare(y, hook)
        y.sum().backward()

    def after(y, hook):
        y.grad_fn.register_hook(hook)

    def before(y, hook):
        y.grad_fn.register_prehook(hook)

    def bad_number(grad):
        return 5

    def bad_size(grad):
        return t.ones(2)

    def bad_count(inputs, outputs):
        return (t.ones(3), None, t.ones(3))

    def bad_pair(outputs):
        return t.ones(3), t.ones(3)

    return (
        attempt(lambda: run(bad_number)),
        attempt(lambda: run(bad_size)),
        attempt(lambda: run(bad_count, after)),
        attempt(lambda: run(bad_pair, before)),
    )


@scenario
def node_hooks_see_and_replace_gradients(t):
    a = leaf(t, 1, 2)
    y = a * 3
    log = []

    def before(outputs):
        log.append([o.tolist() for o in outputs])
        return (outputs[0] * 2,)

    def after(inputs, outputs):
        log.append([None if i is None else i.tolist() for i in inputs])
        log.append([o.tolist() for o in outputs])
        return (inputs[0] + 1, None)

    y.grad_fn.register_prehook(before)
    y.grad_fn.register_hook(after)
    y.sum().backward()
    return log, a.grad


@scenario
def grad_captures_after_tensor_hooks_and_before_node_hooks(t):
    a = leaf(t, 1, 2)
    y = a * 3
    log = []
    y.register_hook(lambda g: g * 10)
    y.grad_fn.register_prehook(lambda g: log.append("node"))
    found = t.autograd.grad((y * 2).sum(), y)
    return found, log


@scenario
def groups_of_tensors_are_watched_together(t):
    a, b = leaf(t, 1, 2), leaf(t, 3, 4)
    log = []
    c, d = a * 2, b * 3

    def note(grads):
        log.append([None if g is None else g.tolist() for g in grads])

    handle = t.autograd.graph.register_multi_grad_hook((c, d), note)
    any_handle = t.autograd.graph.register_multi_grad_hook(
        (c, d), lambda g: log.append("first"), mode="any"
    )
    (c * d).sum().backward(retain_graph=True)
    c.sum().backward(retain_graph=True)
    handle.remove()
    any_handle.remove()
    (c * d).sum().backward()
    return log


@scenario
def post_accumulate_hooks_see_the_leaf(t):
    a = leaf(t, 1, 2)
    log = []

    def step(x):
        log.append((x is a, x.grad.tolist()))
        x.grad = None

    a.register_post_accumulate_grad_hook(step)
    (a * 2).sum().backward()
    (a * 3).sum().backward()
    return log, a.grad


@scenario
def post_accumulate_hooks_return_nothing_or_the_leaf(t):
    results = []
    for answer in (lambda x: x, lambda x: x.grad, lambda x: x.detach(), lambda x: 3):
        a = leaf(t, 1, 2)
        a.register_post_accumulate_grad_hook(answer)
        results.append(attempt((a * 2).sum().backward))
    return results


@scenario
def a_hook_that_raises_stops_backward(t):
    a = leaf(t, 1, 2)
    y = a * 2

    def fail(grad):
        raise ValueError("no further")

    y.register_hook(fail)
    return attempt(lambda: y.sum().backward()), a.grad


@scenario
def a_hook_may_run_backward_itself(t):
    a, b = leaf(t, 1, 2), leaf(t, 3, 4)
    y = a * 2

    def again(grad):
        with t.enable_grad():
            (b * b).sum().backward()

    y.register_hook(again)
    y.sum().backward()
    return a.grad, b.grad


@scenario
def callbacks_run_at_the_end(t):
    a = leaf(t, 1, 2)
    log = []
    engine = t.autograd.Variable._execution_engine

    def hook(grad):
        engine.queue_callback(lambda: log.append(("end", a.grad.tolist())))
        log.append("hook")

    y = a * 2
    y.register_hook(hook)
    y.sum().backward()
    return log


@scenario
def a_group_of_tensors_needs_gradients(t):
    register = t.autograd.graph.register_multi_grad_hook
    return attempt(lambda: register([t.ones(1)], lambda grads: None))
