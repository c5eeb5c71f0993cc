"""Recording switched on and off; inference mode; anomaly detection."""

import warnings

from . import attempt, scenario


def leaf(t, *values):
    return t.tensor([float(v) for v in values]).requires_grad_()


@scenario
def no_grad_records_nothing(t):
    a = leaf(t, 1, 2)
    with t.no_grad():
        y = a * 2
        inner = t.is_grad_enabled()
    return y.requires_grad, y.grad_fn, inner, t.is_grad_enabled()


@scenario
def modes_nest(t):
    log = []
    with t.no_grad():
        with t.enable_grad():
            log.append(t.is_grad_enabled())
            with t.set_grad_enabled(False):
                log.append(t.is_grad_enabled())
            log.append(t.is_grad_enabled())
        log.append(t.is_grad_enabled())
    log.append(t.is_grad_enabled())
    return log


@scenario
def the_mode_comes_back_after_an_error(t):
    def fail():
        with t.no_grad():
            raise KeyError("lost")

    return attempt(fail), t.is_grad_enabled()


@scenario
def set_grad_enabled_works_at_once(t):
    log = []
    t.set_grad_enabled(False)
    log.append(t.is_grad_enabled())
    t.set_grad_enabled(True)
    log.append(t.is_grad_enabled())
    return log


@scenario
def modes_decorate_functions(t):
    @t.no_grad()
    def called(a):
        return a * 2, t.is_grad_enabled()

    @t.no_grad
    def bare(a):
        """Words."""
        return t.is_grad_enabled()

    @t.set_grad_enabled(False)
    def switched():
        return t.is_grad_enabled()

    @t.inference_mode()
    def inferred(a):
        return (a * 2).is_inference()

    a = leaf(t, 1, 2)
    y, inside = called(a)
    return (
        y.requires_grad,
        inside,
        bare(a),
        bare.__name__,
        bare.__doc__,
        switched(),
        inferred(a),
        t.is_grad_enabled(),
    )


@scenario
def generators_keep_their_mode_to_themselves(t):
    @t.no_grad()
    def numbers():
        received = yield t.is_grad_enabled()
        log.append((received, t.is_grad_enabled()))
        try:
            yield 2
        except ValueError:
            log.append(t.is_grad_enabled())
        return "done"

    log = []
    generator = numbers()
    log.append((next(generator), t.is_grad_enabled()))
    log.append(generator.send("sent"))
    try:
        generator.throw(ValueError())
    except StopIteration as end:
        log.append(end.value)
    log.append(t.is_grad_enabled())
    return log


@scenario
def inference_mode_makes_inference_tensors(t):
    a = leaf(t, 1, 2)
    with t.inference_mode():
        y = a * 2
        view = y[0]
        inside = t.is_inference_mode_enabled(), t.is_grad_enabled()
        with t.inference_mode(False):
            normal = t.ones(2)
    return (
        y.is_inference(),
        view.is_inference(),
        normal.is_inference(),
        inside,
        y.requires_grad,
        t.is_inference_mode_enabled(),
        y.clone().is_inference(),
    )


@scenario
def inference_tensors_have_rules(t):
    a = leaf(t, 1, 2)
    with t.inference_mode():
        y = t.ones(2)
        y.add_(1)

    return (
        attempt(lambda: y * a)[:2],
        attempt(lambda: y._version),
        attempt(lambda: y.requires_grad_()),
        attempt(lambda: y.add_(1))[:2],
        attempt(lambda: (y + 1).is_inference()),
        attempt(lambda: (y + a).requires_grad),
    )


@scenario
def a_view_from_inference_mode_may_not_change(t):
    a = leaf(t, 1, 2)
    y = a * 1
    with t.inference_mode():
        v = y[0]
    return v.is_inference(), attempt(lambda: v.mul_(a[0]))


@scenario
def anomaly_detection_finds_nan(t):
    a = leaf(t, 0, 4)

    def run():
        with t.autograd.detect_anomaly():
            y = (a * 0).sqrt() * 0
            y.sum().backward()

    return attempt(run)


@scenario
def anomaly_detection_shows_the_forward_call(t):
    class Fails(t.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 2

        @staticmethod
        def backward(ctx, grad):
            raise ValueError("on purpose")

    a = leaf(t, 1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with t.autograd.set_detect_anomaly(True):
            y = Fails.apply(a)  # the line to be shown
            result = attempt(lambda: y.sum().backward())
    texts = [str(w.message) for w in caught]
    return (
        result,
        len(texts),
        "Error detected in FailsBackward" in texts[-1],
        "the line to be shown" in texts[-1],
    )


@scenario
def without_anomaly_detection_nothing_is_checked(t):
    a = leaf(t, 0)
    with t.autograd.set_detect_anomaly(False):
        (a.sqrt() * 0).sum().backward()
    return bool(a.grad.isnan().any())


@scenario
def asarray_is_in_the_graph_unless_it_is_told_not_to_be(t):
    y = t.tensor([1.0, 2.0]).requires_grad_() * 2
    kept, cut = t.asarray(y), t.asarray(y, requires_grad=False)
    copy = t.asarray(y, copy=True)
    return kept is y, kept.requires_grad, cut.requires_grad, copy.requires_grad


@scenario
def anomaly_mode_notes_the_forward_call_on_the_node(t):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with t.autograd.detect_anomaly():
            node = (leaf(t, 1) * 2).grad_fn
    return sorted(node.metadata), "leaf(t, 1) * 2" in "".join(
        node.metadata["traceback_"]
    )


@scenario
def multithreading_is_a_switch(t):
    enabled = t._C._is_multithreading_enabled
    seen = [enabled()]
    with t.autograd.set_multithreading_enabled(False):
        seen.append(enabled())
    seen.append(enabled())
    return seen
