"""Types and modes see the calls, and the arguments, that they see in PyTorch."""

import inspect
import operator
import re

import pytest

import rushlight as rl
from rushlight import overrides

SENTINEL = object()


class Duck:
    """No tensor, but it takes calls."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func, types, args, kwargs or {}


class Answering(rl.Tensor):
    """A tensor whose calls all have one answer."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return SENTINEL


def torch_module():
    return pytest.importorskip("torch")


def name_of(module, function):
    """Where a function is found, without the package's name."""
    found = module.overrides.resolve_name(function)
    return function.__name__ if found is None else found.partition(".")[2]


def watched(module, program):
    """The names of the calls that a program makes, as a mode sees them."""
    seen = []

    class Mode(module.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append((name_of(module, func), len(args), sorted(kwargs or {})))
            return func(*args, **(kwargs or {}))

    x = module.ones(2, 2)
    with Mode():
        program(module, x)
    return seen


PROGRAMS = [
    lambda t, x: x + 1,
    lambda t, x: 1 + x,
    lambda t, x: x - 1,
    lambda t, x: x * 2,
    lambda t, x: x / 2,
    lambda t, x: x @ x,
    lambda t, x: x < 1,
    lambda t, x: -x,
    lambda t, x: t.add(x, 1, alpha=2),
    lambda t, x: x.add(other=1),
    lambda t, x: x.add_(1),
    lambda t, x: t.exp(x, out=t.empty(2, 2)),
    lambda t, x: x.sum(0, keepdim=True),
    lambda t, x: x.view(2, 2),
    lambda t, x: x.permute(1, 0),
    lambda t, x: t.zeros(2, 3, dtype=t.float64),
    lambda t, x: t.cat([x, x], dim=1),
    lambda t, x: t.tensor([1.0, 2.0]),
    lambda t, x: t.einsum("ij,jk->ik", x, x),
    lambda t, x: t.linalg.norm(x),
    lambda t, x: t.special.erf(x),
    lambda t, x: x.shape,
    lambda t, x: x.dtype,
    lambda t, x: x.T,
    lambda t, x: x.requires_grad,
    lambda t, x: setattr(x, "requires_grad", True),
    lambda t, x: x.requires_grad_(),
    lambda t, x: x.grad,
    lambda t, x: x.size(0),
    lambda t, x: x.dim(),
    lambda t, x: x.tolist(),
    lambda t, x: x.sum().item(),
    lambda t, x: x[0],
    lambda t, x: x.__setitem__(0, 1),
    lambda t, x: len(x),
    lambda t, x: bool(x.sum()),
    lambda t, x: float(x.sum()),
    lambda t, x: t.is_floating_point(x),
    lambda t, x: t.nn.functional.softplus(x).shape,
    lambda t, x: t.nn.functional.conv1d,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_a_mode_sees_the_calls_that_it_sees_in_pytorch(program):
    found = watched(rl, program)
    expected = watched(torch_module(), program)
    functional = ("nn.functional.", "nn.")
    assert [name.removeprefix(functional[0]) for name, *_ in found] == [
        name.removeprefix(functional[0]).removeprefix(functional[1])
        for name, *_ in expected
    ]
    assert [rest for _, *rest in found] == [rest for _, *rest in expected]


CALLS = [
    lambda t, d, x: t.add(d, 1),
    lambda t, d, x: t.add(x, d),
    lambda t, d, x: t.add(x, x, alpha=d),
    lambda t, d, x: x + d,
    lambda t, d, x: x.add(d),
    lambda t, d, x: x.view(d, 2),
    lambda t, d, x: x.view(2, d),
    lambda t, d, x: x.view((2, d)),
    lambda t, d, x: x.reshape(d),
    lambda t, d, x: x.sum(d),
    lambda t, d, x: x.sum(dim=d, keepdim=True),
    lambda t, d, x: x.sum(dtype=d),
    lambda t, d, x: x.transpose(0, d),
    lambda t, d, x: t.zeros(d),
    lambda t, d, x: t.zeros(2, dtype=d),
    lambda t, d, x: t.zeros(2, device=d),
    lambda t, d, x: t.full((2, d), 1.0),
    lambda t, d, x: t.full((2,), d),
    lambda t, d, x: t.cat([x, d]),
    lambda t, d, x: t.cat((d, x), 1),
    lambda t, d, x: t.where(d, x, x),
    lambda t, d, x: t.clamp(x, d),
    lambda t, d, x: t.exp(x, out=d),
    lambda t, d, x: t.linalg.norm(x, d),
    lambda t, d, x: x.to(d),
    lambda t, d, x: x.expand((d, 2)),
    lambda t, d, x: t.nn.functional.linear(d, x),
    lambda t, d, x: t.nn.functional.relu(d),
    lambda t, d, x: t.nn.functional.dropout(d, 0.5),
    lambda t, d, x: t.nn.functional.cross_entropy(x, d),
    lambda t, d, x: t.einsum("ij->i", d),
    lambda t, d, x: t.arange(d),
]


@pytest.mark.parametrize("call", CALLS, ids=range(len(CALLS)))
def test_what_takes_calls_may_stand_in_any_place(call):
    duck = Duck()
    func, types, args, kwargs = call(rl, duck, rl.ones(2, 2))
    torch = torch_module()
    theirs = call(torch, duck, torch.ones(2, 2))
    assert types == (Duck,) and Duck in theirs[1]
    assert func.__name__ == theirs[0].__name__
    if "functional" not in func.__module__:  # Python's wrappers may sort arguments
        assert len(args) == len(theirs[2])
    held = [*args, *kwargs.values()]
    inside = [one for arg in held if isinstance(arg, (list, tuple)) for one in arg]
    assert any(one is duck for one in held + inside)


REFUSED = [
    lambda t, d: t.add(d, "text"),
    lambda t, d: t.add(d, 1, unknown=2),
    lambda t, d: t.exp(d, 1),
]


@pytest.mark.parametrize("call", REFUSED, ids=range(len(REFUSED)))
def test_the_other_arguments_are_checked_all_the_same(call):
    torch = torch_module()
    with pytest.raises(TypeError):
        call(torch, Duck())
    with pytest.raises(TypeError):
        call(rl, Duck())


def test_every_function_that_can_be_taken_is():
    tensor = rl.ones(2, 2).as_subclass(Answering)
    left = []
    for function, example in overrides.get_testing_overrides().items():
        parameters = inspect.signature(example).parameters.values()
        needed = [
            tensor
            for parameter in parameters
            if parameter.default is inspect.Parameter.empty
            and parameter.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        try:
            taken = function(*(needed or [tensor])) is SENTINEL
        except TypeError:  # numbers stand at other places
            taken = True
        if not taken:
            left.append(overrides.resolve_name(function))
    assert len(left) == 0, left


# -- subclasses --------------------------------------------------------------------------


def scale(module):
    class Scale(module.Tensor):
        pass

    return Scale


KEEPING = [
    lambda x: x + 1,
    lambda x: 2 * x,
    lambda x: x.sum(),
    lambda x: x.T,
    lambda x: x[0],
    lambda x: x.max(0),
    lambda x: x.split(1),
    lambda x: x.data,
    lambda x: x.detach(),
    lambda x: x.clone().requires_grad_(),
    lambda x: x.shape,
    lambda x: x.tolist(),
    lambda x: x.grad,
    lambda x: x.new_zeros(2),
    lambda x: x.numpy(),
    lambda x: next(iter(x)),
]


def kinds(value):
    if isinstance(value, (tuple, list)):
        return [kinds(one) for one in value]
    return type(value).__name__


@pytest.mark.parametrize("program", KEEPING, ids=range(len(KEEPING)))
def test_results_are_of_the_types_that_they_have_in_pytorch(program):
    torch = torch_module()
    found = program(rl.ones(2, 2).as_subclass(scale(rl)))
    expected = program(torch.ones(2, 2).as_subclass(scale(torch)))
    assert kinds(found) == kinds(expected)


def test_a_type_keeps_its_values_history():
    x = rl.ones(2, requires_grad=True)
    y = (x * 3).as_subclass(scale(rl))
    assert y.grad_fn is not None and not y.is_leaf
    (y * y).sum().backward()
    assert x.grad.tolist() == [18.0, 18.0]
    assert type(x.grad) is rl.Tensor


def test_types_of_different_kinds_are_asked_subclasses_first():
    class Base(rl.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return cls.__name__, [kind.__name__ for kind in types]

    class Derived(Base):
        pass

    base, derived = rl.ones(1).as_subclass(Base), rl.ones(1).as_subclass(Derived)
    assert rl.add(base, derived) == ("Derived", ["Derived", "Base"])
    assert rl.add(derived, base) == ("Derived", ["Derived", "Base"])


def test_what_nobody_takes_is_refused_in_pytorch_s_words():
    def words(module):
        class Silent(module.Tensor):
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                return NotImplemented

        with pytest.raises(TypeError) as caught:
            module.add(module.ones(1).as_subclass(Silent), 1)
        return str(caught.value).partition(";")[0].partition(".")[2]

    assert words(rl) == words(torch_module())


def test_as_subclass_wants_a_type_of_tensors():
    with pytest.raises(TypeError, match="cls must be a type"):
        rl.ones(1).as_subclass(3)
    with pytest.raises(TypeError):
        rl.ones(1).as_subclass(int)


def test_redispatching_skips_one_level():
    seen = []

    class Noted(rl.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return overrides.redispatch_function(func, types, args, kwargs)

    def product(a, b):
        if overrides.has_torch_function((a, b)):
            return overrides.handle_torch_function(product, (a, b), a, b)
        return a * b + 1

    x = rl.tensor([3.0]).as_subclass(Noted)
    result = product(x, x)
    assert seen == ["product", "mul"] and type(result) is rl.Tensor


def test_a_proxy_records_a_model():
    calls = []

    class Proxy:
        def __torch_function__(self, func, types, args=(), kwargs=None):
            calls.append(overrides.resolve_name(func).partition(".")[2])
            return Proxy()

    class Net(rl.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = rl.nn.Linear(2, 3)

        def forward(self, x):
            return rl.nn.functional.relu(self.linear(x)).sum

    net = Net()
    hidden = net.linear(Proxy())
    rl.softmax(rl.nn.functional.relu(hidden), dim=-1)
    assert calls == ["nn.functional.linear", "nn.functional.relu", "softmax"]


_IN_PLACE = (
    "add sub mul truediv floordiv mod pow and or xor lshift rshift matmul".split()
)
_OPERATORS = [
    *"add sub mul truediv floordiv mod pow and_ or_ xor lshift rshift matmul".split(),
    *"eq ne lt le gt ge".split(),
    *(f"i{name}" for name in _IN_PLACE),
]


@pytest.mark.parametrize("name", _OPERATORS)
def test_python_s_operators_ask_the_other_operand_where_a_type_declines(name):
    """And compare by identity, or refuse in Python's words, where that one does, too."""
    function = getattr(operator, name)

    def outcomes(module):
        class Silent(module.Tensor):
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                return NotImplemented

        class Glad:
            def answer(self, other):
                return "glad"

            for each in ("radd", "rsub", "rmul", "eq", "gt", "rmatmul", "rand"):
                vars()[f"__{each}__"] = answer

        plain, silent = module.ones(2), module.ones(2).as_subclass(Silent)
        others = 1, 1.5, "a", None, plain, silent, Glad()
        for pair in [(silent, one) for one in others] + [
            (one, silent) for one in others
        ]:
            try:
                yield function(*pair)
            except TypeError as error:
                yield re.sub(
                    r"'[\w.]*\bTensor'", "'Tensor'", str(error).partition(";")[0]
                )

    words = [str(one).replace("rushlight", "torch") for one in outcomes(rl)]
    assert words == [str(one) for one in outcomes(torch_module())]


def test_a_sum_in_place_with_what_no_tensor_knows_leaves_the_variable():
    value = rl.nn.Parameter(rl.ones(1))
    with rl.no_grad(), pytest.raises(TypeError, match=r"for \+=: 'Parameter' and 'obj"):
        value += object()
    assert isinstance(value, rl.nn.Parameter)
