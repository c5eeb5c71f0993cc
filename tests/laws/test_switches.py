"""What a process chose holds for the next call, however often it was made before.

Plans of launches and paths of compiled functions are for the switches under which they were
made (`rushlight.core.switches`): attention's backends, deterministic mode, warnings always.
"""

from __future__ import annotations

import importlib
import warnings

import numpy as np
import pytest

import rushlight
from rushlight.core import switches

WARM = 4


def attention(m, *sizes, dtype="float32", turn=False, **options):
    """A call of attention by its operands' sizes, all of them ones."""
    shapes = list(sizes) * (3 if len(sizes) == 1 else 1)
    operands = [m.ones(size, dtype=getattr(m, dtype)) for size in shapes]
    if turn:
        operands = [t.mT for t in operands]
    if "attn_mask" in options:
        size, learns = options["attn_mask"]
        options["attn_mask"] = m.ones(size, requires_grad=learns)
    return m.nn.functional.scaled_dot_product_attention(*operands, **options)


CALLS = {
    "plain": lambda m: attention(m, (1, 2, 4, 8)),
    "long": lambda m: attention(m, (1, 2, 64, 8)),
    "three dimensions": lambda m: attention(m, (2, 4, 8)),
    "two dimensions": lambda m: attention(m, (4, 8)),
    "doubles": lambda m: attention(m, (1, 2, 4, 8), dtype="float64"),
    "halves": lambda m: attention(m, (1, 2, 4, 8), dtype="float16"),
    "integers": lambda m: attention(m, (1, 2, 4, 8), dtype="int64"),
    "mask": lambda m: attention(m, (1, 2, 4, 8), attn_mask=((4, 4), False)),
    "mask of three": lambda m: attention(m, (1, 2, 4, 8), attn_mask=((2, 4, 4), False)),
    "mask that learns": lambda m: attention(m, (1, 2, 4, 8), attn_mask=((4, 4), True)),
    "mask of rows": lambda m: attention(m, (1, 2, 8, 8), attn_mask=((8, 1), False)),
    "dropout": lambda m: attention(m, (1, 2, 4, 8), dropout_p=0.5),
    "causal": lambda m: attention(m, (1, 2, 4, 8), is_causal=True),
    "no keys": lambda m: attention(m, (1, 2, 4, 8), (1, 2, 0, 8), (1, 2, 0, 8)),
    "no features": lambda m: attention(m, (1, 2, 4, 0)),
    "other values": lambda m: attention(m, (1, 2, 4, 8), (1, 2, 4, 8), (1, 2, 4, 6)),
    "other batches": lambda m: attention(m, (1, 2, 4, 8), (3, 2, 4, 8), (3, 2, 4, 8)),
    "other heads": lambda m: attention(m, (1, 4, 4, 8), (1, 2, 4, 8), (1, 2, 4, 8)),
    "shared heads": lambda m: attention(
        m, (1, 4, 4, 8), (1, 2, 4, 8), (1, 2, 4, 8), enable_gqa=True
    ),
    "heads that do not divide": lambda m: attention(
        m, (1, 4, 4, 8), (1, 3, 4, 8), (1, 3, 4, 8), enable_gqa=True
    ),
    "turned": lambda m: attention(m, (1, 2, 8, 4), turn=True),
    "on meta": lambda m: m.nn.functional.scaled_dot_product_attention(
        *[m.ones(2, 4, 8, device="meta")] * 3
    ),
}
BACKENDS = (
    ["FLASH_ATTENTION"], ["EFFICIENT_ATTENTION"], ["MATH"], ["CUDNN_ATTENTION"], [],
    ["FLASH_ATTENTION", "EFFICIENT_ATTENTION"], ["MATH", "FLASH_ATTENTION"],
)  # fmt: skip


def outcome(module, call, backends):
    """Sizes or refusal, and what was said of it."""
    home = importlib.import_module(f"{module.__name__}.nn.attention")
    kinds = [getattr(home.SDPBackend, name) for name in backends]
    with warnings.catch_warnings(record=True) as said, home.sdpa_kernel(kinds):
        warnings.simplefilter("always")
        try:
            found = tuple(call(module).shape)
        except RuntimeError as error:
            words = str(error)[:12]
            found = words if words in ("No viable ba", "No available") else "refused"
    return found, [str(one.message).partition("(Triggered")[0].strip() for one in said]


@pytest.mark.parametrize("name", CALLS)
def test_backends_that_cannot_run_a_call_refuse_it_as_pytorch(name):
    torch = pytest.importorskip("torch", reason="the oracle is not installed")
    for backends in BACKENDS:
        found = outcome(rushlight, CALLS[name], backends)
        assert found == outcome(torch, CALLS[name], backends), backends


