"""Values at the edges of operators: narrow types, nothing to work on, rows of millions."""

import itertools
import math
import warnings

import pytest

import rushlight as rl
import rushlight.nn.functional as F

torch = pytest.importorskip("torch", reason="the oracle is not installed")


def both(function):
    """What a function of the module and its layers' functions gives on both sides."""
    return function(rl, F), function(torch, torch.nn.functional)


CALLS = {
    "nothing in nothing": lambda t, f: tuple(
        t.isin(t.zeros(0, 2, 5, dtype=t.int64), t.zeros(3, 0)).shape
    ),
    "steps of a short diagonal": lambda t, f: t.arange(5.0).reshape(5, 1).diag().stride(),
    "no channels": lambda t, f: f.conv1d(t.ones(2, 0, 8), t.ones(8, 0, 2), t.ones(8)).shape,
    "powers of zero": lambda t, f: t.vander(t.tensor([0j, 1j])).tolist(),
    "powers, one column": lambda t, f: t.vander(t.tensor([0j, 1j]), 1).tolist(),
    "no powers": lambda t, f: t.vander(t.tensor([0j, 1j]), 0).tolist(),
    "no blocks": lambda t, f: t.block_diag().tolist(),
    "integers dequantized": lambda t, f: t.dequantize(t.tensor([3])).tolist(),
    "a permutation of bytes": lambda t, f: t.randperm(256, dtype=t.uint8).sum().item(),
    "a permutation of int8": lambda t, f: t.randperm(128, dtype=t.int8).sum().item(),
    "no classes": lambda t, f: str(f.cross_entropy(t.ones(2, 0), t.ones(2, 0)).item()),
    "no samples": lambda t, f: str(f.cross_entropy(t.ones(0, 3), t.ones(0, 3)).item()),
    "sparse bytes": lambda t, f: (
        t.tensor([1], dtype=t.int16).to_sparse() - t.tensor([3], dtype=t.uint8).to_sparse()
    ).to_dense().tolist(),
    "sparse bytes from int8": lambda t, f: (
        t.tensor([1], dtype=t.int8).to_sparse() - t.tensor([3], dtype=t.uint8).to_sparse()
    ).to_dense().tolist(),
    "a capsule": lambda t, f: t.asarray(t.utils.dlpack.to_dlpack(t.ones(2))).tolist(),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_values_at_the_edges_are_the_oracles(name):
    mine, theirs = both(CALLS[name])
    assert (list(mine) if name == "no channels" else mine) == (
        list(theirs) if name == "no channels" else theirs
    )


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
def test_a_truncated_quotient_is_of_the_rounded_one(dtype):
    torch.manual_seed(0)
    x, y = torch.rand(4000) * 50 - 25, torch.rand(4000) * 5 - 2.5

    def quotient(module, x, y):
        kind = getattr(module, dtype)
        return module.div(x.to(kind), y.to(kind), rounding_mode="trunc").float()

    mine = quotient(rl, rl.from_numpy(x.numpy()), rl.from_numpy(y.numpy()))
    assert mine.tolist() == quotient(torch, x, y).tolist()


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "amax", "min", "amin"])
def test_a_sparse_product_takes_every_name_of_a_reduction(reduce):
    def product(t, f):
        left = t.tensor([[1.0, -2.0], [0.0, 3.0]]).to_sparse_csr()
        return t.sparse.mm(left, t.tensor([[1.0, 2.0], [3.0, 4.0]]), reduce).tolist()

    with warnings.catch_warnings(action="ignore"):  # sparse rows are in beta there
        mine, theirs = both(product)
    assert mine == theirs


def test_norms_of_millions_of_elements_lose_no_digits():
    x = rl.randn(3_000_000, generator=rl.Generator().manual_seed(1))
    sizes = list(x.shape)
    for norm in (F.layer_norm, lambda x, s: F.rms_norm(x, s, eps=1e-5)):
        wide = norm(x.double(), sizes)
        assert (norm(x, sizes).double() - wide).abs().max().item() < 1e-6


def test_an_inference_tensor_is_no_output_outside_of_inference_mode():
    with rl.inference_mode():
        out = rl.empty(2)
        assert rl.add(rl.ones(2), 1, out=out) is out
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        rl.add(rl.ones(2), 1, out=out)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        rl.sort(rl.ones(2), out=(out, rl.empty(2, dtype=rl.int64)))


def test_data_of_another_layout_is_refused():
    x = rl.ones(2)
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        x.data = rl.ones(2).to_sparse()


def test_an_index_out_of_range_is_refused_where_nothing_is_copied():
    for index in (7, -1):
        with pytest.raises(RuntimeError, match="out of DATA bounds"):
            rl.index_select(rl.ones(0, 3), 1, rl.tensor([index]))
    assert rl.index_select(rl.ones(0, 3), 1, rl.tensor([2])).shape == (0, 1)


