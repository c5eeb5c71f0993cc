"""Types and modes hear of autograd what PyTorch's hear: calls, not what runs inside."""

import pytest

import rushlight

torch = pytest.importorskip("torch")


def heard(lib):
    """What a type and a mode are asked about, case by case, and the results' types."""
    log, found = [], []

    class Typed(lib.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            log.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    class Mode(lib.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            log.append("mode: " + func.__name__)
            return func(*args, **(kwargs or {}))

    class Product(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx, grad):
            x, y = ctx.saved_tensors
            return grad * y, grad * x

    class Same(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad

    plain = lib.ones(3, requires_grad=True)
    typed = lib.ones(3).as_subclass(Typed).requires_grad_()
    fixed = lib.ones(3).as_subclass(Typed)
    of_plain, of_typed = (lambda x: (x * x.exp()).sum()), lambda x: (x * x.exp()).sum()
    cases = [
        lambda: Product.apply(typed, plain),
        lambda: Same.apply(typed),
        lambda: Same.apply(fixed),
    ]
    for value, make in ((plain, of_plain), (typed, of_typed)):
        for root in (make(value), Product.apply(value, plain).sum()):
            cases += [
                lambda root=root: lib.autograd.backward(root, retain_graph=True),
                lambda root=root, value=value: lib.autograd.grad(
                    root, [value], retain_graph=True
                )[0],
                lambda root=root: root.backward(retain_graph=True),
            ]
    for case in cases:
        for with_mode in (False, True):
            log.clear()
            if with_mode:
                with Mode():
                    result = case()
            else:
                result = case()
            found.append((list(log), type(result).__name__))
    return found


def test_types_and_modes_are_asked_about_what_pytorch_asks_them():
    assert heard(rushlight) == heard(torch)


def test_gradients_by_a_dictionary_of_inputs_are_a_dictionary():
    for lib in (rushlight, torch):
        x, y = (lib.ones(2, requires_grad=True) for _ in range(2))
        found = lib.autograd.grad((x * y * 2).sum(), {"a": x, "b": y})
        assert {k: v.tolist() for k, v in found.items()} == {"a": [2, 2], "b": [2, 2]}
        (x * y).sum().backward(inputs={"a": x})
        assert x.grad.tolist() == [1, 1] and y.grad is None
