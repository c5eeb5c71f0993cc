"""Models compared layer by layer: PyTorch's numeric suite beside it."""

import copy
import importlib

import numpy as np
import pytest

import rushlight as rl
from tests.quantized.test_workflows import block, on_both, static

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.usefixtures("fbgemm"),
    pytest.mark.filterwarnings(
        "ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"
    ),
]


def suite(t):
    return importlib.import_module(f"{t.__name__}.ao.ns._numeric_suite")


def measures(t):
    return importlib.import_module(f"{t.__name__}.ao.ns.fx.utils")


def agree(one, two):
    """The same names, and values that are one quantization step apart at most."""
    if isinstance(two, dict):
        assert list(one) == list(two)
        for key, value in two.items():
            agree(one[key], value)
    elif isinstance(two, tuple | list):
        assert len(one) == len(two)
        for pair in zip(one, two, strict=True):
            agree(*pair)
    else:
        step = 1e-5
        assert one.is_quantized == two.is_quantized
        if two.is_quantized:
            assert one.qscheme().name == str(two.qscheme()).partition(".")[2]
            if "channel" not in str(two.qscheme()):
                step += two.q_scale()
            one, two = one.dequantize(), two.dequantize()
        np.testing.assert_allclose(
            one.detach().numpy(), two.detach().numpy(), atol=step, rtol=1e-4
        )


def pair(t):
    """A model of numbers and the model of integers that was made of it."""
    q, parts = t.ao.quantization, [["conv1", "bn1", "relu1"], ["conv2", "bn2"]]
    numbers = q.fuse_modules(block(t).eval(), parts)
    numbers.qconfig = q.get_default_qconfig("fbgemm")
    seen = q.prepare(numbers)
    for _ in range(2):
        seen(t.randn(4, 3, 8, 8))
    return numbers, q.convert(seen), t.randn(2, 3, 8, 8)


def test_weights_are_compared_by_the_names_of_quantized_models():
    def program(t):
        numbers, integers, _ = pair(t)
        return suite(t).compare_weights(numbers.state_dict(), integers.state_dict())

    one, two = on_both(program)
    assert len(two) == 3
    agree(one, two)


def test_results_of_both_models_are_paired_by_their_layers():
    def program(t):
        numbers, integers, x = pair(t)
        return suite(t).compare_model_outputs(numbers, integers, x)

    one, two = on_both(program)
    assert "skip.stats" in two and "head.stats" in two
    agree(one, two)


def test_layers_of_numbers_run_beside_layers_of_integers():
    def program(t):
        ns, nn = suite(t), t.nn
        numbers, integers, x = pair(t)
        kinds = [
            nn.Linear,
            type(numbers.conv1),
            nn.Conv2d,
            nn.quantized.FloatFunctional,
        ]
        found = ns.compare_model_stub(numbers, integers, kinds, x)
        return found, repr(integers)

    (one, text), (two, theirs) = on_both(program)
    assert sorted(two) == ["conv1.stats", "conv2.stats", "head.stats", "skip.stats"]
    agree(one, two)
    assert text.count("Shadow(") == theirs.count("Shadow(") == 4


def test_recorders_of_ones_own_take_the_place_of_the_suites():
    def program(t):
        ns, m = suite(t), measures(t)

        class Ratio(ns.Logger):
            def forward(self, x, y):
                self.stats.setdefault("ratio", []).append(m.compute_sqnr(y, x))

        numbers, integers, x = pair(t)
        given = [t.nn.Linear], x
        return ns.compare_model_stub(numbers, integers, *given, logger_cls=Ratio)

    one, two = on_both(program)
    ratio = two["head.stats"]["ratio"][0]
    assert list(one) == list(two) and 10 < ratio < 80
    assert abs(float(one["head.stats"]["ratio"][0]) - float(ratio)) < 3


def test_dynamic_models_are_compared_too():
    def program(t):
        nn = t.nn

        class Words(nn.Module):
            def __init__(self):
                super().__init__()
                self.lstm, self.fc = nn.LSTM(6, 8, 2), nn.Linear(8, 3)

            def forward(self, x):
                return self.fc(self.lstm(x)[0])

        numbers = Words().eval()
        kinds, x = {nn.LSTM, nn.Linear}, t.randn(4, 2, 6)
        made = t.ao.quantization.quantize_dynamic(numbers, kinds)
        ns = suite(t)
        weights = ns.compare_weights(numbers.state_dict(), made.state_dict())
        stubs = ns.compare_model_stub(numbers, copy.deepcopy(made), [nn.Linear], x)
        stubs |= ns.compare_model_stub(numbers, copy.deepcopy(made), [nn.LSTM], x)
        return weights, stubs, ns.compare_model_outputs(numbers, made, x)

    one, two = on_both(program)
    assert [len(each) for each in two] == [3, 2, 2]
    agree(one[0], two[0])
    for ours, theirs in zip(one[1:], two[1:], strict=True):
        assert list(ours) == list(theirs)
        for key, value in theirs.items():
            for kind, values in value.items():
                agree_roughly(ours[key][kind], values)


def agree_roughly(one, two):
    """Scales that follow each value round it otherwise where it lies between two."""
    if isinstance(two, tuple | list):
        for each in zip(one, two, strict=True):
            agree_roughly(*each)
    else:
        np.testing.assert_allclose(
            one.detach().numpy(), two.detach().numpy(), atol=2e-2, rtol=0
        )


def test_measures_of_error_are_pytorchs():
    x, y = np.random.default_rng(0).standard_normal((2, 3, 4)).astype("f")
    for name in ("sqnr", "normalized_l2_error", "cosine_similarity"):
        found = []
        for t in (rl, torch):
            f = getattr(measures(t), f"compute_{name}")
            a, b = t.tensor(x), t.tensor(y)
            packed = t.quantize_per_tensor(b, 0.05, 0, t.qint8)
            whole = t.tensor([1, 2])
            found.append([f(a, b), f(a, packed), *f((a, a), (b, packed))])
            assert f(whole, whole) is None
        agree(*found)


def test_the_static_model_of_the_workflows_has_no_recorder_left_over():
    assert suite(rl).get_logger_dict(static(rl)) == {}