def test_packed_sequences_change_their_type():
    packed = rl.nn.utils.rnn.pack_sequence([rl.ones(2), rl.ones(1)])
    for name, dtype in (("long", rl.int64), ("int", rl.int32), ("half", rl.float16)):
        assert getattr(packed, name)().data.dtype is dtype


def test_every_type_of_device_that_the_oracle_parses_is_a_name():
    with pytest.raises(RuntimeError, match="Expected one of") as told:
        torch.device("nonsense")
    names = str(told.value).split("Expected one of ")[1].split(" device type")[0]
    for name in set(names.split(", ")) - {"mkldnn"}:
        assert str(rl.device(name)) == str(torch.device(name))
        assert repr(rl.device(name, 1)) == repr(torch.device(name, 1))
        if name not in ("cpu", "cuda", "meta", "privateuseone"):
            assert rl.device(name) != rl.device("cpu")
            refused = (NotImplementedError, f"of type '{name}'")
            if name == "xpu":
                refused = (AssertionError, "not compiled with XPU enabled")
            for make in (rl.empty, lambda n, device: rl.ones(n).to(device)):
                with pytest.raises(refused[0], match=refused[1]):
                    make(1, device=name)


KINDS = ("uint8", "int64", "float32", "float64")


def over_memory(module, make, source, kind):
    """A storage's memory as a tensor: type, numbers, whether it is shared; or the error."""
    kind = None if kind is None else getattr(module, kind)
    start = module.arange(16, dtype=getattr(module, source[0]))
    memory = getattr(start, source[1])()
    try:
        made = getattr(module, make)(memory, dtype=kind)
    except RuntimeError as told:
        return str(told).splitlines()[0]
    made.zero_()
    return str(made.dtype).split(".")[1], tuple(made.shape), start.sum().item() == 0


@pytest.mark.parametrize("make", ["tensor", "as_tensor", "asarray"])
def test_a_tensor_over_a_storage_is_its_memory_in_one_type(make):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # typed storages are deprecated
        for source in itertools.product(KINDS, ("untyped_storage", "storage")):
            for kind in (None, *KINDS):
                if kind is not None or source[1] == "storage":
                    case = make, source, kind
                    assert over_memory(rl, *case) == over_memory(torch, *case), case
    empty = [getattr(module, make)(module.UntypedStorage(0)) for module in (rl, torch)]
    assert str(empty[0].dtype).split(".")[1] == str(empty[1].dtype).split(".")[1]


AT_ZEROS_AND_NAN = {
    "the Bessel function of order one": lambda t, f: t.special.bessel_j1(
        t.tensor([-0.0, 0.0, -1.0, -8.0, -9.0, float("nan")])
    ),
    "softshrink": lambda t, f: f.softshrink(t.tensor([-0.2, 0.2, -0.0, float("nan")])),
    "sums of exponentials so far": lambda t, f: t.logcumsumexp(
        t.tensor([[-0.0, -1.0], [float("-inf"), -0.0]]), 1
    ),
    "incomplete gamma functions": lambda t, f: [
        function(x.unsqueeze(1), x)
        for x in [t.tensor([0.0, 1.0, -1.0, float("inf"), float("nan")])]
        for function in (t.igamma, t.igammac)
    ],
    "the slope of hardswish": lambda t, f: t.ops.aten.hardswish_backward(
        t.ones(2), t.tensor([3.0, -3.0])
    ),
}


@pytest.mark.parametrize("name", AT_ZEROS_AND_NAN)
def test_zeros_have_the_oracles_signs_and_nan_its_places(name):
    for mine, theirs in zip(*map(listed, both(AT_ZEROS_AND_NAN[name])), strict=True):
        mine = torch.tensor(mine.tolist())
        signs = torch.signbit(mine) == torch.signbit(theirs)
        assert (signs | mine.isnan()).all()
        torch.testing.assert_close(mine, theirs, equal_nan=True)


def listed(result):
    return result if isinstance(result, list) else [result]


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_costs_of_infinite_logits_are_pytorch_s(dtype):
    def costs(m):
        logits = m.tensor([-math.inf, math.inf, 200.0, -200.0], dtype=getattr(m, dtype))
        shares = [-math.inf, -138.0, 0.0, 1.0, 0.5, 2.0, math.inf]
        shares = m.tensor(shares, dtype=getattr(m, dtype))
        pairs = logits.repeat_interleave(7), shares.repeat(4)
        call = m.nn.functional.binary_cross_entropy_with_logits
        return call(*pairs, reduction="none").double().tolist()

    assert costs(rl) == pytest.approx(costs(torch), rel=1e-2, abs=1e-6, nan_ok=True)
