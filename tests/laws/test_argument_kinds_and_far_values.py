"""What random calls of operators from j to z found: classes of arguments and of values."""

import pytest

import rushlight

torch = pytest.importorskip("torch", reason="the oracle is not installed")
BOTH = (torch, rushlight)
INF = float("inf")


def refusal(module, call):
    """The kind of exception that a call ends with, or its result."""
    try:
        return call(module)
    except Exception as error:
        return type(error).__name__


def table(module):
    return module.arange(12.0).reshape(3, 4) / 7


PLACES_BY_A_TRUTH = (
    lambda m: table(m).sum(m.tensor(True)),
    lambda m: table(m).amax([m.tensor(True)]),
    lambda m: table(m).permute(m.tensor(True), 0),
    lambda m: m.roll(table(m), m.tensor([True])),
    lambda m: m.var_mean(table(m), m.tensor(False))[0],
    lambda m: m.nn.functional.avg_pool2d(table(m)[None], m.tensor(True)),
)


@pytest.mark.parametrize("call", PLACES_BY_A_TRUTH)
def test_a_tensor_of_a_truth_value_stands_for_a_place(call):
    theirs, ours = (call(m) for m in BOTH)
    assert tuple(ours.shape) == tuple(theirs.shape)
    assert ours.flatten().tolist() == pytest.approx(theirs.flatten().tolist())


def test_a_tensor_of_a_truth_value_is_no_size():
    for call in (
        lambda m: m.zeros((2, m.tensor(True))),
        lambda m: table(m).reshape(12, m.tensor(True)),
    ):
        assert "Error" in refusal(torch, call)
        assert "Error" in refusal(rushlight, call)


REFUSED = (
    lambda m: m._softmax_backward_data(table(m), table(m), -1, None),
    lambda m: table(m).to(None, False),
    lambda m: table(m).view(None),
    lambda m: m.tensor([3]).repeat_interleave(),
    lambda m: m.kthvalue(table(m).requires_grad_(), 1, out=()),
    lambda m: m.mv(m.tensor(1.0), m.ones(0)),
    lambda m: m.nn.functional.pdist(table(m), p=float("nan")),
    lambda m: m.randint_like(table(m), m.tensor([3])),
    lambda m: m.tensor(1.0).unsafe_chunk(2, 1),
    lambda m: m.tensor_split(table(m), m.tensor([[1]])),
    lambda m: m.nn.functional.max_unpool2d(
        table(m)[None], m.arange(12).reshape(1, 3, 4), m.tensor(1)
    ),
    lambda m: table(m).masked_fill(
        table(m) > 1, m.tensor(1e300, dtype=m.float64, requires_grad=True)
    ),
    lambda m: table(m).masked_fill(table(m) > 1, m.tensor(1 + 2j, requires_grad=True)),
    lambda m: m._segment_reduce(
        m.arange(6), "max", offsets=m.tensor([0, 9]), axis=0, unsafe=True
    ),
)


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_what_pytorch_refuses_is_refused_for_the_same_reason(number):
    theirs, ours = (refusal(m, REFUSED[number]) for m in BOTH)
    assert isinstance(theirs, str) and ours == theirs


def test_none_is_a_device_where_a_type_follows():
    for m in BOTH:
        assert table(m).to(None, m.float64, False).dtype is m.float64


def test_the_bound_of_random_integers_may_be_a_tensor():
    drawn = rushlight.randint_like(rushlight.zeros(500), rushlight.tensor(3.5))
    assert set(drawn.tolist()) == {0.0, 1.0, 2.0}


def test_weights_of_planes_may_have_any_shape():
    for m in BOTH:
        scores, labels = m.zeros(2, 3, 2, 2), m.zeros(2, 2, 2, dtype=m.int64)
        weight = m.ones(1, 3)
        assert m.nn.functional.nll_loss(scores, labels, weight).item() == 0


