"""Custom functions."""

from . import attempt, scenario


def leaf(t, *values):
    return t.tensor([float(v) for v in values]).requires_grad_()


def make(t, backward, forward=None):
    """A Function whose forward doubles its first argument."""

    class Doubled(t.autograd.Function):
        @staticmethod
        def forward(ctx, *args):
            return (forward or (lambda ctx, a, *rest: a * 2))(ctx, *args)

        @staticmethod
        def backward(ctx, *grads):
            return backward(ctx, *grads)

    return Doubled


@scenario
def values_are_saved_and_come_back(t):
    class Product(t.autograd.Function):
        @staticmethod
        def forward(ctx, a, b, scale):
            ctx.save_for_backward(a, b, None)
            ctx.scale = scale
            return a * b * scale

        @staticmethod
        def backward(ctx, grad):
            a, b, nothing = ctx.saved_tensors
            assert nothing is None
            return grad * b * ctx.scale, grad * a * ctx.scale, None

    a, b = leaf(t, 1, 2), leaf(t, 3, 4)
    y = Product.apply(a, b, 2.0)
    node = y.grad_fn
    seen = node.name(), type(node).__name__, len(node.next_functions), node.scale
    y.sum().backward()
    return seen, a.grad, b.grad, attempt(lambda: node.saved_tensors)


@scenario
def context_may_be_set_up_apart(t):
    class Square(t.autograd.Function):
        @staticmethod
        def forward(a):
            return a * a

        @staticmethod
        def setup_context(ctx, inputs, output):
            (a,) = inputs
            ctx.save_for_backward(a)

        @staticmethod
        def backward(ctx, grad):
            (a,) = ctx.saved_tensors
            return 2 * a * grad

    a = leaf(t, 1, 2, 3)
    (first,) = t.autograd.grad(Square.apply(a).sum(), a, create_graph=True)
    (second,) = t.autograd.grad(first.sum(), a)
    return first.detach(), second


@scenario
def needs_input_grad_says_who_asks(t):
    log = []

    def backward(ctx, grad):
        log.append(ctx.needs_input_grad)
        return grad, None, None

    a = leaf(t, 1, 2)
    make(t, backward).apply(a, t.ones(2), 5).sum().backward()
    return log, a.grad


@scenario
def missing_gradients_become_zeros_or_none(t):
    log = []

    def run(materialize):
        def forward(ctx, a):
            ctx.set_materialize_grads(materialize)
            return a * 2, a * 3

        def backward(ctx, first, second):
            log.append([None if g is None else g.tolist() for g in (first, second)])
            return first

        a = leaf(t, 1, 2)
        make(t, backward, forward).apply(a)[0].sum().backward()
        return a.grad

    return run(True), run(False), log


@scenario
def wrong_gradients_are_refused(t):
    def run(result, *more):
        make(t, lambda ctx, g: result).apply(leaf(t, 1, 2, 3), *more).sum().backward()

    one = t.ones(3)
    return (
        attempt(lambda: run(t.ones(5))),
        attempt(lambda: run((one, one))),
        attempt(lambda: run(5)),
        attempt(lambda: run(one, leaf(t, 1, 2, 3))),
        attempt(lambda: run((one, one), 5)),
        attempt(lambda: run((one, None, None))),
        attempt(lambda: run(t.ones(2, 3))),
    )


@scenario
def what_is_saved_must_be_a_tensor(t):
    def forward(ctx, a):
        ctx.save_for_backward(5)
        return a * 2

    return attempt(lambda: make(t, lambda c, g: g, forward).apply(leaf(t, 1, 2)))


@scenario
def saved_inputs_are_guarded_by_version(t):
    def forward(ctx, a):
        ctx.save_for_backward(a)
        return a * 2

    a = leaf(t, 1, 2) * 1
    y = make(t, lambda ctx, g: g * ctx.saved_tensors[0], forward).apply(a)
    a.add_(1)
    kind, name, message = attempt(lambda: y.sum().backward())
    return kind, name, message.split(" instead.")[0]


@scenario
def dirty_inputs_take_the_new_history(t):
    def forward(ctx, a):
        ctx.mark_dirty(a)
        return a.mul_(2)

    function = make(t, lambda ctx, g: g * 2, forward)
    a = leaf(t, 1, 2)
    x = a * 1
    y = function.apply(x)
    same = y is x, x.grad_fn.name()
    y.sum().backward()
    return same, a.grad, attempt(lambda: function.apply(leaf(t, 1)))


@scenario
def marking_an_input_counts_as_a_write(t):
    def forward(ctx, a):
        ctx.mark_dirty(a)
        return a

    function = make(t, lambda ctx, g: g, forward)
    recorded, plain = leaf(t, 1) * 1, t.ones(2)
    return [function.apply(one)._version for one in (recorded, plain, recorded)]


