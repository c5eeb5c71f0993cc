"""Arguments of odd types, sizes and orders, beside the oracle."""

import pytest

import rushlight as rl
from tests.operators.outcomes import goes_as_on_pytorch, kind

ONE_DIM = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
TRANSFORMS = ONE_DIM + [f"{name}{n}" for name in ONE_DIM for n in "2n"]


@pytest.mark.parametrize("out", ["bool", "int64", "float64", "complex128", "float16"])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_write_to_their_own_field_only(name, out):
    if name in ("ifft", "ihfft") and out == "complex128":
        pytest.skip("PyTorch takes the conjugate in `out=` itself, of one type only")
    goes_as_on_pytorch(
        lambda m: getattr(m.fft, name)(
            m.ones(3, 4), out=m.empty(0, dtype=getattr(m, out))
        )
    )


SIZES = [(5, 7, 1), (3, 1, 5, 1), (1, 5, 1, 7), (2, 1, 3), (1, 1, 4), (4, 1, 1)]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_transforms_lay_single_elements_out_as_pytorch(sizes):
    for dim in range(len(sizes)):
        for name in ("fft", "rfft", "irfft", "fftn"):
            where = (dim,) if name == "fftn" else dim
            goes_as_on_pytorch(
                lambda m, f=name, d=where: getattr(m.fft, f)(m.ones(sizes), dim=d)
            )


POLYNOMIALS = ["legendre_polynomial_p", "hermite_polynomial_h", "xlog1py", "zeta"]


@pytest.mark.parametrize("number", [1e40, 10**30, 2**64, float("nan"), True])
@pytest.mark.parametrize("name", POLYNOMIALS)
def test_numbers_beside_tensors_may_overflow(name, number):
    goes_as_on_pytorch(lambda m: getattr(m.special, name)(number, m.ones(2)))
    goes_as_on_pytorch(lambda m: getattr(m.special, name)(m.ones(2), number))


ODD = {
    "bilinear of two types": lambda m: m.nn.functional.bilinear(
        m.ones(5, 4).short(), m.ones(5, 4).char(), m.ones(5, 4).short()
    ),
    "bilinear, one bias": lambda m: m.nn.functional.bilinear(
        m.ones(4), m.ones(4), m.ones(3, 4, 4), m.ones(())
    ),
    "bilinear, complex": lambda m: m.nn.functional.bilinear(
        *(m.ones(n, dtype=m.complex64) for n in ([4], [4])),
        m.ones(3, 4, 4, dtype=m.complex64).requires_grad_(),
    ),
    "bags of an unknown mode": lambda m: m.nn.functional.embedding_bag(
        m.zeros(2, 2).long(), m.ones(3, 4), mode="x", per_sample_weights=m.ones(2, 2)
    ),
    "no signals": lambda m: m.stft(
        m.zeros(0, 100), 16, window=m.ones(16), return_complex=True
    ),
    "signals of truth": lambda m: m.stft(
        m.zeros(100).bool(), 16, window=m.ones(16), return_complex=True, center=False
    ),
    "shuffled grid": lambda m: m.nn.functional.grid_sample(
        m.ones(2, 3, 5, 5), m.ones(2, 6, 4, 2).transpose(1, 2), align_corners=False
    ),
    "complex rows": lambda m: m.nn.functional.rms_norm(
        m.ones(2, 3, 2, dtype=m.complex64).transpose(1, 2), (3,)
    ),
    "complex slope": lambda m: m.nn.functional.rrelu(m.ones(3), 1j),
    "no matrices, no pivots": lambda m: m.linalg.lu(m.ones(0, 4, 3), pivot=False),
    "no columns, no pivots": lambda m: m.linalg.lu_factor_ex(m.ones(4, 0), pivot=False),
    "a tensor for a length": lambda m: m.nn.functional.adaptive_avg_pool1d(
        m.ones(2, 3, 8), m.tensor(5)
    ),
    "bytes for a length": lambda m: m.nn.functional.adaptive_max_pool1d(
        m.ones(2, 3, 8), b""
    ),
    "a number for lengths": lambda m: aligned(m, 5, [2, 2]),
    "lengths with fractions": lambda m: aligned(m, [5.0, 5], [2, 2]),
    "lengths in a tensor and a list": lambda m: aligned(m, m.tensor([5, 5]), [2, 2]),
    "labels without a sign": lambda m: m.nn.functional.multilabel_margin_loss(
        m.ones(2, 2).byte(), m.zeros(2, 2, dtype=m.uint8)
    ),
    "a margin beyond the type": lambda m: m.nn.functional.multi_margin_loss(
        m.ones(2, 2), m.zeros(2).long(), margin=1e40
    ),
    "a border beyond the type": lambda m: m.nn.functional.smooth_l1_loss(
        m.ones(2), m.zeros(2), beta=1e40
    ),
    "lengths above half precision": lambda m: m.nn.functional.cosine_similarity(
        m.ones(2).half(), m.ones(2).half(), dim=0, eps=1e5
    ),
    "distances of integers": lambda m: m.nn.functional.pairwise_distance(
        m.ones(3).short(), m.zeros(3).short(), eps=1
    ),
    "a driver without a name": lambda m: m.linalg.lstsq(
        m.ones(2, 3), m.ones(2, 3), driver=b""
    ),
    "weights of another type": lambda m: m.nn.functional.multi_margin_loss(
        m.ones(2, 2), m.zeros(2).long(), weight=m.ones(2).short()
    ),
    "no distances in half precision": lambda m: m.nn.functional.pdist(
        m.ones(1, 1).bfloat16()
    ),
    "kernels of nothing": lambda m: m.nn.functional.conv2d(
        m.ones(1, 3, 4, 4), m.ones(3, 3, 0, 2), padding=1
    ),
    "rows of strided complex numbers": lambda m: m.nn.functional.rms_norm(
        m.empty_strided((1, 2, 1, 3), (6, 1, 6, 2), dtype=m.complex64).fill_(1), (3,)
    ),
    "rows of strided numbers": lambda m: m.nn.functional.rms_norm(
        m.empty_strided((1, 2, 3), (6, 1, 2)).fill_(1), (3,)
    ),
    "taps of infinite weights": lambda m: m.nn.functional.conv_transpose1d(
        m.ones(1, 1, 4), m.tensor([[[1.0, float("inf")]]]), stride=2, padding=1
    ),
    "rows of more dimensions": lambda m: m.nn.functional.rms_norm(m.ones(()), (2, 3)),
}


