"""Backward over graphs of ordinary operators."""

from . import attempt, scenario


def leaf(t, *values, dtype=None):
    return t.tensor([float(v) for v in values], dtype=dtype).requires_grad_()


@scenario
def a_product_gives_each_factor_the_other(t):
    a, b = leaf(t, 1, 2, 3), leaf(t, 4, 5, 6)
    (a * b).sum().backward()
    return a.grad, b.grad


@scenario
def gradients_add_up_over_two_backwards(t):
    a = leaf(t, 1, 2)
    (a * 3).sum().backward()
    first = a.grad
    (a * 4).sum().backward()
    return a.grad, first is a.grad


@scenario
def a_tensor_used_twice_gets_both_gradients(t):
    a = leaf(t, 1, 2)
    b = a * 2
    (b * b + b).sum().backward()
    return a.grad


@scenario
def a_broadcast_operand_gets_a_summed_gradient(t):
    a = t.ones(2, 3, requires_grad=True)
    b = leaf(t, 1, 2, 3)
    c = t.ones(2, 1, requires_grad=True)
    (a * b * c).sum().backward()
    return a.grad, b.grad, c.grad


@scenario
def a_gradient_is_cast_to_its_inputs_dtype(t):
    a = leaf(t, 1, 2, dtype=t.float64)
    b = leaf(t, 3, 4)
    (a * b).sum().backward()
    return a.grad, b.grad


@scenario
def nodes_print_and_know_their_neighbours(t):
    a = leaf(t, 1, 2)
    y = (a * 2).exp()
    node = y.grad_fn
    product = node.next_functions[0][0]
    end = product.next_functions[0][0]
    return (
        node.name(),
        product.name(),
        repr(end)[:22],
        repr(node)[:22],
        product.next_functions[1],
        end.variable is a,
        end.next_functions,
        node._sequence_nr() > product._sequence_nr(),
        end._sequence_nr(),
        node.requires_grad,
        node.metadata,
    )


@scenario
def leaves_and_results_are_told_apart(t):
    a = leaf(t, 1, 2)
    y = a * 2
    d = y.detach()
    return (
        a.is_leaf,
        y.is_leaf,
        d.is_leaf,
        y.requires_grad,
        d.requires_grad,
        a.grad_fn is None,
        d.grad_fn is None,
        t.ones(2).is_leaf,
    )


@scenario
def one_leaf_has_one_accumulator(t):
    a = leaf(t, 1, 2)
    y, z = a * 2, a + 1
    return y.grad_fn.next_functions[0][0] is z.grad_fn.next_functions[0][0]


@scenario
def a_second_backward_needs_the_graph_retained(t):
    a = leaf(t, 1, 2)
    y = (a * a).sum()
    y.backward(retain_graph=True)
    y.backward()
    return a.grad, attempt(y.backward)


@scenario
def nodes_that_save_nothing_run_again(t):
    a = leaf(t, 1, 2)
    y = (a + 1).sum()
    y.backward()
    y.backward()
    return a.grad


@scenario
def a_vector_needs_a_gradient_to_start_from(t):
    a = leaf(t, 1, 2)
    return attempt((a * 2).backward), attempt(lambda: t.ones(2).sum().backward())


@scenario
def the_starting_gradient_must_fit(t):
    a = leaf(t, 1, 2, 3)
    return (
        attempt(lambda: (a * 2).backward(t.ones(4))),
        attempt(lambda: t.autograd.grad(a * 2, a, t.ones(1))),
        attempt(lambda: t.autograd.grad(a * 2, a, t.ones(3, dtype=t.float64))),
        attempt(lambda: t.autograd.backward([a * 2, a * 3], [t.ones(3), None])),
    )


@scenario
def grad_returns_and_leaves_dot_grad_alone(t):
    a, b = leaf(t, 1, 2), leaf(t, 3, 4)
    y = (a * b).sum()
    found = t.autograd.grad(y, [a, b])
    return found, a.grad, b.grad


@scenario
def grad_stops_at_an_inner_tensor(t):
    a = leaf(t, 1, 2)
    b = a * 3
    y = (b * b).sum()
    return t.autograd.grad(y, [b, a]), a.grad


@scenario
def grad_of_a_tensor_by_itself_is_one(t):
    a = leaf(t, 2)
    y = (a * a).sum()
    return t.autograd.grad(y, y), t.autograd.grad(a.sum(), a)


@scenario
def an_input_without_a_way_to_it_is_an_error(t):
    a, b = leaf(t, 1, 2), leaf(t, 3, 4)

    def ask(**options):
        return t.autograd.grad((a * 2).sum(), [a, b], **options)

    return (
        attempt(ask),
        attempt(lambda: ask(allow_unused=True)),
        attempt(lambda: ask(materialize_grads=True)),
        attempt(lambda: ask(materialize_grads=True, allow_unused=False)),
        attempt(lambda: t.autograd.grad((a * 2).sum(), t.ones(2))),
    )


@scenario
def backward_can_be_limited_to_inputs(t):
    a, b = leaf(t, 1, 2), leaf(t, 3, 4)
    c = a * b
    y = (c * c).sum()
    y.backward(inputs=[a, c], retain_graph=True)
    seen = a.grad.clone(), b.grad, c.grad.clone()
    return seen, attempt(lambda: y.backward(inputs=[]))


