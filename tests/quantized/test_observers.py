"""Observers find PyTorch's scales and zero points, and keep PyTorch's state."""

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings(
    "ignore::UserWarning", "ignore::DeprecationWarning"
)

SETTINGS = [
    ("MinMaxObserver", {}),
    ("MinMaxObserver", {"dtype": "qint8", "qscheme": "per_tensor_symmetric"}),
    ("MinMaxObserver", {"dtype": "quint8", "qscheme": "per_tensor_symmetric"}),
    ("MinMaxObserver", {"reduce_range": True}),
    ("MinMaxObserver", {"quant_min": 0, "quant_max": 15}),
    ("MinMaxObserver", {"dtype": "qint32"}),
    ("MovingAverageMinMaxObserver", {"averaging_constant": 0.3}),
    ("PerChannelMinMaxObserver", {}),
    ("PerChannelMinMaxObserver", {"ch_axis": 1}),
    (
        "PerChannelMinMaxObserver",
        {"dtype": "qint8", "qscheme": "per_channel_symmetric"},
    ),
    ("PerChannelMinMaxObserver", {"qscheme": "per_channel_affine_float_qparams"}),
    ("MovingAveragePerChannelMinMaxObserver", {"averaging_constant": 0.3}),
    ("HistogramObserver", {}),
    ("HistogramObserver", {"reduce_range": True, "bins": 512}),
    ("HistogramObserver", {"dtype": "qint8", "qscheme": "per_tensor_symmetric"}),
]


def made(t, name, settings):
    given = {k: getattr(t, v) if isinstance(v, str) else v for k, v in settings.items()}
    return getattr(t.ao.quantization, name)(**given)


def values():
    torch.manual_seed(0)
    yield torch.randn(6, 7, 5)
    yield torch.randn(6, 7, 5) * 3 - 1
    yield torch.zeros(0, 7, 5)
    yield torch.randn(6, 7, 5).exp()


def test_observers_find_the_same_scales_and_keep_the_same_state():
    for name, settings in SETTINGS:
        one, two = made(rl, name, settings), made(torch, name, settings)
        for x in values():
            one(rl.tensor(x.numpy())), two(x)
        (a, b), (c, d) = one.calculate_qparams(), two.calculate_qparams()
        np.testing.assert_allclose(a.numpy(), c.numpy(), rtol=1e-6, err_msg=name)
        np.testing.assert_allclose(b.numpy(), d.numpy(), rtol=1e-5, err_msg=name)
        assert str(b.dtype)[9:] == str(d.dtype)[5:], name
        mine, theirs = one.state_dict(), two.state_dict()
        assert list(mine) == list(theirs), name
        for key in mine:
            np.testing.assert_allclose(
                mine[key].numpy(), theirs[key].numpy(), rtol=1e-6
            )
        fresh = made(rl, name, settings)
        fresh.load_state_dict(mine)
        assert fresh.calculate_qparams()[0].equal(a), name


def test_histograms_of_one_value_and_of_infinities():
    for make in (
        lambda t: t.full((5,), 2.0),
        lambda t: t.tensor([1.0, float("inf"), 2.0]),
        lambda t: t.tensor([float("inf")]),
    ):
        found = []
        for t in (rl, torch):
            observer = t.ao.quantization.HistogramObserver()
            observer(make(t)), observer(t.arange(4.0))
            found.append([each.tolist() for each in observer.calculate_qparams()])
        assert np.allclose(found[0], found[1], rtol=1e-6)


def test_fake_quantization_rounds_and_learns_alike():
    torch.manual_seed(0)
    for name in (
        "default_fake_quant",
        "default_weight_fake_quant",
        "default_per_channel_weight_fake_quant",
        "default_fused_act_fake_quant",
        "default_fused_per_channel_wt_fake_quant",
        "default_fixed_qparams_range_0to1_fake_quant",
        "default_histogram_fake_quant",
        "default_embedding_fake_quant",
    ):
        one = getattr(rl.ao.quantization, name)()
        two = getattr(torch.ao.quantization, name)()
        for _ in range(3):
            x = torch.randn(4, 6)
            a = rl.tensor(x.numpy(), requires_grad=True)
            b = x.clone().requires_grad_()
            r, s = one(a), two(b)
            np.testing.assert_allclose(r.detach(), s.detach(), atol=1e-6, err_msg=name)
            r.sum().backward(), s.sum().backward()
            assert a.grad.numpy().tolist() == b.grad.numpy().tolist(), name
        assert list(one.state_dict()) == list(two.state_dict())
        one.apply(rl.ao.quantization.disable_observer)
        one.apply(rl.ao.quantization.disable_fake_quant)
        assert one(a) is a or one(a).equal(a)


