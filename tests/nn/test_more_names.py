"""Names that other programs import from inside of ``nn`` and ``optim``."""

from __future__ import annotations

import importlib

import pytest

import rushlight as rl
from tests.nn.sides import assert_same_on_both_sides

NAMES = """
    nn._reduction.get_enum nn.attention.activate_flash_attention_impl
    nn.common_types._size_2_t nn.functional._Reduction nn.grad.conv2d_weight
    nn.modules.channelshuffle.ChannelShuffle
    nn.modules.linear.NonDynamicallyQuantizableLinear
    nn.modules.module._IncompatibleKeys nn.modules.module._WrappedHook
    nn.modules.utils.consume_prefix_in_state_dict_if_present nn.utils.clip_grad_norm
    optim.optimizer.ParamsT optim.optimizer._default_to_fused_or_foreach
    optim.optimizer._get_capturable_supported_devices
    optim.optimizer._use_grad_for_differentiable
""".split()


@pytest.mark.parametrize("name", NAMES)
def test_the_name_is_there(name):
    home, _, word = name.rpartition(".")
    assert hasattr(importlib.import_module(f"rushlight.{home}"), word)


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize(
    "options", [{}, {"stride": 2, "padding": 1}, {"groups": 2}], ids=str
)
def test_gradients_of_convolutions_are_the_oracles(dims, options):
    def program(m):
        grad = importlib.import_module(f"{m.__name__}.nn.grad")
        input = m.randn(2, 4, *(5,) * dims)
        weight = m.randn(6, 4 // options.get("groups", 1), *(3,) * dims)
        convolve = getattr(m.nn.functional, f"conv{dims}d")
        back = m.randn(convolve(input, weight, **options).shape)
        return [
            getattr(grad, f"conv{dims}d_input")(input.shape, weight, back, **options),
            getattr(grad, f"conv{dims}d_weight")(input, weight.shape, back, **options),
        ]

    assert_same_on_both_sides(program, tolerance=1e-4)


def test_prefixes_are_taken_off_states_as_by_the_oracle():
    def program(m):
        strip = m.nn.modules.utils.consume_prefix_in_state_dict_if_present
        model = m.nn.Sequential(m.nn.Linear(1, 1), m.nn.BatchNorm1d(1))
        state = model.state_dict(prefix="module.")
        strip(state, "module.")
        other = m.nn.Linear(1, 1).state_dict()
        strip(other, "module.")
        return list(state), dict(state._metadata), list(other)

    assert_same_on_both_sides(program)


def test_reductions_have_the_oracles_numbers():
    def program(m):
        reduction = importlib.import_module(f"{m.__name__}.nn._reduction")
        flags = [(a, b) for a in (None, True, False) for b in (None, True, False)]
        return [reduction.get_enum(name) for name in ("none", "mean", "sum")], [
            reduction.legacy_get_enum(*pair, emit_warning=False) for pair in flags
        ]

    assert_same_on_both_sides(program)


def test_named_implementations_of_attention_come_and_go(monkeypatch):
    from rushlight.nn import attention
    from rushlight.nn.attention import _registry

    class Handle:
        removed = 0

        def remove(self):
            Handle.removed += 1

    monkeypatch.setattr(_registry, "_FLASH_ATTENTION_IMPLS", {})
    attention.register_flash_attention_impl("own", register_fn=Handle)
    attention.activate_flash_attention_impl("own")
    assert attention.current_flash_attention_impl() == "own"
    with pytest.raises(ValueError, match="Unknown flash attention impl 'other'"):
        attention.activate_flash_attention_impl("other")
    assert attention.current_flash_attention_impl() is None
    assert Handle.removed == 1


def test_tensors_are_grouped_by_device_and_dtype():
    tensors = [rl.ones(1), rl.ones(1, dtype=rl.float64), rl.ones(2)]
    group = rl.optim.Optimizer._group_tensors_by_device_and_dtype
    found = group([tensors, [None, None, None]], with_indices=True)
    kinds = {dtype.name if hasattr(dtype, "name") else dtype for _, dtype in found}
    assert kinds == {"float32", "float64"}
    ((lists, places), _) = found.values()
    assert [len(each) for each in lists] == [2, 2]
    assert places == [0, 2]
