"""Functions that classes hold are called with their arguments, not with the instance."""

import copy
import pickle

import pytest

import rushlight as rl
from rushlight import nn


class Holder:
    relu, gelu, total = rl.relu, nn.functional.gelu, rl.sum
    join, zeros, fourier, norm = rl.cat, rl.zeros, rl.fft.fft, rl.linalg.norm
    method = rl.Tensor.add


class Module(nn.Module):
    activation = rl.tanh

    def forward(self, x):
        return self.activation(x)


def test_functions_in_classes_are_not_bound():
    x, holder = rl.tensor([-1.0, 2.0]), Holder()
    assert holder.relu(x).tolist() == [0.0, 2.0]
    assert holder.total(x).item() == 1.0
    assert holder.join([x, x]).shape == (4,)
    assert holder.zeros(3).shape == (3,)
    assert holder.fourier(x).shape == (2,)
    assert holder.norm(x).item() == pytest.approx(5**0.5)
    assert holder.gelu(x).shape == (2,)
    assert Holder.relu is rl.relu


def test_modules_hold_their_activations():
    module, x = Module(), rl.ones(2)
    assert module(x).equal(x.tanh())
    assert rl.compile(module)(x).equal(x.tanh())
    assert "torch.tanh" in rl.fx.symbolic_trace(module).code


def test_methods_are_bound():
    x = rl.ones(2)
    assert x.add(1).tolist() == list(map(x.add, [1]))[0].tolist() == [2.0, 2.0]
    assert rl.Tensor.add(x, 1).tolist() == [2.0, 2.0]
    assert pickle.loads(pickle.dumps(rl.Tensor.add)).__objclass__ is rl.Tensor
    assert copy.deepcopy(rl.add) is rl.add and rl.add.__doc__ and rl.Tensor.add.__doc__
    with pytest.raises(TypeError):
        Holder().method(x)
