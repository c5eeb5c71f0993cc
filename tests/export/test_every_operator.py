"""A part of ``python -m tests.export``; and what Python makes of tensors, exported."""

import operator
import warnings

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="the oracle's samples need it")

import rushlight as rl  # noqa: E402
from rushlight.export import _names  # noqa: E402
from tests.export import sweep  # noqa: E402
from tests.export.known import KNOWN  # noqa: E402

PART = (
    *("__rmatmul__", "__rmod__", "_segment_reduce", "cartesian_prod", "conj", "where"),
    *("contiguous", "empty", "histogram", "histogramdd", "isin", "linspace", "var"),
    *("masked.cumsum", "masked.normalize", "masked.std", "masked_fill", "meshgrid"),
    *(
        "nn.functional.conv_transpose2d",
        "nn.functional.dropout3d",
        "normal",
        "std_mean",
    ),
    *(
        "nn.functional.huber_loss",
        "nn.functional.interpolate",
        "nn.functional.mse_loss",
    ),
    *("nn.functional.linear_cross_entropy", "nn.functional.local_response_norm"),
    *("nn.functional.max_unpool1d", "nn.functional.multi_head_attention_forward"),
    *("nn.functional.rrelu", "stft", "istft", "unravel_index", "index_put", "nonzero"),
)
CHOSEN = [(at, name) for at, name in sweep.names() if name in PART]


@pytest.mark.parametrize(("at", "name"), CHOSEN, ids=[name for _, name in CHOSEN])
def test_an_operator_is_exported_as_pytorch_does(at, name):
    verdict, detail = sweep.compare(at)
    assert verdict not in sweep.BAD or (name, verdict) in KNOWN, detail


def put(index, value):
    """A function that writes into a copy."""

    def written(x):
        made = x * 1
        made[index] = value
        return made

    return written


def in_place(name):
    function = getattr(operator, name)
    return lambda x, y: function(x * 1, y)


def with_number(name):
    function = getattr(operator, name)
    return lambda x: function(x, 2)


def after_number(name):
    function = getattr(operator, name)
    return lambda x: function(2, x)


# Each with its kinds of arguments: f for floats, i for integers, m for a matrix, c for
# complex ones.
PYTHONS = {
    **{f"{name} tensors": ("ff", getattr(operator, name))
       for name in "add sub mul truediv floordiv mod pow lt ge eq".split()},
    **{f"{name} a number": ("f", with_number(name))
       for name in "add sub mul truediv floordiv mod pow lt ge eq".split()},
    **{f"a number {name}": ("f", after_number(name))
       for name in "add sub mul truediv floordiv mod pow lt ge eq".split()},
    **{f"{name} of bits": ("ii", getattr(operator, name))
       for name in "and_ or_ xor lshift rshift".split()},
    **{f"{name} of bits and a number": ("i", with_number(name))
       for name in "and_ or_ xor lshift rshift".split()},
    **{f"a number {name} bits": ("i", after_number(name))
       for name in "and_ or_ xor lshift rshift".split()},
    **{name: ("ff", in_place(name))
       for name in "iadd isub imul itruediv ifloordiv imod ipow".split()},
    **{name: ("ii", in_place(name))
       for name in "iand ior ixor ilshift irshift".split()},
    "write a number": ("f", put(0, 1.0)),
    "write numbers": ("f", put(slice(0, 2), 1.0)),
    "write everywhere": ("f", put(..., 1.0)),
    "write by a list": ("f", put([0, 1], 1.0)),
    "write to a new dimension": ("f", put((None, 0), 1)),
    "all of it": ("f", lambda x: x[:]),
    "turned": ("m", lambda x: (x.T, x.mT, x.H, x.mH)),
    "to a device": ("f", lambda x: (x.cpu(), x.to("cpu"), x.to(x))),
    "to another type": ("f", lambda x: (x.double(), x.to(dtype=x.dtype), x.type_as(x))),
    "fill by a tensor": ("f", lambda x: x.masked_fill(x > 1, x[0])),
    "fill places by a tensor": ("fi", lambda x, i: x.index_fill(0, i - 1, x[0])),
    "conjugate": ("c", lambda x: x.conj() + 1),
}  # fmt: skip


def arguments(lib, kinds):
    made = {
        "f": lib.tensor([0.5, 1.5, 2.5]),
        "i": lib.tensor([1, 2, 3]),
        "m": lib.tensor([[0.5, 1.5], [2.5, 3.5]]),
        "c": lib.tensor([1 + 2j, 3j]),
    }
    return tuple(made[kind] for kind in kinds)


def exported(lib, kinds, function):
    class Program(lib.nn.Module):
        def forward(self, *args):
            return function(*args)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return lib.export.export(Program(), arguments(lib, kinds))


@pytest.mark.parametrize("case", PYTHONS)
def test_what_python_writes_is_exported_as_pytorch_does(case):
    kinds, function = PYTHONS[case]
    theirs = exported(torch, kinds, function)
    ours = exported(rl, kinds, function)
    assert sweep.our_steps(ours.graph) == sweep.their_steps(theirs.graph)
    found = ours.module()(*arguments(rl, kinds))
    expected = function(*arguments(rl, kinds))
    assert sweep.near(sweep.as_lists(found), sweep.as_lists(expected))
    for node in theirs.graph.nodes:  # each name is one that files of PyTorch's may have
        if node.op == "call_function" and isinstance(
            node.target, torch._ops.OpOverload
        ):
            name = f"torch.ops.{node.target}"
            assert name in _names.CHECKS or _names.function_named(name)


@pytest.mark.parametrize("weights", [True, False])
@pytest.mark.parametrize("inputs", [1, 2, 3])
@pytest.mark.parametrize("mask", ["none", "truth", "numbers", "padding", "both"])
def test_attention_is_exported_as_pytorch_does(mask, inputs, weights):
    programs = []
    for lib in (torch, rl):
        layer = lib.nn.MultiheadAttention(4, 2)
        x = lib.ones(3, 2, 4)
        given = [x, *(lib.ones(3, 2, 4) for _ in range(inputs - 1))]
        options = {"need_weights": weights}
        if mask in ("truth", "numbers", "both"):
            square = lib.zeros(3, 3)
            options["attn_mask"] = square if mask == "numbers" else square.bool()
        if mask in ("padding", "both"):
            options["key_padding_mask"] = lib.zeros(2, 3).bool()

        class Program(lib.nn.Module):
            def __init__(self, layer=layer):
                super().__init__()
                self.layer = layer

            def forward(self, *given, **options):
                three = [*given, given[-1], given[-1]][:3]
                return self.layer(*three, **options)

        programs.append(lib.export.export(Program(), tuple(given), options))
    theirs, ours = programs
    assert sweep.our_steps(ours.graph) == sweep.their_steps(theirs.graph)