def aligned(m, inputs, targets):
    scores = m.zeros(5, 2, 4)
    return m.nn.functional.ctc_loss(scores, m.ones(2, 3).long(), inputs, targets)


@pytest.mark.parametrize("call", ODD.values(), ids=ODD)
def test_odd_arguments_go_as_on_pytorch(call):
    goes_as_on_pytorch(call)


@pytest.mark.parametrize("dims", [2, 3])
def test_windows_of_fractional_pooling_fit_as_on_pytorch(dims):
    for window in (2, 4, 5, 6, (2,) * (dims - 1), (2,) * (dims + 1)):
        for size in (2, 3, (2,) * (dims - 1)):
            goes_as_on_pytorch(
                lambda m, w=window, s=size: getattr(
                    m.nn.functional, f"fractional_max_pool{dims}d"
                )(m.ones(1, 3, *[6] * dims), w, output_size=s)
            )


@pytest.mark.parametrize("name", ["hardswish", "i1", "i1e"])
def test_gradients_at_nan_and_zero_are_pytorchs(name):
    torch = pytest.importorskip("torch")
    found = []
    for m in (rl, torch):
        space = m.nn.functional if name == "hardswish" else m.special
        x = m.tensor([float("nan")] * 16 + [0.0, 1.0, -1.0] * 16).requires_grad_()
        getattr(space, name)(x).backward(m.ones(64) + m.zeros(64))
        found.append(x.grad.numpy())
    assert str(found[0].round(5)) == str(found[1].round(5))


@pytest.mark.parametrize("stride", [2**31, 2**62, 2**63 - 1])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_strides_beyond_the_input_have_gradients(dims, stride):
    torch = pytest.importorskip("torch")
    found = []
    for m in (rl, torch):
        x = m.ones(1, 2, *[4] * dims, requires_grad=True)
        w = m.ones(2, 2, *[3] * dims, requires_grad=True)
        conv = getattr(m.nn.functional, f"conv{dims}d")
        conv(x, w, stride=stride, padding=1).sum().backward()
        found.append((x.grad.tolist(), w.grad.tolist()))
    assert found[0] == found[1]