def test_a_warm_call_of_attention_asks_which_backends_are_left():
    attend = CALLS["plain"]
    for _ in range(WARM):
        before = attend(rushlight)
    home = rushlight.nn.attention
    with home.sdpa_kernel([]), pytest.raises(RuntimeError, match="No viable backend"):
        attend(rushlight)
    with home.sdpa_kernel(home.SDPBackend.MATH):
        for _ in range(WARM):
            assert rushlight.allclose(attend(rushlight), before)
    rushlight.backends.cuda.enable_math_sdp(False)
    try:
        with (
            pytest.warns(UserWarning),
            pytest.raises(RuntimeError, match="No available"),
        ):
            CALLS["three dimensions"](rushlight)
    finally:
        rushlight.backends.cuda.enable_math_sdp(True)


def test_a_compiled_function_asks_it_too():
    attend = rushlight.compile(
        lambda x: rushlight.nn.functional.scaled_dot_product_attention(x, x, x) + 1
    )
    x = rushlight.ones(1, 2, 4, 8)
    for _ in range(WARM):
        attend(x)
    with (
        rushlight.nn.attention.sdpa_kernel([]),
        pytest.raises(RuntimeError, match="No viable backend"),
    ):
        attend(x)
    assert attend(x).shape == x.shape


def test_a_warm_call_is_refused_once_determinism_is_asked_for():
    x, index, value = rushlight.zeros(3), rushlight.tensor([0]), rushlight.ones(1)
    pooled = rushlight.ones(1, 1, 2), rushlight.tensor([[[0, 2]]])
    calls = (
        lambda: x.put_(index, value),
        lambda: rushlight.nn.functional.max_unpool1d(*pooled, 2),
    )
    for call in calls:
        for _ in range(WARM):
            call()
        rushlight.use_deterministic_algorithms(True)
        try:
            with pytest.raises(RuntimeError, match="deterministic"):
                call()
        finally:
            rushlight.use_deterministic_algorithms(False)
        call()


def test_what_is_said_at_each_call_is_said_of_planned_ones():
    x = rushlight.ones(1, 2)
    for _ in range(WARM):
        with pytest.warns(UserWarning, match="degrees of freedom") as said:
            x.var(0)
        assert len(said) == 1


def test_what_is_said_once_is_said_again_when_asked_for():
    complex_ones, real = (
        rushlight.ones(2, dtype=rushlight.complex64),
        rushlight.zeros(2),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(WARM):
            real.copy_(complex_ones)
            complex_ones.to(rushlight.float32)
    real.copy_(complex_ones)  # warnings are errors
    rushlight.set_warn_always(True)
    try:
        for call in (real.copy_, lambda x: x.to(rushlight.float32)):
            with pytest.warns(UserWarning, match="imaginary part"):
                call(complex_ones)
    finally:
        rushlight.set_warn_always(False)


def test_a_warning_names_the_line_of_the_program():
    with pytest.warns(UserWarning) as said:
        rushlight.cov(rushlight.ones(2, 1))
    assert said[0].filename == __file__


def test_switches_have_bits_of_their_own():
    before = switches.bits()
    for name in ("math_sdp", "warn_always", "deterministic"):
        was = switches.set_switch(name, 1)
        assert switches.switch(name) == 1
        switches.set_switch(name, was)
    assert switches.bits() == before
    with pytest.raises(ValueError):
        switches.set_switch("math_sdp", 2)


SETTERS = {
    "recording": lambda t, value: t.set_grad_enabled(value),
    "threads": lambda t, value: t.autograd.set_multithreading_enabled(value),
    "anomalies": lambda t, value: t.autograd.set_detect_anomaly(value),
    "same bits": lambda t, value: t.use_deterministic_algorithms(value),
    "warned": lambda t, value: t.use_deterministic_algorithms(False, warn_only=value),
    "autocast": lambda t, value: t.set_autocast_enabled("cpu", value),
    "cache": lambda t, value: t.set_autocast_cache_enabled(value),
    "flash": lambda t, value: t.backends.cuda.enable_flash_sdp(value),
    "efficient": lambda t, value: t.backends.cuda.enable_mem_efficient_sdp(value),
    "steps": lambda t, value: t.backends.cuda.enable_math_sdp(value),
    "each time": lambda t, value: t.set_warn_always(value),
}


@pytest.mark.parametrize("name", SETTERS)
def test_switches_take_truth_values_alone_as_pytorchs_do(name):
    torch = pytest.importorskip("torch", reason="the oracle is not installed")
    for value in (1, 0.0, "a", None, np.bool_(True)):
        told = []
        for package in (rushlight, torch):
            with pytest.raises((TypeError, RuntimeError)) as caught:
                SETTERS[name](package, value)
            told.append((caught.type, str(caught.value)))
        assert told[0] == told[1]