@scenario
def dirty_views_rebase_their_base(t):
    def forward(ctx, a):
        ctx.mark_dirty(a)
        return a.mul_(2)

    function = make(t, lambda ctx, g: g * 2, forward)
    a = leaf(t, 1, 2, 3)
    x = a * 1
    function.apply(x[:2])
    x.sum().backward()
    return x.grad_fn.name().split("::")[-1], a.grad


@scenario
def dirty_inputs_must_be_returned(t):
    def forward(ctx, a):
        ctx.mark_dirty(a)
        return a * 2

    return attempt(lambda: make(t, lambda c, g: g, forward).apply(leaf(t, 1) * 1))


@scenario
def outputs_may_have_no_gradient(t):
    def forward(ctx, a):
        fixed = a * 3
        ctx.mark_non_differentiable(fixed)
        return a * 2, fixed, a.argmax()

    a = leaf(t, 1, 2)
    y, fixed, index = make(t, lambda ctx, g, h, i: g * 2, forward).apply(a)
    y.sum().backward()
    return a.grad, fixed.requires_grad, index.requires_grad, y.requires_grad


@scenario
def an_input_returned_as_it_is_becomes_a_view(t):
    function = make(t, lambda ctx, g: g * 5, lambda ctx, a: a)
    a = leaf(t, 1, 2)
    y = function.apply(a)
    seen = y is a, y._base is a, y.grad_fn.name()
    y.sum().backward()
    return seen, a.grad, attempt(lambda: y.add_(1))


@scenario
def a_returned_view_may_not_change(t):
    function = make(t, lambda ctx, g: t.ones(3), lambda ctx, a: a[:2])
    y = function.apply(leaf(t, 1, 2, 3) * 1)
    return y.grad_fn.name(), attempt(lambda: y.add_(1))


@scenario
def non_tensors_pass_through(t):
    y = make(t, lambda ctx, g, h: g, lambda ctx, a: (a * 2, "word")).apply(leaf(t, 1))
    return y[0], y[1]


@scenario
def nothing_is_recorded_without_grad(t):
    function = make(t, lambda ctx, g: g)
    with t.no_grad():
        y = function.apply(leaf(t, 1))
    return y.requires_grad, function.apply(t.ones(1)).requires_grad


@scenario
def missing_methods_are_named(t):
    class Empty(t.autograd.Function):
        pass

    class Half(t.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 2

    return (
        attempt(lambda: Empty.apply(leaf(t, 1))),
        attempt(lambda: Half.apply(leaf(t, 1)).sum().backward()),
    )


@scenario
def instances_are_discouraged(t):
    make(t, lambda ctx, g: g)()
    return True


@scenario
def forward_runs_without_recording(t):
    log = []

    def forward(ctx, a):
        log.append(t.is_grad_enabled())
        return a * 2

    def backward(ctx, g):
        log.append(t.is_grad_enabled())
        return g

    make(t, backward, forward).apply(leaf(t, 1)).sum().backward()
    return log


@scenario
def once_differentiable_refuses_a_second_time(t):
    from importlib import import_module

    once = import_module(f"{t.__name__}.autograd.function").once_differentiable

    class Cube(t.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(a)
            return a * a * a

        @staticmethod
        @once
        def backward(ctx, grad):
            (a,) = ctx.saved_tensors
            return 3 * a * a * grad

    a = leaf(t, 1, 2)
    start = t.ones(2, requires_grad=True)
    (found,) = t.autograd.grad(Cube.apply(a), a, start, create_graph=True)
    return found, attempt(lambda: found.sum().backward())


@scenario
def a_function_may_run_backward_inside_backward(t):
    def backward(ctx, grad):
        with t.enable_grad():
            b = leaf(t, 3)
            (b * b).sum().backward()
        return grad * b.grad

    a = leaf(t, 2)
    make(t, backward).apply(a).sum().backward()
    return a.grad


@scenario
def nested_backwards_go_deep(t):
    def build(depth):
        def backward(ctx, grad):
            if depth == 0:
                return grad
            with t.enable_grad():
                b = leaf(t, 1)
                build(depth - 1).apply(b).sum().backward()
            return grad + b.grad

        return make(t, backward)

    a = leaf(t, 1)
    build(70).apply(a).sum().backward()
    return a.grad


@scenario
def gradients_are_summed_to_the_inputs_shape(t):
    a = t.ones(1, requires_grad=True)
    make(t, lambda ctx, g: g, lambda ctx, a: a.expand(3) * 2).apply(a).sum().backward()
    return a.grad
