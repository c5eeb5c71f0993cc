"""What nodes keep, and the hooks that change how they keep it."""

from . import attempt, scenario


def leaf(t, *values):
    return t.tensor([float(v) for v in values]).requires_grad_()


@scenario
def saved_inputs_can_be_read(t):
    a, b = leaf(t, 1, 2), leaf(t, 3, 4)
    node = (a * b).grad_fn
    return node._saved_self, node._saved_other, node._saved_self is a


@scenario
def a_saved_result_belongs_to_the_graph(t):
    y = leaf(t, 1, 2).exp()
    kept = y.grad_fn._saved_result
    return kept, kept.grad_fn is y.grad_fn, kept.requires_grad


@scenario
def released_values_are_gone(t):
    a = leaf(t, 1, 2)
    y = a * a
    node = y.grad_fn
    y.sum().backward()
    return attempt(lambda: node._saved_self), attempt(lambda: node._saved_nonsense)[:2]


@scenario
def hooks_pack_and_unpack(t):
    a = leaf(t, 1, 2)
    log = []

    def pack(x):
        log.append(("pack", x.tolist(), x.requires_grad))
        return x.tolist()

    def unpack(values):
        log.append(("unpack", values))
        return t.tensor(values) * 10

    with t.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = a * a
    z = y * 3
    z.sum().backward()
    return a.grad, log


@scenario
def hooks_keep_second_derivatives(t):
    a = leaf(t, 1, 2)
    with t.autograd.graph.saved_tensors_hooks(lambda x: x.detach(), lambda x: x):
        y = (a.exp() * a).sum()
        (first,) = t.autograd.grad(y, a, create_graph=True)
        (second,) = t.autograd.grad(first.sum(), a)
    return first.detach(), second


@scenario
def the_innermost_hooks_win(t):
    a = leaf(t, 1, 2)
    log = []

    def hooks(name):
        return t.autograd.graph.saved_tensors_hooks(
            lambda x: log.append(name) or x, lambda x: x
        )

    with hooks("outer"):
        with hooks("inner"):
            a.exp()
        a.exp()
    a.exp()
    return log


@scenario
def saving_on_the_cpu_changes_nothing(t):
    a = leaf(t, 1, 2)
    with t.autograd.graph.save_on_cpu():
        y = a * a
    y.sum().backward()
    return a.grad


@scenario
def hooks_may_not_change_their_input(t):
    a = leaf(t, 1, 2) * 1

    def run():
        with t.autograd.graph.saved_tensors_hooks(lambda x: x.add_(1), lambda x: x):
            a * a

    return attempt(run)[:2]


@scenario
def hooks_must_return_tensors(t):
    a = leaf(t, 1, 2)

    def run():
        with t.autograd.graph.saved_tensors_hooks(lambda x: "kept", lambda x: x):
            y = a * a
        y.sum().backward()

    return attempt(run)


@scenario
def hooks_can_be_forbidden(t):
    def run():
        with t.autograd.graph.disable_saved_tensors_hooks("not here"):
            with t.autograd.graph.save_on_cpu():
                pass

    return attempt(run)


@scenario
def one_saved_tensor_can_have_its_own_hooks(t):
    a = leaf(t, 1, 2)
    y = a * a
    raw = y.grad_fn._raw_saved_self
    raw.register_hooks(lambda x: x.detach() * 10, lambda x: x)
    again = attempt(lambda: raw.register_hooks(lambda x: x, lambda x: x))
    y.sum().backward()
    return a.grad, again


@scenario
def packed_tensors_are_not_guarded_by_version(t):
    a = leaf(t, 1, 2)
    x = a * 1
    with t.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
        y = x * x
    with t.no_grad():
        x.add_(1)
    y.sum().backward()
    return a.grad


@scenario
def mutation_can_be_allowed(t):
    a = leaf(t, 1, 2)
    with t.autograd.graph.allow_mutation_on_saved_tensors():
        x = a * 1
        y = x * x
        x.add_(5)
        y.sum().backward()
    return a.grad


@scenario
def only_what_changes_is_copied(t):
    a = leaf(t, 1, 2)
    with t.autograd.graph.allow_mutation_on_saved_tensors() as book:
        x = a * 1
        y, z = x.sin(), (x * 2).cos()
        before = len(book.cloned)
        x.view(2, 1).add_(5)
        t.zeros(2, out=x.detach())
        after = len(book.cloned)
        (y + z).sum().backward()
    return before, after, a.grad


@scenario
def mutation_is_allowed_until_the_end_of_the_block(t):
    a = leaf(t, 1, 2)
    with t.autograd.graph.allow_mutation_on_saved_tensors():
        x = a * 1
        y = x.sin()
        x.add_(5)
    return attempt(y.sum().backward)[:1]


@scenario
def blocks_that_allow_mutation_do_not_nest(t):
    def nested():
        with t.autograd.graph.allow_mutation_on_saved_tensors():
            with t.autograd.graph.allow_mutation_on_saved_tensors():
                pass

    return attempt(nested)