def test_configurations_are_those_of_the_backends():
    for backend in ("fbgemm", "x86", "qnnpack", "onednn"):
        for kind in ("get_default_qconfig", "get_default_qat_qconfig"):
            one = getattr(rl.ao.quantization, kind)(backend)
            two = getattr(torch.ao.quantization, kind)(backend)
            for a, b in zip(one, two):
                found, expected = a(), b()
                assert type(found).__name__ == type(expected).__name__
                for name in ("quant_min", "quant_max", "ch_axis", "reduce_range"):
                    assert getattr(found, name, None) == getattr(expected, name, None)
                assert str(found.qscheme)[9:] == str(expected.qscheme)[5:]
        with pytest.raises(AssertionError):
            rl.ao.quantization.get_default_qconfig("none")
    q = rl.ao.quantization
    assert q.qconfig_equals(q.get_default_qconfig(), q.get_default_qconfig())
    assert not q.qconfig_equals(q.default_qconfig, q.default_dynamic_qconfig)
    with pytest.raises(ValueError):
        q.QConfig(q.MinMaxObserver(), q.MinMaxObserver)
    with pytest.raises(NotImplementedError):
        q.MinMaxObserver(qscheme=rl.per_channel_affine)
    with pytest.raises(AssertionError):
        q.MinMaxObserver(quant_min=3, quant_max=9)


def test_old_states_of_histograms_have_empty_extremes():
    for version, kept in ((None, True), (2, True), (3, False)):
        found = []
        for t in (rl, torch):
            observer = t.ao.quantization.HistogramObserver()
            state = observer.state_dict()
            state["min_val"], state["max_val"] = t.tensor([]), t.tensor([])
            state._metadata[""]["version"] = version
            try:
                observer.load_state_dict(state)
                found.append((observer.min_val.item(), observer.max_val.item()))
            except RuntimeError:
                found.append(None)
        assert found[0] == found[1] == ((np.inf, -np.inf) if kept else None)


def test_switches_and_scales_of_fake_quantization_begin_alike():
    for name in ("FakeQuantize", "FusedMovingAvgObsFakeQuantize"):
        one, two = (
            getattr(t.ao.quantization, name)().state_dict() for t in (rl, torch)
        )
        assert list(one) == list(two)
        for key, value in two.items():
            assert str(one[key].dtype).partition(".")[2] == str(value.dtype)[6:], key
            assert one[key].tolist() == value.tolist(), key


def test_no_configuration_equals_only_none():
    for t in (rl, torch):
        q = t.ao.quantization
        pairs = [(None, None), (None, q.default_qconfig), (q.default_qconfig, None)]
        equals = q.qconfig.qconfig_equals
        assert [equals(*pair) for pair in pairs] == [True, False, False]


def test_layers_whose_range_is_known_get_observers_of_their_own():
    found = []
    for t in (rl, torch):
        q, nn = t.ao.quantization, t.nn
        model = nn.Sequential(nn.Linear(2, 2), nn.Sigmoid(), nn.Tanh(), nn.Softmax(1))
        model.qconfig = q.get_default_qat_qconfig("fbgemm")
        seen = q.prepare_qat(model)
        found.append(
            [type(m.activation_post_process).__name__ for m in seen.children()]
        )
    assert found[0] == found[1]
    assert found[0][1] == "FixedQParamsFakeQuantize" != found[0][0]


def test_observers_lie_where_the_weights_do():
    q, nn = rl.ao.quantization, rl.nn
    model = nn.Sequential(nn.Linear(2, 2, device="meta"))
    model.qconfig = q.get_default_qconfig("fbgemm")
    seen = q.prepare(model.eval())
    assert seen[0].activation_post_process.min_val.device.type == "meta"


def test_extremes_of_which_one_is_missing_are_not_seen():
    for t in (rl, torch):
        valid = t.ao.quantization.utils.check_min_max_valid
        one, none = t.tensor([1.0]), t.tensor([])
        assert valid(one, one)
        assert not any(
            valid(*each) for each in ((one, none), (none, one), (none, none))
        )
        inf = t.tensor(float("inf"))
        assert not valid(inf, -inf)
        assert valid(t.tensor(1.0), inf) and valid(-inf, t.tensor(1.0))
        with pytest.raises(AssertionError):
            valid(t.tensor([2.0]), one)
