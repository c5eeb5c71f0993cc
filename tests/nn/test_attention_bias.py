"""Causal masks by name, and the options of attention, beside the oracle."""

from __future__ import annotations

import pytest

from tests.nn.sides import assert_same_on_both_sides


def _bias(m):
    __import__(f"{m.__name__}.nn.attention.bias")
    return m.nn.attention.bias


@pytest.mark.parametrize("name", ["causal_upper_left", "causal_lower_right"])
@pytest.mark.parametrize("sizes", [(3, 3), (2, 5), (4, 3)], ids=str)
def test_attention_under_a_causal_bias_is_the_oracles(name, sizes):
    def program(m):
        bias = getattr(_bias(m), name)(*sizes)
        query = m.randn(2, sizes[0], 4, requires_grad=True)
        key = m.randn(2, sizes[1], 4)
        attend = m.nn.functional.scaled_dot_product_attention
        result = attend(query, key, key.flip(0), attn_mask=bias)
        result.nan_to_num().sum().backward()
        facts = bias.variant.name, bias.seq_len_q, bias.seq_len_kv, repr(bias)
        return result, query.grad, facts, bias._materialize()

    assert_same_on_both_sides(program)


def test_a_causal_bias_refuses_what_the_oracle_refuses():
    def attend(m):
        x = m.ones(1, 2, 4)
        bias = _bias(m).causal_upper_left(2, 2)
        m.nn.functional.scaled_dot_product_attention(x, x, x, bias, is_causal=True)

    assert assert_same_on_both_sides(attend)[0] == "ValueError"
    found = assert_same_on_both_sides(lambda m: _bias(m).causal_lower_right(2))
    assert found[0] == "AssertionError"


@pytest.mark.parametrize(
    "options",
    [
        {"BACKEND": "OTHER"},
        {"BACKEND": "TRITON", "FORCE_USE_FLEX_ATTENTION": True},
        {"OUTPUT_MAX": True},
        {"OUTPUT_LOGSUMEXP": True},
    ],
    ids=str,
)
def test_options_of_flexible_attention_are_checked_as_by_the_oracle(options):
    def program(m):
        __import__(f"{m.__name__}.nn.attention.flex_attention")
        x = m.ones(1, 1, 2, 4)
        m.nn.attention.flex_attention.flex_attention(x, x, x, kernel_options=options)

    assert assert_same_on_both_sides(program)[0].endswith("Error")