def test_one_number_in_a_tensor_says_how_many_dimensions_meet():
    for m in BOTH:
        dims = m.tensor([2])
        assert m.tensordot(m.ones(2, 2, 2), m.ones(2, 2, 2), dims).shape == (2, 2)


def twice(m, function, values):
    x = m.tensor(values, requires_grad=True)
    (first,) = m.autograd.grad(function(m, x).sum(), x, create_graph=True)
    return m.autograd.grad(first.sum(), x)[0]


FAR = {
    "soft_margin_loss": (
        lambda m, x: m.nn.functional.soft_margin_loss(x, m.ones_like(x)),
        [25.0, 60.0, -100.0, 3.0],
    ),
    "log_ndtr": (lambda m, x: m.special.log_ndtr(x), [77.0, 30.0, 1.0, -2.0]),
    "logit": (lambda m, x: m.logit(x), [-3.0, 0.25, 0.75, 4.0]),
    "mvlgamma": (lambda m, x: m.mvlgamma(x, 2), [INF, 5.0]),
}


@pytest.mark.parametrize("name", FAR)
def test_second_gradients_far_out_are_those_of_pytorch(name):
    theirs, ours = (twice(m, *FAR[name]).tolist() for m in BOTH)
    assert ours == pytest.approx(theirs, rel=1e-4, abs=0, nan_ok=True)


def test_trigamma_vanishes_at_infinity():
    for m in BOTH:
        assert m.polygamma(1, m.tensor([INF])).tolist() == [0.0]


def test_the_mean_of_a_channel_with_an_infinity_is_infinite():
    for m in BOTH:
        x = m.tensor([[INF], [1.0], [2.0]])
        kept = m.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5)
        assert kept[1].tolist() == [INF]


def test_factors_of_an_outer_product_are_of_its_category():
    factors = (True, 1, 0.6, 0.0, 1j)
    for name in ("bool", "int64", "uint8", "float32", "complex64"):
        for beta in factors:
            for alpha in factors:

                def product(m, name=name, beta=beta, alpha=alpha):
                    one, dtype = m.ones(2, 3), getattr(m, name)
                    rows, columns = one[:, 0].to(dtype), one[0].to(dtype)
                    made = m.addr(one.to(dtype), rows, columns, beta=beta, alpha=alpha)
                    return made.tolist()

                assert refusal(rushlight, product) == refusal(torch, product)


def test_the_gradient_of_a_number_times_a_far_power_of_two_is_that_power():
    far = [100, 127, 300, 1000, -3, -1000]
    for dtype in (rushlight.float64, rushlight.float32):
        steps = rushlight.tensor(far, dtype=rushlight.int32)
        x = rushlight.full((len(far),), 1e-30, dtype=dtype, requires_grad=True)
        weights = rushlight.full((len(far),), 2.0**-20, dtype=dtype)
        (x.ldexp(steps) * weights).sum().backward()
        exact = rushlight.ldexp(rushlight.tensor(2.0**-20, dtype=dtype), steps)
        assert x.grad.tolist() == exact.tolist()


def test_numbers_have_no_matrix_products_with_tensors():
    for number in (2, 2.0, True, 2j, 2**70):
        for m in BOTH:
            for name in ("__matmul__", "__rmatmul__"):
                assert getattr(m.ones(2, 2), name)(number) is NotImplemented
            with pytest.raises(TypeError, match="unsupported operand type"):
                m.ones(2, 2) @ number
            with pytest.raises(TypeError, match="unsupported operand type"):
                number @ m.ones(2, 2)


def test_the_start_of_a_reduced_stretch_is_real():
    for start in (1j, 2 + 0j, 0.5, None):

        def reduced(m, start=start):
            parts = m.tensor([0, 1, 1])
            whole = m.segment_reduce(m.ones(2), "min", lengths=parts, initial=start)
            return whole.tolist()

        ours, theirs = (refusal(m, reduced) for m in BOTH)
        assert ours == theirs