@pytest.mark.parametrize("order", [float("inf"), -float("inf"), 3, 2.0])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_pools_of_powers_are_pytorchs(dims, order):
    torch = pytest.importorskip("torch")
    found = []
    for m in (rl, torch):
        x = (m.arange(2.0 * 4**dims) - 5).reshape(1, 2, *[4] * dims)
        pooled = getattr(m.nn.functional, f"lp_pool{dims}d")(x, order, 2)
        found.append([float(f"{number:.4g}") for number in pooled.flatten().tolist()])
    assert str(found[0]) == str(found[1])


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("name", ["float32", "float64", "complex64"])
def test_reflections_of_zero_have_lapacks_sign(name, sign):
    A = rl.tensor([[0.0, 1.0], [2.0, 3.0]], dtype=getattr(rl, name))
    if name != "complex64":
        A[0, 0] = 0.0 * sign
    R, tau = rl.geqrf(A)
    assert [R[0, 0].item(), R[1, 0].item(), tau[0].item()] == [-2, 1, 1]


@pytest.mark.parametrize("name", ["float32", "complex128"])
def test_factors_of_added_products_scale_their_gradients_last(name):
    """Infinite ones give infinite gradients, and not infinities times zero."""
    torch = pytest.importorskip("torch")
    found = []
    for m in (rl, torch):
        dtype = getattr(m, name)
        mat = m.tensor([[1.0, -2.0], [0.5, 4.0]], dtype=dtype, requires_grad=True)
        vec = m.tensor([3.0, 0.25], dtype=dtype, requires_grad=True)
        out = m.addmv(m.ones(2, dtype=dtype), mat, vec, alpha=-float("inf"))
        grads = m.autograd.grad(out, (mat, vec), m.tensor([1.0, -0.5], dtype=dtype))
        found.append([grad.real.tolist() for grad in grads])
    assert str(found[0]) == str(found[1])


SLOPES = {
    "elu": lambda m, x: m.nn.functional.elu(x),
    "selu": lambda m, x: m.nn.functional.selu(x),
    "logsigmoid": lambda m, x: m.nn.functional.logsigmoid(x * 8 - 20),
    "least power": lambda m, x: (x * 0 + 1).pow(-(2**63)),
    "norm of order -1": lambda m, x: m.linalg.vector_norm(x.reshape(3, 2), -1, dim=1),
    "norm of order -1e-40": lambda m, x: m.norm(x.reshape(3, 2), -1e-40, 1),
    "wide factors": lambda m, x: m.linalg.lu_factor(x.reshape(2, 3) + m.eye(2, 3))[0],
    "tall factors": lambda m, x: m.linalg.lu_factor(x.reshape(3, 2) + m.eye(3, 2))[0],
    "factors": lambda m, x: m.linalg.lu_factor(x[:4].reshape(2, 2) + m.eye(2))[0],
}


@pytest.mark.parametrize("name", SLOPES)
def test_second_slopes_at_zero_are_pytorchs(name):
    torch = pytest.importorskip("torch")
    found = []
    for m in (rl, torch):
        x = m.tensor([-1.0, 2.0, 3.0, 0.5, 0.25, -0.75], requires_grad=True)
        values = x if "factors" in name else m.where(x > 2.5, 0.0, x)
        values = SLOPES[name](m, values)
        (slope,) = m.autograd.grad(values.square().sum(), x, create_graph=True)
        (second,) = m.autograd.grad((slope * slope).sum(), x)
        found.append([float(f"{number:.4g}") for number in second.tolist()])
    assert str(found[0]) == str(found[1])


@pytest.mark.parametrize("dim", [None, 0])
def test_of_nothing_every_norm_is_zero(dim):
    for order in (float("nan"), 0, 0.5, 1, 2, 3):
        norm = rl.linalg.vector_norm(rl.ones(0, 2), order, dim=dim)
        assert norm.tolist() == (0.0 if dim is None else [0.0, 0.0])


def test_kinds_of_results_are_told():
    assert kind(rl.ones(2, 3)) == ("float32", (2, 3), (3, 1), False)


