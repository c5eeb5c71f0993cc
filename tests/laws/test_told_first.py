"""Of several faults a call tells PyTorch's: types before values, shapes before places.

A value of the right type that cannot be converted, such as an integer of more than 64
bits or the number of a device that is not there, is told of once all the others fit.
"""

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch", reason="the oracle is not installed")

# calls with more than one fault, or with a value of an odd kind
CALLS = """
m.zeros((2,), device=m.tensor([-1]))
m.zeros((2,), device=np.array(0))
m.zeros((2,), device=-1)
m.zeros((2,), device=-1, dtype=3)
m.zeros((2,), device='nowhere', dtype=3)
m.zeros((2,), device='nowhere', other=3)
m.full_like(m.ones(2), 3, device=-5, out=m.ones(2))
m.empty((2**70,), dtype=3.)
m.sum(m.ones(2), 2**70, keepdim='x')
m.select(m.ones(2), 2**70, 0)
m.select(m.ones(2), 2**70, 'a')
m.roll(m.ones(2), (2**70,), 'a')
m.roll(m.ones(2), (2**70,), 0)
m.normal(m.tensor(1j), 0, 5)
m.normal(m.tensor(1j), 0, (5,))
m.native_group_norm(m.ones(1, 2, 3), None, None, 1, np.array(2), 3, 1, 1e-5)[0]
m.isin(1.0, 2.0)
m.zeros(1).bool().addmv_(m.ones(5, 9).bool(), m.ones(9).bool())
m.zeros(1, 1).bool().addmm_(m.ones(5, 9).bool(), m.ones(9, 4).bool())
m.zeros(1, 1, 1).bool().baddbmm_(m.ones(2, 5, 9).bool(), m.ones(2, 9, 4).bool())
m.zeros(5).bool().addmv_(m.ones(5, 9).bool(), m.ones(9).bool())
m.logdet(m.ones(1, 1), out=None)
m.ones(3).where(condition=m.ones(3).bool(), other=m.zeros(3))
m.ones(3).where(m.ones(3).bool(), m.ones(3), out=m.ones(3))
m.ones(2).to(5, False, False)
m.ones(2).to(5.0)
m.ones(2).to(True)
m.ones(2).to(1j)
m.ones(2).to(np.float32(2), False, True)
m.ones(2).to(np.array(2), False, False)
m.ones(2).to(2**70, False, False)
m.ones(2).to(5, m.float64, False)
m.ones(2).to(5, 'a')
m.ones(2).to(m.tensor(3), False, False)
m.ones(2).to(tensor=m.tensor(1))
m.ones(0, 2).amax((0, 0))
m.ones(0, 2).amin((0, 5))
m.ones(0, 2).amax((5, 0))
m.ones(2, 2).amax((1, 1, 5))
m.ones(2, 2).sum((1, 1))
m.bmm(m.ones(8, 128, 1).bool(), m.ones(8, 1, 256))
m.bmm(m.ones(1, 2, 2).bool(), m.ones(1, 2, 2))
m.ones(3).bool().cumprod_(0)
m.ones(3).bool().cumsum_(0)
m.tensor(True).cumsum_(0)
m.ones(0).bool().cumprod_(0)
m.ones(3, dtype=m.int8).cumsum_(0)
m.tensor(1.).index_put((m.tensor(False),), m.ones(5))
m.tensor(1.).index_put_((m.tensor(True),), m.ones(1))
m.ones(3).index_put((m.tensor(False),), m.ones(5))
m.ones(5, 5).index_put((m.tensor([9]),), m.ones(2, 5))
m.ones(5, 5).index_put_((m.tensor([9]),), m.ones(2, 5))
m.ones(0, 5).index_put((m.tensor([9]),), m.ones(2, 5))
m.nn.functional.softshrink(m.ones(2, dtype=m.complex64), 1e40)
m.nn.functional.softshrink(m.ones(2, dtype=m.int64), -1)
m.nn.functional.hardshrink(m.ones(2, dtype=m.complex64), 1e40)
m.nn.functional.leaky_relu(m.ones(2, dtype=m.complex64), 1e40)
m.nn.functional.leaky_relu(m.ones(2), 1e40)
m.logit(m.ones(3), 1e40)
m.logit(m.ones(3), -1e40)
m.logit(m.ones(3), float('inf'))
m.logit(m.ones(3).double(), 1e40)
m.logit(m.ones(3).cfloat(), 1e40)
m.lu_unpack(m.ones(4, 5), m.tensor(1, dtype=m.int32))[0]
m.lu_unpack(m.ones(1, 5), m.tensor(1, dtype=m.int32))[2]
m.addr(m.tensor(1.), m.ones(2).long(), m.ones(2).to(m.uint64), beta=0.6)
m.addr(m.ones(2, 2).to(m.uint16), m.ones(2), m.ones(2).to(m.complex128))
m.addr(m.tensor(1), m.ones(2).long(), m.ones(2).to(m.uint64))
m.addr(*[m.ones(2).to(m.uint16)] * 3)
m.ones(5).__rpow__(m.ones(4), 3)
pow(m.ones(5), 2, 3)
m.istft(m.ones(10, 1, dtype=m.complex64), n_fft=10, window=m.ones(10))
m.segment_reduce(m.ones(5), 'min', offsets=m.tensor([-1, -1, -1]), initial=1)
m.segment_reduce(m.ones(5), 'max', offsets=m.ones(2, requires_grad=True), initial=1)
m.nn.functional.interpolate(m.ones(1, 1, 4), scale_factor=np.array(0.6))
m.nn.functional.conv1d(m.ones(2, 4), m.ones(2, 1, 4), padding='same', groups=2, dilation=2**63 - 1)
m.nn.functional.embedding_bag(m.tensor([[2, 0]]), m.ones(3, 2), padding_idx=m.tensor(-1))
m.nn.functional.embedding_bag(m.tensor([[2, 0]]), m.ones(3, 2), padding_idx=m.tensor([1]))
m.signal.windows.cosine(True)
m.signal.windows.hann(True)
m.signal.windows.exponential(1, sym=False, center=3.)
m.signal.windows.general_hamming(5, alpha=np.array([.54]))
m.signal.windows.general_cosine(5, a=m.tensor(.5))
m.alias_copy(m.ones(5), out=m.ones(1).expand(5))
m.transpose_copy(m.ones(5, 5), 0, 1, out=m.ones(5).expand(5, 5))
m.slice_scatter(m.ones(3, 4).t(), m.ones(1, 3), 0, 0, 1, out=m.ones(0))
m.linalg.cond(m.ones(5, 0).short())
m.linalg.cond(m.ones(2, 5, 0).bool())
m.linalg.cond(m.ones(0, 0).short(), 1)
m.min(m.ones(2, 2).cfloat(), 7)
m.max(m.ones(2, 2).cfloat(), 7)
m.median(m.ones(2, 2).cfloat(), 7)
m.nanmedian(m.ones(2, 2).cfloat(), 7)
m.sort(m.ones(2, 2).cfloat(), 7)
m.argsort(m.ones(2, 2).cfloat(), 7)
m.topk(m.ones(2, 2).cfloat(), 1, 7)
m.unique_consecutive(m.ones(2, 2).cfloat(), dim=7)
m.cov(m.tensor([4, 4], dtype=m.uint32), fweights=m.tensor([7, 4]))
m.nn.functional.gaussian_nll_loss(m.ones(5), m.ones(5), 3)
m.nn.functional.gaussian_nll_loss(m.ones(5), m.ones(5), -3.0)
m.nn.functional.unfold(m.ones(1, 1, 3, 3).long(), 2)
m.nn.functional.fold(m.ones(1, 4, 4).int(), (3, 3), 2)
m.nn.Linear(1, 1).xpu()
m.autograd.functional.vjp(lambda x: (x, x), m.ones(2), m.ones(2))
m.autograd.functional.vjp(lambda x: (x, x), m.ones(2), (m.ones(2), m.ones(3)))
m.autograd.functional.vjp(lambda x: x, m.ones(2), m.ones(3))
m.autograd.functional.hvp(lambda x: x, m.ones(2), m.ones(2))
m.autograd.functional.hvp(lambda x: x.sum(), m.ones(2), 3)
m.autograd.functional.jacobian(lambda x: (x, 3), m.ones(2))
m.autograd.functional.jacobian(lambda x: x, (m.ones(2), 3))
m.autograd.functional.hessian(lambda x: (x.sum(), x.sum()), m.ones(2))
m.arange(5)[[1, 1e40]]
m.arange(5)[[1, float('nan')]]
m.arange(5)[[1, 1j]]
m.arange(5)[[1, 2.7]]
(lambda x: m.float_power(x, m.ones(2, 3), out=x))(m.ones(1, 3).double())
(lambda x: m.hypot(x, m.ones(2, 3).int(), out=x))(m.ones(1, 3).int())
(lambda x: m.lerp(m.ones(2, 3).int(), x, x, out=x))(m.ones(1, 3).int())
m.relu(m.ones(2), out=m.ones(2))
m.linalg.matrix_exp(m.ones(2, 2), out=m.ones(2, 2))
m.conv_tbc(m.ones(3, 1, 2), m.ones(1, 2, 2), m.ones(2), out=m.ones(3, 1, 2))
m.kron(m.ones(5, 4).t(), m.ones(3, 2).t())
m.kron(m.ones(4, 5).t(), m.ones(1, 200).t())
m.kron(m.ones(4, 5), m.ones(3, 2))
m.unsafe_split(m.ones(5, 5, 5, dtype=m.complex64).permute(1, 2, 0).conj(), 2)[0]
m.nn.functional.rms_norm(m.ones(()), (2,), m.ones(()))
m.nn.functional.rms_norm(m.ones(3), (2, 3), m.ones(2))
m.nn.functional.rms_norm(m.ones(3), (2, 3), m.ones(2, 3))
m.unsafe_chunk(m.ones(5, 5, 5).permute(1, 2, 0)._neg_view(), 2)[0]
"""


