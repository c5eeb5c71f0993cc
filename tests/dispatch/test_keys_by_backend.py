"""Functionality and backend: what one backend registers leaves the others as they are."""

import pytest

import rushlight as rl
from rushlight.dispatch.guard import Guard
from rushlight.dispatch.keys import DispatchKey, KeySet, keys_named
from rushlight.dispatch.library import _scoped_library, fallthrough_kernel

OUTSIDE = "privateuseone"


def test_autograd_of_one_backend_serves_its_tensors_alone():
    seen = []

    def recorded(keys, x):
        seen.append(keys)
        return rl.ops.aten.exp.default.redispatch(
            keys.below(DispatchKey.ADInplaceOrView), x
        )

    with _scoped_library("aten", "IMPL") as library:
        library.impl("exp", recorded, "AutogradPrivateUse1", with_keyset=True)
        library.impl("exp", lambda x: x.cpu().exp().to(OUTSIDE), "PrivateUse1")
        x = rl.ones(2, requires_grad=True)
        x.exp().sum().backward()
        assert not seen and rl.allclose(x.grad, rl.ones(2).exp())
        y = rl.ones(2).to(OUTSIDE).requires_grad_().exp()
        assert len(seen) == 1 and not y.requires_grad  # it recorded nothing
        assert seen[0].has(DispatchKey.PrivateUse1) and not seen[0].has(DispatchKey.CPU)
    x.exp().sum().backward()
    assert len(seen) == 1


def test_an_operator_without_a_derivative_may_have_one_for_a_backend():
    with _scoped_library("apart_test", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x + x, "CPU")
        library.impl("twice", lambda x: x * 3, "PrivateUse1")
        calls = []
        library.impl("twice", lambda x: calls.append(1) or x * 5, "AutogradCPU")
        assert rl.ops.apart_test.twice(rl.ones(1)).item() == 5.0 and calls == [1]
        with Guard(exclude=KeySet.of(DispatchKey.Autograd)):
            assert rl.ops.apart_test.twice(rl.ones(1)).item() == 2.0


def test_a_backend_s_entry_may_pass_calls_on():
    with _scoped_library("apart_test", "DEF") as library:
        library.define("once(Tensor x) -> Tensor")
        library.impl("once", lambda x: x.clone(), "CPU")
        library.impl("once", lambda x: x * 0, "Autograd")
        assert rl.ops.apart_test.once(rl.ones(1)).item() == 0.0
        library.impl("once", fallthrough_kernel, "AutogradCPU")
        assert rl.ops.apart_test.once(rl.ones(1)).item() == 1.0


@pytest.mark.parametrize("name", ["AutogradCPU", "AutogradCUDA", "AutocastPrivateUse1"])
def test_a_name_says_functionality_and_backend(name):
    ((key, backend),) = keys_named(name)
    assert key.name + backend.name == name


def test_unknown_keys_are_refused_with_those_that_there_are():
    with pytest.raises(ValueError, match=r"'AutogradToy'.*AutogradPrivateUse1"):
        keys_named("AutogradToy")


def test_fallbacks_get_the_keys_of_the_call_where_they_ask():
    seen = []

    def pass_on(keys, op, *args):
        seen.append((op.name, keys.highest()))
        return op.redispatch(keys - KeySet.of(DispatchKey.PythonDispatcher), *args)

    with _scoped_library("_", "IMPL") as library:
        library.fallback(pass_on, "PythonDispatcher", with_keyset=True)
        with Guard(include=KeySet.of(DispatchKey.PythonDispatcher)):
            result = rl.ones(2).sin()
    assert rl.allclose(result, rl.ones(2).sin())
    assert ("sin", DispatchKey.PythonDispatcher) in seen