PADS = [(2, 1), (-1, 3), (3, -2), (-2, -1), (0, 4)]


@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize("pad", PADS, ids=str)
@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_padding_of_short_and_long_rows_is_pytorchs(mode, pad, long):
    torch = pytest.importorskip("torch")
    sizes = (2, 3, 300) if long else (2, 3, 6)
    found = []
    for m in (rl, torch):
        x = (m.arange(float(sizes[0] * sizes[1] * sizes[2])) % 11).reshape(sizes)
        x.requires_grad_()
        padded = m.nn.functional.pad(x, pad, mode=mode)
        padded.square().sum().backward()
        found += [padded.stride(), padded.detach().numpy(), x.grad.numpy()]
    assert found[0] == found[3]
    assert (found[1] == found[4]).all()
    assert abs(found[2] - found[5]).max() < 1e-6


def test_padding_of_nothing_by_much_ends_at_once():
    padded = rl.nn.functional.pad(rl.ones(0, 3, 3), (2**31, 1), "replicate")
    assert padded.shape == (0, 3, 2**31 + 4)


ORDERS = [64.0, 1e30, 1e40, 1e300, 1e-46, 0.0, 3.0]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("p", ORDERS, ids=str)
def test_orders_of_distances_are_numbers_of_the_type(p, dtype):
    torch = pytest.importorskip("torch")
    found = []
    for m in (rl, torch):
        rows = [[1.0, 2.0], [3.0, 5.0], [0.0, -4.0], [1.2, 2.1]]
        x = m.tensor(rows, dtype=getattr(m, dtype), requires_grad=True)
        apart = m.nn.functional.pdist(x, p)
        apart.backward(m.arange(1.0, 7.0, dtype=x.dtype))
        numbers = [*apart.tolist(), *m.cdist(x, x, p).reshape(-1).tolist()]
        if p in (3.0, 1e30):  # of infinite orders, PyTorch has NaN
            numbers += x.grad.reshape(-1).tolist()
        found.append([float(f"{number:.4g}") for number in numbers])
    assert str(found[0]) == str(found[1])


SLICES = [(), (1,), (0,), (2,), (2, 3), (1, 3), (2, 2, 2)]


@pytest.mark.parametrize("count", [(), (0,), (1,), (2,), (2, 2)], ids=str)
@pytest.mark.parametrize("name", ["index_add", "index_reduce", "index_copy"])
def test_slices_and_indices_that_do_not_fit_are_told_in_pytorchs_order(name, count):
    more = ("amax",) if name == "index_reduce" else ()
    for sizes in SLICES:
        for source in SLICES:
            for dim in (0, -1, 1):
                goes_as_on_pytorch(
                    lambda m, a=sizes, b=source, d=dim: getattr(m, name)(
                        m.ones(a), d, m.zeros(count, dtype=m.int64), m.ones(b), *more
                    )
                )


PLACES = {
    "a tensor": lambda m: m.tensor(1),
    "a vector": lambda m: m.tensor([1]),
    "a truth": lambda m: m.tensor(True),
    "a fraction": lambda m: m.tensor(1.5),
    "two": lambda m: m.tensor([1, 0]),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "name", ["all", "any", "count_nonzero", "squeeze", "sum", "amax", "flip", "split"]
)
def test_tensors_stand_for_dimensions_where_they_do_on_pytorch(name, place):
    goes_as_on_pytorch(lambda m: getattr(m, name)(m.ones(2, 3), PLACES[place](m)))
    goes_as_on_pytorch(
        lambda m: getattr(m.Tensor, name)(m.ones(2, 3), PLACES[place](m))
    )


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("first", ["number", "tensor"])
def test_quotients_that_are_rounded_down_take_no_gradient_from_out(first, dtype):
    def divided(m):
        x = m.ones(2, dtype=getattr(m, dtype), requires_grad=True)
        left = True if first == "number" else x
        return m.floor_divide(left, x, out=m.empty(2, dtype=x.dtype)).detach()

    goes_as_on_pytorch(divided)


