"""Which way ties go, and other sizes given in place, on both sides."""

import pytest

import rushlight as rl
from tests.quantized.sides import both, both_by_channel, difference

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings(
    "ignore::UserWarning", "ignore::DeprecationWarning"
)

SCALES = (0.1, 0.3, 0.7, 1 / 3, 1e-3, 7.5)


@pytest.mark.parametrize("dtype", ["qint8", "quint8", "qint32"])
def test_ties_go_the_way_that_they_go_in_pytorch(dtype):
    for scale in SCALES:
        for point in (0, 5, 128 if dtype == "quint8" else -3):
            for count in (7, 16, 1000):
                x = (torch.arange(count) - count // 2) * scale / 2
                assert difference(*both(torch, x, scale, point, dtype)) == 0


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", ["qint8", "quint8", "qint32"])
def test_ties_of_channels_go_the_way_that_they_go_in_pytorch(dtype, axis):
    scales = torch.tensor(SCALES * 4, dtype=torch.float64)
    points = torch.arange(24) - (0 if dtype == "quint8" else 12)
    steps = (torch.arange(24 * 24).reshape(24, 24) - 288) % 60 - 30
    x = (steps / 2 * scales.unsqueeze(1 - axis)).float()
    one, two = both_by_channel(torch, x, scales, points, axis, dtype)
    assert difference(one.int_repr(), two.int_repr()) == 0


def test_ranges_ask_for_pytorch_s_scales_and_zero_points():
    for step in (0.05, 0.25, 0.3, 0.31):
        for low in range(0, 64, 3):
            for high in range(0, 64, 3):
                ends = [-low * step, high * step]
                for reduced in (False, True):
                    one = rl._choose_qparams_per_tensor(rl.tensor(ends), reduced)
                    two = torch._choose_qparams_per_tensor(torch.tensor(ends), reduced)
                    assert one == two, ends
    for ends in (
        [-1e-39, 2e-39],
        [0.0, 1e-39],
        [-3e-37, 1e-37],
        [-1e-36, 2e-36],
        [-1e-6, 2e-6],
    ):
        one = rl._choose_qparams_per_tensor(rl.tensor(ends), False)
        assert one == torch._choose_qparams_per_tensor(torch.tensor(ends), False)


@pytest.mark.parametrize("reduced", [False, True])
def test_ties_of_numbers_that_are_quantized_on_the_way(reduced):
    eye, torch_eye = both(torch, torch.eye(64), 1.0, 0, "qint8")
    ours = rl.ops.quantized.linear_prepack(eye, None)
    theirs = torch.ops.quantized.linear_prepack(torch_eye, None)
    for step in (0.05, 0.25, 0.31):
        for rows in (3, 50, 3000):  # the last by several threads
            x = (torch.arange(rows * 64).reshape(rows, 64) % 121 - 60) * step
            mine = rl.tensor(x.numpy())
            one = rl.ops.quantized.linear_dynamic(mine, ours, reduced)
            two = torch.ops.quantized.linear_dynamic(x, theirs, reduced)
            assert difference(one, two) == 0
            name = "linear_with_input_q_dq_qweight_dq_output_fp32"
            one = getattr(rl.ops.quantized, name)(mine, 0.8 * step, 100, ours)
            two = getattr(torch.ops.quantized, name)(x, 0.8 * step, 100, theirs)
            assert difference(one, two) == 0


CHANGES = [
    ("squeeze_", ()), ("squeeze_", (0,)), ("squeeze_", ((0, 1),)), ("unsqueeze_", (1,)),
    ("transpose_", (1, 2)), ("swapaxes_", (0, 1)), ("swapdims_", (0, 2)),
    ("resize_", (2, 2)), ("as_strided_", ((2, 2), (1, 2), 1)), ("as_strided", ((2, 2), (1, 1), 1)),
    ("diagonal", (0, 1, 2)), ("rot90", (1, (1, 2))), ("rot90", (-1, (1, 2))), ("select", (2, 1)),
    ("narrow", (2, 1, 2)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "given"), CHANGES)
def test_sizes_strides_and_offsets_are_those_of_pytorch(name, given):
    seen = []
    for x in both(torch, torch.arange(-4.0, 4.0).reshape(1, 2, 4), 0.5, 100):
        other = x.detach()
        result = getattr(x, name)(*given)
        seen.append((result, result is x, tuple(other.shape), other.stride()))
    (one, *ours), (two, *theirs) = seen
    assert difference(one, two) == 0 and ours == theirs
    assert (one.stride(), one.storage_offset()) == (two.stride(), two.storage_offset())


def test_a_matrix_is_transposed_in_place_and_keeps_its_memory():
    for x in both(torch, torch.arange(6.0).reshape(2, 3), 0.5, 10):
        row = x[0]
        assert x.t_() is x and x.shape == (3, 2) and x.stride() == (1, 3)
        row.fill_(1.0)
        assert x.dequantize()[:, 0].tolist() == [1.0, 1.0, 1.0]


def test_a_larger_size_keeps_what_was_there():
    for x in both(torch, torch.arange(4.0), 0.5, 10):
        x.resize_(2, 4)
        assert x.dequantize()[0].tolist() == [0.0, 1.0, 2.0, 3.0]
        assert (x.q_scale(), x.q_zero_point()) == (0.5, 10)


def test_channels_are_not_given_sizes_or_strides_in_place():
    x = rl.quantize_per_channel(rl.ones(2, 3), rl.ones(2), rl.zeros(2), 0, rl.qint8)
    with pytest.raises(RuntimeError, match="Can only resize quantized tensors"):
        x.resize_(3)
    with pytest.raises(RuntimeError, match="only on uniformly quantized tensor"):
        x.t_()


def test_an_order_of_numbers_is_that_of_their_integers():
    one, two = both(torch, torch.tensor([3.0, -1.0, 2.0]), 0.5, 10)
    assert one.argsort().tolist() == two.argsort().tolist() == [1, 2, 0]


def test_what_is_contiguous_is_handed_back():
    for x in both(torch, torch.ones(1, 2, 2, 2), 0.5, 10):
        assert x.contiguous() is x
        last = x.contiguous(
            memory_format=(rl, torch)[x.dtype is torch.quint8].channels_last
        )
        assert last is not x
