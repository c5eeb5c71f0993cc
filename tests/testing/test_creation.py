"""Drawn tensors beside PyTorch's: the same numbers from the same seed, the same refusals."""

import pytest

import rushlight as rl

torch = pytest.importorskip("torch", reason="the oracle is not installed")
DTYPES = (
    "bool uint8 int8 int32 int64 float16 bfloat16 float32 float64 complex64".split()
)
OPTIONS = [
    {},
    {"low": 2, "high": 5},
    {"noncontiguous": True},
    {"exclude_zero": True, "low": 0, "high": 2},
    {"low": float("-inf"), "high": float("inf")},
]


def outcome(module, dtype, options):
    module.manual_seed(0)
    try:
        dtype = getattr(module, dtype)
        made = module.testing.make_tensor((3, 4), dtype=dtype, device="cpu", **options)
    except (OverflowError, RuntimeError, ValueError) as error:
        return type(error).__name__
    wide = made.to(module.complex128) if made.is_complex() else made.double()
    return made.stride(), wide.tolist()


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_seed_draws_what_it_draws_for_pytorch(dtype, options):
    assert outcome(rl, dtype, options) == outcome(torch, dtype, options)


@pytest.mark.parametrize(
    ("dtype", "options"),
    [
        ("int64", {"requires_grad": True}),
        ("float32", {"low": 3, "high": 2}),
        ("float32", {"low": float("nan")}),
        ("uint8", {"low": 300, "high": 400}),
        ("float32", {"noncontiguous": True, "memory_format": 1}),
    ],
)
def test_contradictions_are_refused(dtype, options):
    found = outcome(rl, dtype, options)
    assert found == outcome(torch, dtype, options) == "ValueError"


def test_generators_of_a_cpu_have_no_offset():
    for call in (
        lambda m: m.Generator().get_offset(),
        lambda m: m.Generator().set_offset(1),
        lambda m: m.Generator().graphsafe_get_state(),
    ):
        errors = []
        for module in (rl, torch):
            with pytest.raises((RuntimeError, NotImplementedError)) as error:
                call(module)
            errors.append((type(error.value), str(error.value)))
        assert errors[0] == errors[1]
    assert rl.thread_safe_generator() is torch.random.thread_safe_generator() is None