@pytest.mark.parametrize("name", ["i0", "i0e", "i1", "i1e"])
def test_slopes_of_bessel_functions_have_pytorchs_slopes_at_zero_and_nan(name):
    torch = pytest.importorskip("torch")
    found = []
    for m in (rl, torch):
        x = m.tensor([float("nan"), float("inf"), 0.0, 1.0, 700.0], dtype=m.float64)
        x.requires_grad_()
        y = getattr(m.special, name)(x)
        (slope,) = m.autograd.grad(y.sum(), x, create_graph=True)
        (again,) = m.autograd.grad(slope.sum(), x)
        found.append([float(f"{v:.6g}") for v in slope.tolist() + again.tolist()])
    assert str(found[0]) == str(found[1])


TOLD_FIRST = {
    "stack": lambda m: m.stack([m.ones(1), m.ones(2)], 5),
    "slices of a number": lambda m: m.slice_scatter(m.tensor(1.0), m.tensor(1.0)),
    "a text as an index": lambda m: m.ones(2, 2)["mean"],
    "a letter as an index": lambda m: m.ones(2, 2)["m"],
    "bytes as an index": lambda m: m.ones(2)[b"a"],
    "indices of nothing": lambda m: m.index_select(m.ones(0), 0, m.tensor([0])),
    "indices of no rows": lambda m: m.index_select(m.ones(0, 3), 0, m.tensor([0])),
    "a text as a shape": lambda m: m.broadcast_shapes((2,), "sum"),
    "texts in a shape": lambda m: m.broadcast_shapes((2,), ("a",)),
    "a text as a first shape": lambda m: m.broadcast_shapes("a"),
    "too many intervals": lambda m: m.histogramdd(m.ones(5, 2), (3, 2**63 - 1)),
    "places in two ways": lambda m: m.nonzero(m.ones(2), out=m.ones(2), as_tuple=True),
    "no indices": lambda m: m._unsafe_masked_index(m.ones(2), m.ones(1) > 0, [], 1.0),
    "many indices": lambda m: m._unsafe_masked_index(
        m.tensor(1.0), m.tensor(True), [m.tensor([0])] * 2, 1.0
    ),
    "a truth as a size": lambda m: m.unravel_index(m.tensor([1]), [True, 3]),
    "complex signs": lambda m: m.signbit(m.ones(2) + 0j, out=m.ones(2) + 0j),
    "types by tensors": lambda m: m.bitwise_right_shift(m.ones(2), 1.0, out=m.ones(2)),
    "quotients": lambda m: (m.ones(3, 1) + 0j).div_(
        m.ones(2, 3), rounding_mode="trunc"
    ),
    "bytes as sizes": lambda m: m.unravel_index(m.tensor([1]), b"ab"),
    "values of another type": lambda m: m.index_put(m.tensor([1, 2]), (), m.ones(2)),
    "segments": lambda m: m._segment_reduce(
        m.arange(5), "max", axis=0, offsets=m.tensor([4, -4, 9, 0, 1])
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", TOLD_FIRST)
def test_of_two_faults_the_first_that_pytorch_sees_is_told(name):
    torch = pytest.importorskip("torch")
    found = []
    for m in (rl, torch):
        try:
            TOLD_FIRST[name](m)
            found.append(None)
        except Exception as error:
            found.append(type(error).__name__)
    assert found[0] == found[1]


@pytest.mark.filterwarnings("ignore:.*degrees of freedom is <= 0:UserWarning")
@pytest.mark.parametrize("correction", [-5, 0, 1, 2.5])
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_there_is_no_spread_of_nothing(dtype, correction):
    for name in ("var", "std"):
        for sizes in ((0,), (3, 0)):
            spread = getattr(rl, name)(
                rl.ones(sizes, dtype=getattr(rl, dtype)), -1, correction=correction
            )
            assert spread.isnan().all()


def test_the_slope_of_sinc_vanishes_where_squares_do():
    x = rl.tensor([-1e-30, 0.0, 1e-25, 0.25], requires_grad=True)
    rl.sinc(x).sum().backward()
    assert x.grad[:3].tolist() == [0.0, 0.0, 0.0]
    assert abs(x.grad[3].item() + 0.7728) < 1e-3


def test_filled_masks_lie_row_by_row_though_the_number_wants_a_gradient():
    number = rl.tensor(2.0, requires_grad=True)
    for x in (rl.ones(5), rl.ones(5, 5).t()):
        assert x.masked_fill(rl.ones(5, 5).t() > 0, number).stride() == (5, 1)
