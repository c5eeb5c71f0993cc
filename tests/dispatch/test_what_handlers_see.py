"""Handlers of ``__torch_function__`` are shown calls as PyTorch shows them."""

import copy

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")


class Duck:
    """No tensor; takes every call that it is an argument of."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func.__name__, len(args), sorted(kwargs or {})


def shown(function, *args, **kwargs):
    """What a handler saw of a call, or how the call was refused."""
    try:
        return function(*args, **kwargs)
    except Exception as error:
        return type(error).__name__


# Parts of PyTorch that differ from all others: some that forget to hand an argument on,
# names of its own, products by scales that are no functions with a handler.
_ALONE = {"l1_loss", "threshold", "logsigmoid"}
_ALONE |= {"grouped_mm", "scaled_mm", "scaled_grouped_mm"}


def test_what_was_left_out_is_shown_by_name_as_pytorch_shows_it():
    names = [name for name in rl.nn.functional.__all__ if name not in _ALONE]
    names = [("nn.functional", n) for n in names if hasattr(torch.nn.functional, n)]
    found = [name for name in rl.functional.__all__ if name not in {*_ALONE, "nonzero"}]
    names += [("functional", name) for name in found]
    names += [("", name) for name in ("pca_lowrank", "svd_lowrank")]
    taken = 0
    for place, name in names:
        ours, theirs = (_found(lib, place, name) for lib in (rl, torch))
        for count in range(1, 5):
            want = shown(theirs, *[Duck() for _ in range(count)])
            if isinstance(want, tuple) and isinstance(want[0], str):
                taken += 1
                assert shown(ours, *[Duck() for _ in range(count)]) == want, name
    assert taken > 250


def _found(lib, place, name):
    for part in place.split(".") if place else ():
        lib = getattr(lib, part)
    return getattr(lib, name)


def test_arguments_given_by_name_or_position_are_shown_alike():
    def calls(lib):
        F, duck = lib.nn.functional, Duck()
        yield shown(F.dropout, duck, 0.3, False)
        yield shown(F.dropout, input=duck, p=0.3)
        yield shown(F.softmax, duck, 1)
        yield shown(F.interpolate, duck, 6)
        yield shown(F.max_pool2d, duck, 2, return_indices=True)
        yield shown(F.max_pool2d, duck, kernel_size=2, stride=1)
        yield shown(F.adaptive_max_pool1d, duck, 2, True)
        yield shown(F.cross_entropy, lib.ones(2), duck, None, None, 3)
        yield shown(F.relu, duck, nonsense=1)
        yield shown(F.relu)
        yield shown(lib.meshgrid, duck, duck, indexing="ij")
        yield shown(lib.norm, duck, 2, dim=1)
        for init in (lib.nn.init.uniform_, lib.nn.init.normal_):
            yield shown(init, duck, 1.0)
        yield shown(lib.nn.init.constant_, duck, 3)
        yield shown(lib.autograd.backward, duck)
        yield shown(lib.autograd.grad, duck, lib.ones(1))
        for make in (lib.tensor, lib.as_tensor):
            yield shown(make, duck) == "RuntimeError"
        yield shown(lambda: lib.ones(3)[duck])
        yield shown(lambda: lib.ones(3, 3)[0, duck])

    for ours, theirs in zip(calls(rl), calls(torch), strict=True):
        assert ours == theirs


def test_methods_in_python_are_shown_as_pytorch_shows_them():
    def calls(lib):
        seen = []

        class Own(lib.Tensor):
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                seen.append((func.__name__, len(args), sorted(kwargs or {})))
                return super().__torch_function__(func, types, args, kwargs or {})

        def made():
            return lib.arange(6.0).reshape(2, 3).as_subclass(Own)

        for step in (
            lambda: made().split(1),
            lambda: made().norm(),
            lambda: made().unique(),
            lambda: made().__array__(),
            lambda: made().is_shared(),
            lambda: made().share_memory_(),
            lambda: made().module_load(made()),
            lambda: made().__reversed__(),
            lambda: made().requires_grad_().sum().backward(),
            lambda: made() == made(),
            lambda: ~(made() > 1),
            lambda: made() // 2,
            lambda: 7 // (made() + 1),
            lambda: 2 ** made(),
            lambda: lib.as_tensor(made()),
        ):
            seen.clear()
            step()
            yield list(seen)

    for ours, theirs in zip(calls(rl), calls(torch), strict=True):
        assert ours == theirs


def test_a_class_of_tensors_copies_itself_only_if_it_makes_its_own_kind():
    def outcomes(lib):
        class Plain(lib.Tensor):
            pass

        class Making(lib.Tensor):
            def new_empty(self, *args, **kwargs):
                return lib.Tensor.new_empty(self, *args, **kwargs).as_subclass(Making)

        x = lib.arange(4.0)
        yield shown(copy.deepcopy, x.as_subclass(Plain))
        copied = shown(copy.deepcopy, x.as_subclass(Making))
        yield copied if isinstance(copied, str) else type(copied).__name__
        yield type(copy.deepcopy(lib.nn.Parameter(x))).__name__

    assert list(outcomes(rl)) == list(outcomes(torch))
