"""Changes in place: histories that move, values that were still needed."""

from . import attempt, scenario


def leaf(t, *values):
    return t.tensor([float(v) for v in values]).requires_grad_()


def kind(node):
    """A node's name as printed, without C++ namespaces."""
    return node.name().split("::")[-1]


@scenario
def an_inplace_result_takes_the_new_history(t):
    a = leaf(t, 1, 2)
    y = a * 1
    y.mul_(3)
    y.add_(a)
    name = y.grad_fn.name()
    y.sum().backward()
    return name, a.grad


@scenario
def an_inplace_factor_that_needs_a_gradient_gets_one(t):
    a, b = leaf(t, 1, 2), leaf(t, 3, 4)
    y = a * 1
    y.mul_(b)
    y.sum().backward()
    return a.grad, b.grad


@scenario
def a_constant_changed_by_a_leaf_requires_grad(t):
    a = leaf(t, 1, 2)
    y = t.zeros(2)
    y.add_(a)
    y.sum().backward()
    return y.requires_grad, a.grad


@scenario
def leaves_may_not_be_changed(t):
    a = leaf(t, 1, 2)
    b = leaf(t, 1, 2)

    def change_view():
        b[0].add_(1)

    return attempt(lambda: a.add_(1)), attempt(change_view)


@scenario
def leaves_may_be_changed_without_grad(t):
    a = leaf(t, 1, 2)
    with t.no_grad():
        a.add_(1)
        a[0].mul_(5)
    return a, a._version, a.requires_grad, a.is_leaf


@scenario
def versions_count_changes_of_the_family(t):
    a = t.zeros(4)
    v = a[1:3]
    d = a.detach()
    a.add_(1)
    v.mul_(2)
    with t.no_grad():
        d.add_(1)
    c = a.clone()
    return a._version, v._version, d._version, c._version


@scenario
def the_counter_of_data_is_its_own(t):
    a = t.zeros(4)
    a.data.add_(1)
    return a._version, a


@scenario
def a_changed_view_changes_its_bases_history(t):
    a = leaf(t, 1, 2, 3)
    y = a * 1
    v = y[:2]
    v.mul_(10)
    names = kind(y.grad_fn), kind(v.grad_fn)
    (y * t.tensor([1.0, 2.0, 3.0])).sum().backward()
    return names, a.grad


@scenario
def a_constant_base_gets_history_through_a_view(t):
    a = leaf(t, 1, 2)
    base = t.zeros(2, 2)
    base[0].copy_(a)
    base[1].mul_(2)
    (base * 3).sum().backward()
    return base.requires_grad, kind(base.grad_fn), a.grad


@scenario
def a_view_follows_a_change_of_its_base(t):
    a = leaf(t, 1, 2, 3)
    y = a * 1
    v = y[1:]
    before = v.grad_fn.name()
    y.mul_(5)
    after = v.grad_fn.name()
    v.sum().backward()
    return before, after, a.grad


@scenario
def a_view_of_a_constant_gains_a_history(t):
    a = leaf(t, 1, 2, 3)
    base = t.ones(3)
    v = base[:2]
    base.mul_(a)
    seen = v.requires_grad, v.grad_fn.name()
    (v * 2).sum().backward()
    return seen, a.grad


@scenario
def two_views_see_each_others_changes(t):
    a = leaf(t, 1, 2, 3)
    y = a * 1
    v, w = y[:2], y[1:]
    v.mul_(2)
    w.mul_(3)
    (v.sum() + (w * w).sum()).backward()
    return y, v, w, a.grad


@scenario
def a_chain_of_views_collapses_to_the_root(t):
    a = leaf(t, 1, 2, 3, 4)
    y = a * 1
    v = y.view(2, 2)[1]
    v.mul_(4)
    y.sum().backward()
    return v._base is y, a.grad


@scenario
def a_transposed_view_may_change(t):
    a = t.ones(2, 3, requires_grad=True)
    y = a * 1
    y.t()[0].mul_(7)
    y.sum().backward()
    return a.grad


@scenario
def setitem_writes_with_history(t):
    a, b = leaf(t, 1, 2, 3), leaf(t, 7)
    y = a * 2
    y[1] = b[0] * 3
    y.sum().backward()
    return y, a.grad, b.grad


@scenario
def an_input_that_was_needed_may_not_change(t):
    a = leaf(t, 1, 2)
    x = a * 1
    y = x * x
    x.add_(1)
    kind, name, message = attempt(lambda: y.sum().backward())
    return kind, name, message.split(" instead.")[0]


@scenario
def an_output_that_was_needed_may_not_change(t):
    a = leaf(t, 1, 2)
    y = a.exp()
    y.add_(1)
    kind, name, message = attempt(lambda: y.sum().backward())
    return kind, name, message.split(" instead.")[0]


@scenario
def a_value_that_was_not_needed_may_change(t):
    a = leaf(t, 1, 2)
    x = a * 1
    y = x + 1
    x.mul_(3)
    (y.sum() + x.sum()).backward()
    return a.grad


@scenario
def outputs_of_unbind_and_split_may_not_change(t):
    a = leaf(t, 1, 2, 3, 4)

    def change(make):
        make(a * 1)[0].add_(1)

    return (
        attempt(lambda: change(lambda y: y.unbind())),
        attempt(lambda: change(lambda y: y.split(2))),
        attempt(lambda: change(lambda y: y.chunk(2))),
    )


@scenario
def views_of_unbind_are_stale_after_a_change(t):
    a = leaf(t, 1, 2)
    y = a * 1
    first, _second = y.unbind()
    y.mul_(2)
    return attempt(lambda: first.grad_fn)


@scenario
def views_made_without_grad_may_not_change_with_it(t):
    a = leaf(t, 1, 2)
    y = a * 1
    with t.no_grad():
        v = y[0]
    return attempt(lambda: v.mul_(a[0]))


@scenario
def an_expanded_tensor_may_not_be_written(t):
    return attempt(lambda: t.zeros(1).expand(3).add_(1))[:2]


@scenario
def detach_in_place_makes_a_leaf(t):
    a = leaf(t, 1, 2)
    y = a * 2
    y.detach_()
    return y.requires_grad, y.is_leaf, y.grad_fn


@scenario
def a_slice_written_twice_keeps_the_last(t):
    a, b = leaf(t, 1, 2), leaf(t, 3, 4)
    base = t.zeros(4)
    base[:2].copy_(a)
    base[:2].copy_(b)
    base[1:3].mul_(2)
    base.sum().backward()
    return base, a.grad, b.grad


@scenario
def second_derivatives_pass_through_slices(t):
    a = leaf(t, 1, 2, 3)
    y = a * a
    y[:2].mul_(a[:2])
    (first,) = t.autograd.grad(y.sum(), a, create_graph=True)
    (second,) = t.autograd.grad(first.sum(), a)
    return first.detach(), second
