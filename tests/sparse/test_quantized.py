"""Quantized tensors beside PyTorch's: integers, numbers, parameters, refusals, text."""

import copy
import importlib
import io
import pickle

import pytest

import rushlight as rl
from rushlight.serialization._names import Placed, _rebuild_quantized

torch = pytest.importorskip("torch", reason="the oracle is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def described(value):
    """Type, parameters and integers as plain Python."""
    if isinstance(value, (tuple, list)):
        return [described(item) for item in value]
    if str(type(value)).endswith("QScheme'>") or "per_" in str(value)[:20]:
        return str(value).rpartition(".")[2]
    if not hasattr(value, "is_quantized"):
        return value
    dtype = str(value.dtype).rpartition(".")[2]
    if not value.is_quantized:
        return dtype, list(value.shape), value.tolist()
    scheme = str(value.qscheme()).rpartition(".")[2]
    if scheme == "per_tensor_affine":
        facts = value.q_scale(), value.q_zero_point()
    else:
        facts = value.q_per_channel_scales().tolist(), value.q_per_channel_axis()
    return dtype, scheme, facts, list(value.shape), value.int_repr().tolist()


def outcome(call, module):
    try:
        return described(call(module))
    except Exception as error:
        return type(error).__name__


CALLS = (
    """
q
c
f
q.int_repr()
q.dequantize()
c.dequantize()
f.dequantize()
x.dequantize()
[q.q_scale(), q.q_zero_point(), q.is_quantized, q.element_size(), q.numel()]
c.q_scale()
q.q_per_channel_axis()
[c.q_per_channel_scales(), c.q_per_channel_zero_points(), c.q_per_channel_axis()]
m.quantize_per_tensor(x, .1, 10, m.qint8)
m.quantize_per_tensor(x, .1, 10, m.qint32)
m.quantize_per_tensor(x, .1, 10, m.float32)
m.quantize_per_tensor(x.double(), .1, 10, m.quint8)
m.quantize_per_tensor(x, .1, 300, m.quint8)
m.quantize_per_tensor(x, m.tensor(.1), m.tensor(10), m.quint8)
m.quantize_per_tensor([x, x], m.tensor([.1, .2]), m.tensor([1, 2]), m.quint8)
m.quantize_per_channel(x, m.tensor([.1, .2, .3]), m.tensor([0, 1]), 0, m.qint8)
m.quantize_per_channel(x, m.tensor([.1, .2]), m.tensor([0, 1]), 1, m.qint8)
m.quantize_per_tensor_dynamic(x, m.quint8, False)
m.quantize_per_tensor_dynamic(x, m.qint8, True)
m.quantize_per_tensor_dynamic(x, m.qint32, True)
q.clone()
q.detach()
q[0]
q[0, 1].item()
q[:, 1:]
q.t()
q.reshape(6)
q.view(3, 2)
q.permute(1, 0)
q.unsqueeze(0)
q.contiguous()
q.flatten()
q == q
q.relu()
q.max()
q.mean()
q.item()
m.equal(q, q)
q.copy_(x / 2)
q.fill_(1.)
m.cat([q, q])
m.clamp(q, 0, 1)
q.sigmoid()
m.empty_like(q).qscheme()
m.empty_quantized([2, 2], q).qscheme()
m._make_per_tensor_quantized_tensor(m.tensor([1, 2], dtype=m.uint8), .5, 1)
m._make_per_channel_quantized_tensor(
    m.tensor([[1, 2]], dtype=m.int8), m.tensor([.5]), m.tensor([1]), 0
)
m.dequantize([q, q])
x.int_repr()
x.q_scale()
q.exp()
q + q
q @ q.t()
q.sum()
q.requires_grad_()
q.to(m.float32)
q.numpy()
m.quantize_per_tensor(x.requires_grad_(), .1, 1, m.quint8).requires_grad
m.quantized_max_pool2d(p, [2, 2])
m.quantized_max_pool1d(p[0], [2])
m.quantized_batch_norm(p, m.ones(1), m.zeros(1), m.zeros(1), m.ones(1), 1e-5, .5, 1)
m.nn.functional.max_pool2d(p, 2)
m.nn.functional.avg_pool2d(p, 2)
q.sort().values
q.topk(1).indices
q.type()
m.quantize_per_tensor(m.arange(24.0).view(4, 6) / 10 - 1, .1, 3, m.quint8).mean(1)
m.nn.functional.gelu(q)
m.nn.functional.gelu(q, approximate="tanh")
m.nn.functional.gelu(m.quantize_per_tensor(x, .1, 10, m.qint8))
m.nn.functional.gelu(c)
""".strip()
    .replace("(\n    ", "(")
    .replace(", 0\n)", ", 0)")
    .splitlines()
)


@pytest.mark.parametrize("text", CALLS)
def test_calls_on_quantized_tensors_end_as_pytorchs_do(text):
    def call(m):
        x = m.tensor([[-1.0, 0.05, 0.15], [1.0, 2.0, 30.0]])
        scales, points = m.tensor([0.1, 0.2]), m.tensor([0, 1])
        names = {
            "m": m,
            "x": x,
            "q": m.quantize_per_tensor(x, 0.1, 10, m.quint8),
            "c": m.quantize_per_channel(x, scales, points, 0, m.qint8),
            "f": m.quantize_per_channel(x, scales, points.float(), 0, m.quint8),
            "p": m.quantize_per_tensor(
                m.arange(16.0).reshape(1, 1, 4, 4), 0.5, 1, m.quint8
            ),
        }
        return eval(text, names)

    ours, theirs = outcome(call, rl), outcome(call, torch)
    if text == "q + q":
        assert ours == theirs == "NotImplementedError"
    else:
        assert ours == theirs


REFUSED = {
    "an array": lambda m, q: q.numpy(),
    "a list": lambda m, q: q.tolist(),
    "closeness": lambda m, q: m.isclose(q, q),
    "all that is close": lambda m, q: m.allclose(q, q),
    "closeness to numbers": lambda m, q: m.isclose(m.ones(2), q),
    "an array of coordinates": lambda m, q: m.eye(2).to_sparse().numpy(),
    "an array of rows": lambda m, q: m.eye(2).to_sparse_csr().numpy(),
    "a number more for rows": lambda m, q: m.eye(2).to_sparse_csr() + 1,
    "a type of weights": lambda m, q: m.ao.quantization.quantize_dynamic(
        m.nn.Linear(2, 2), {m.nn.Linear}, dtype=m.int8
    ),
    "what is no mapping": lambda m, q: importlib.import_module(
        f"{m.__name__}.ao.quantization.quantize_fx"
    ).prepare_fx(m.nn.Linear(2, 2).eval(), 3, (m.ones(1, 2),)),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_refused_in_pytorchs_words(name):
    words = []
    for m in (rl, torch):
        q = m.quantize_per_tensor(m.ones(2), 0.1, 3, m.quint8)
        with pytest.raises((RuntimeError, TypeError, AssertionError)) as caught:
            REFUSED[name](m, q)
        words.append((caught.type, str(caught.value).replace("rushlight.", "torch.")))
    assert words[0] == words[1]


@pytest.mark.parametrize("channels", [False, True])
def test_text_is_pytorchs(channels):
    def quantized(m):
        x = m.tensor([[-1.0, 0.05], [1.0, 2.0]])
        if channels:
            scales = m.tensor([0.5, 0.25])
            return m.quantize_per_channel(x, scales, m.tensor([0, 1]), 0, m.qint8)
        return m.quantize_per_tensor(x, 0.5, 3, m.quint8)

    ours = repr(quantized(rl)).replace("rushlight.", "torch.")
    assert ours.split() == repr(quantized(torch)).split()


def test_copies_and_pickles_keep_parameters():
    q = rl.quantize_per_tensor(rl.arange(4.0), 0.5, 3, rl.quint8)
    for again in (copy.deepcopy(q), pickle.loads(pickle.dumps(q))):
        assert described(again) == described(q)


def stored(m, dtype, channels):
    x = m.tensor([[-1.0, 0.05], [3.0, 1.0], [2.0, -7.0]])
    if channels:
        scales, zeros = m.tensor([0.5, 0.25]).double(), m.tensor([0, 1])
        return m.quantize_per_channel(x, scales, zeros, 1, getattr(m, dtype))
    return m.quantize_per_tensor(x, 0.5, 3, getattr(m, dtype))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("channels", [False, True])
@pytest.mark.parametrize("dtype", ["quint8", "qint8", "qint32"])
@pytest.mark.parametrize("zipped", [True, False])
def test_files_go_to_pytorch_and_come_from_it(dtype, channels, zipped):
    for here, there in ((rl, torch), (torch, rl), (rl, rl)):
        file = io.BytesIO()
        value = {"q": stored(here, dtype, channels), "x": here.ones(2)}
        here.save(value, file, _use_new_zipfile_serialization=zipped)
        file.seek(0)
        read = there.load(file, weights_only=True)
        expected = stored(there, dtype, channels)
        assert described(read["q"]) == described(expected)
        assert read["q"].stride() == expected.stride()
        assert read["x"].tolist() == [1.0, 1.0]


WRONG = {
    "no scheme": (None, 0.5, 3),
    "a scale of text": (rl.per_tensor_affine, "x", 3),
    "channels without an axis": (rl.per_channel_affine, rl.ones(2), rl.ones(2)),
    "too few channels": (rl.per_channel_affine, rl.ones(1), rl.ones(1).long(), 1),
    "an axis that is not there": (rl.per_channel_affine, rl.ones(2), rl.ones(2), 7),
    "scales that are no tensor": (rl.per_channel_affine, [1.0, 2.0], rl.ones(2), 1),
}


@pytest.mark.parametrize("name", WRONG)
def test_parameters_in_files_are_checked(name):
    integers = rl.ones(3, 2, dtype=rl.int8)
    place = Placed(integers.untyped_storage(), rl.int8)
    with pytest.raises(pickle.UnpicklingError):
        _rebuild_quantized(place, 0, (3, 2), (2, 1), WRONG[name])
