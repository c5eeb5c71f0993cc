"""Wrapper subclasses and modes in programs do what they do in PyTorch."""

import copy
import importlib
import io
import pickle

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")


def kinds(lib):
    """A quantized weight that handles products, and two tensors in one."""
    dispatch = importlib.import_module(f"{lib.__name__}.utils._python_dispatch")
    tree = importlib.import_module(f"{lib.__name__}.utils._pytree")
    aten, make = lib.ops.aten, lib.Tensor._make_wrapper_subclass

    class Quantized(lib.Tensor):
        @staticmethod
        def __new__(cls, integers, scale):
            return make(cls, integers.shape, dtype=lib.float32)

        def __init__(self, integers, scale):
            self.integers, self.scale = integers, scale

        def plain(self):
            return self.integers.float() * self.scale

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            if func is aten.mm.default:
                return args[0] @ args[1].plain()
            if func is aten.addmm.default:
                return args[0] + args[1] @ args[2].plain()
            name = str(func).split(".")[1]
            if name in ("t", "detach", "clone"):
                return Quantized(getattr(args[0].integers, name)(), args[0].scale)
            raise NotImplementedError(str(func))

    class Two(lib.Tensor):
        @staticmethod
        def __new__(cls, a, b):
            facts = {"strides": a.stride(), "dtype": a.dtype, "device": a.device}
            return make(cls, a.shape, requires_grad=a.requires_grad, **facts)

        def __init__(self, a, b):
            self.a, self.b = a, b

        def __tensor_flatten__(self):
            return ["a", "b"], None

        @staticmethod
        def __tensor_unflatten__(inner, context, size, stride):
            return Two(inner["a"], inner["b"])

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            outs = [
                func(*part[0], **part[1])
                for part in (
                    tree.tree_map_only(Two, get, (args, kwargs or {}))
                    for get in (lambda one: one.a, lambda one: one.b)
                )
            ]
            flat, spec = tree.tree_flatten(outs[0])
            pairs = zip(flat, tree.tree_leaves(outs[1]))
            made = [cls(*p) if isinstance(p[0], lib.Tensor) else p[0] for p in pairs]
            out = tree.tree_unflatten(made, spec)
            return dispatch.return_and_correct_aliasing(func, args, kwargs, out)

    for kind in (Quantized, Two):
        kind.__qualname__ = f"{kind.__name__}_{lib.__name__}"
        kind.__module__ = __name__
        globals()[kind.__qualname__] = kind
    return Quantized, Two


def numbers(*values):
    return [round(one, 4) for value in values for one in value.flatten().tolist()]


def weights_that_handle_products(lib, quantized, two):
    weight = quantized(lib.arange(8).reshape(2, 4), lib.tensor(0.5))
    x, bias = lib.ones(3, 4, requires_grad=True), lib.ones(2)
    for given in ((x, weight), (x, weight, bias), (x[None], weight, bias)):
        out = lib.nn.functional.linear(*given)
        out.pow(2).sum().backward()
        yield type(out) is lib.Tensor, numbers(out.detach(), x.grad)
    layer = lib.nn.Linear(4, 2, bias=False)
    layer.weight = lib.nn.Parameter(weight, requires_grad=False)
    yield numbers(layer(x).detach()), numbers(copy.deepcopy(layer)(x).detach())


def copies_of_a_wrapper(lib, quantized, two):
    weight = quantized(lib.arange(8).reshape(2, 4), lib.tensor(0.5))
    file = io.BytesIO()
    lib.save({"weight": weight, "again": weight}, file)
    file.seek(0)
    loaded = lib.load(file, weights_only=False)
    yield loaded["weight"] is loaded["again"]
    for made in (pickle.loads(pickle.dumps(weight)), loaded["weight"]):
        yield type(made) is quantized, tuple(made.shape), numbers(made.plain())
    pair = two(lib.ones(2), lib.zeros(2))
    other = copy.deepcopy(pair)
    other.a.add_(1)
    yield numbers(pair.a, other.a)


def optimizers_of_wrappers(lib, quantized, two):
    options = {"SGD": {"lr": 0.1, "momentum": 0.9}, "AdamW": {"lr": 0.1}, "RMSprop": {}}
    for name, chosen in options.items():
        weight = lib.nn.Parameter(two(lib.ones(2), lib.full((2,), 2.0)))
        optimizer = getattr(lib.optim, name)([weight], **chosen)
        for _ in range(3):
            optimizer.zero_grad()
            (weight * weight).sum().backward()
            optimizer.step()
        yield name, numbers(weight.a, weight.b)


def modes_that_are_left_out(lib, quantized, two):
    dispatch = importlib.import_module(f"{lib.__name__}.utils._python_dispatch")

    class Names(dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    seen: list = []
    outer, inner = Names(), Names()
    with outer, inner:
        with dispatch._disable_current_modes() as modes:
            lib.ones(2)
        yield [one is inner for one in modes], dispatch._len_torch_dispatch_stack()
        yield dispatch._get_dispatch_stack_at(0) is outer
        lib.zeros(2)
    yield seen, dispatch._get_current_dispatch_mode()


PROGRAMS = [
    weights_that_handle_products,
    copies_of_a_wrapper,
    optimizers_of_wrappers,
    modes_that_are_left_out,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.__name__)
def test_wrappers_and_modes_do_what_they_do_in_pytorch(program):
    ours, theirs = (list(program(lib, *kinds(lib))) for lib in (rl, torch))
    assert ours == theirs


def test_a_class_with_a_handler_takes_no_calls_but_by_a_hook_of_its_own():
    for lib in (rl, torch):
        quantized, two = kinds(lib)

        class Plain(lib.Tensor):
            pass

        class Hooked(two):
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                return "taken"

        assert type(lib.ones(2).as_subclass(Plain) + 1) is Plain
        assert quantized.__torch_function__ is not lib.Tensor.__torch_function__
        assert lib.add(Hooked(lib.ones(2), lib.ones(2)), 1) == "taken"