@scenario
def second_derivatives_come_from_create_graph(t):
    a = leaf(t, 1, 2, 3)
    (first,) = t.autograd.grad((a * a * a).sum(), a, create_graph=True)
    (second,) = t.autograd.grad(first.sum(), a, create_graph=True)
    (third,) = t.autograd.grad(second.sum(), a)
    return first.detach(), second.detach(), third, first.requires_grad


@scenario
def create_graph_warns_in_backward(t):
    a = leaf(t, 1, 2)
    t.set_warn_always(True)  # it is said once in a process otherwise
    try:
        (a * a).sum().backward(create_graph=True)
    finally:
        t.set_warn_always(False)
    return a.grad.requires_grad, a.grad.grad_fn is not None


@scenario
def several_roots_are_summed(t):
    a = leaf(t, 1, 2)
    y = a * 2
    t.autograd.backward([y.sum(), (y * y).sum()])
    return a.grad


@scenario
def the_same_root_twice_counts_twice(t):
    a = leaf(t, 1, 2)
    y = (a * 2).sum()
    t.autograd.backward([y, y])
    return a.grad


@scenario
def a_leaf_that_stops_wanting_a_gradient_gets_none(t):
    a, b = leaf(t, 1, 2), leaf(t, 3, 4)
    y = (a * b).sum()
    b.requires_grad_(False)
    y.backward()
    return a.grad, b.grad


@scenario
def the_first_gradient_is_not_an_alias_of_the_callers(t):
    a = leaf(t, 1, 2)
    start = t.ones(2)
    (a + 0).backward(start)
    start.mul_(5)
    return a.grad


@scenario
def two_leaves_do_not_share_a_gradient(t):
    a, b = leaf(t, 1, 2), leaf(t, 3, 4)
    (a + b).sum().backward()
    a.grad.mul_(7)
    return a.grad, b.grad


@scenario
def a_gradient_follows_its_leafs_strides(t):
    a = t.ones(3, 2).t().requires_grad_()
    (a * t.ones(2, 3)).sum().backward()
    b = t.ones(2, 3).requires_grad_()
    b.t().contiguous().mul(2.0).sum().backward()
    return a.grad.stride(), b.grad.stride(), a.grad, b.grad


@scenario
def requires_grad_has_rules(t):
    a = leaf(t, 1, 2)

    def switch_off():
        y = a * 2
        y.requires_grad = False

    return (
        attempt(lambda: (a * 2).requires_grad_(False)),
        attempt(switch_off),
        attempt(lambda: (a * 2).requires_grad_().requires_grad),
    )


@scenario
def a_graph_of_many_branches_runs_each_node_once(t):
    a = leaf(t, 1)
    y = a * 1
    for _ in range(12):
        y = y + y
    y.sum().backward()
    return a.grad


@scenario
def detach_cuts_the_graph(t):
    a = leaf(t, 1, 2)
    (a * a.detach()).sum().backward()
    return a.grad


@scenario
def edges_stand_for_tensors_in_grad(t):
    a = leaf(t, 1, 2)
    b = a * 3
    edge = t.autograd.graph.get_gradient_edge(b)
    found = t.autograd.grad((b * b).sum(), [edge])
    return found, edge.output_nr, edge.node is b.grad_fn


@scenario
def the_gradient_of_an_inner_tensor_warns(t):
    y = leaf(t, 1, 2) * 2
    return y.grad


@scenario
def an_assigned_gradient_must_fit(t):
    a = leaf(t, 1, 2, 3)

    def assign(value):
        a.grad = value

    def give_itself():
        a.grad = a

    a.grad = t.zeros(3)
    (a * 2).sum().backward()
    return (
        a.grad,
        attempt(lambda: assign(t.ones(4))),
        attempt(lambda: assign(t.ones(3, dtype=t.float64)))[:2],
        attempt(lambda: assign(5)),
        attempt(give_itself),
        attempt(lambda: assign(None)),
    )


@scenario
def integers_and_out_have_no_gradient(t):
    a = leaf(t, 1, 2, 3)
    return (
        attempt(lambda: t.ones(3, dtype=t.int64).requires_grad_())[:2],
        attempt(lambda: t.add(a, a, out=t.ones(3))),
    )


@scenario
def an_edge_of_a_scalar_starts_a_backward(t):
    a = leaf(t, 1, 2)
    edge = t.autograd.graph.get_gradient_edge
    found = t.autograd.grad(edge((a * a).sum()), a)
    t.autograd.backward(edge((a * 4).sum()))
    refused = attempt(lambda: t.autograd.grad(edge(a * 2), a))
    return found, a.grad, refused


@scenario
def a_node_knows_what_its_gradients_are_like(t):
    node = (leaf(t, 1, 2, dtype=t.float64) * 2).grad_fn
    (meta,) = node._input_metadata
    return list(meta.shape), str(meta.dtype).split(".")[-1], meta.device.type


@scenario
def threads_share_a_graph_that_is_retained(t):
    import threading

    a = leaf(t, 1, 2, 3)
    y = (a * a).sum()
    found = [None] * 4

    def run(place):
        (found[place],) = t.autograd.grad(y, a, retain_graph=True)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return found