def answer(module, call):
    """What a call makes: its values, type and strides, or the kind of its refusal."""
    try:
        result = eval(call, {"m": module, "np": np})
    except Exception as error:
        return next(
            each for each in type(error).__mro__ if each.__module__ == "builtins"
        )
    if result is NotImplemented:
        return result
    dtype = str(result.dtype).rpartition(".")[2]
    values = np.round(result.resolve_conj().numpy() * 1.0, 4)
    return dtype, result.stride(), str(values.tolist())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", CALLS.strip().split("\n"))
def test_a_call_with_two_faults_tells_the_oracles(call):
    assert answer(rl, call) == answer(torch, call)


def test_kron_of_turned_operands_has_the_values_of_rows():
    left, right = rl.arange(20.0).reshape(4, 5), rl.arange(6.0).reshape(1, 6)
    for a in (left, left.t(), left[:, ::2]):
        for b in (right, right.t(), right.expand(3, 6)):
            rows = rl.kron(a.contiguous(), b.contiguous())
            assert rl.equal(rl.kron(a, b), rows)


def test_the_slope_of_a_zeroth_power_is_zero_whatever_arrives():
    def second(module):
        base = module.tensor([-0.5, 2.0], requires_grad=True)
        exponent = module.tensor([0.0, 3.0], requires_grad=True)
        grads = module.autograd.grad(
            base**exponent, (base, exponent), module.ones(2), create_graph=True
        )
        again = module.autograd.grad(grads[1].sum(), base)[0]
        return [round(value, 4) for value in again.tolist()]

    assert second(rl) == second(torch)


@pytest.mark.filterwarnings("ignore:An output")
def test_a_graph_saves_operands_that_out_overwrites():
    a = rl.tensor([[[1.5]]])
    b = rl.arange(4.0).reshape(2, 1, 2).requires_grad_()
    result = rl.tensordot(a, b, dims=2, out=a)
    (grad,) = rl.autograd.grad(result.sum(), b)
    assert grad.flatten().tolist() == [1.5] * 4


def test_older_names_take_any_number_of_keywords():
    wrong = {f"k{i}": i for i in range(70)}
    with pytest.raises(TypeError):
        rl.isin(element=1, test_elements=rl.ones(2), **wrong)
    with pytest.raises(TypeError):
        rl.isin(element=1, test_elements=rl.ones(2), **dict(list(wrong.items())[:20]))


def test_a_copy_into_an_element_shown_often_writes_no_other():
    """PyTorch's writes beside it, so that it cannot be asked."""
    held = rl.full((8,), 7.0)
    rl.narrow_copy(rl.ones(5), 0, 0, 5, out=held[:1].expand(5))
    assert held.tolist() == [1.0] + [7.0] * 7
