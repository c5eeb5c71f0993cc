"""Options of modules that few programs set, beside PyTorch where it has an answer."""

import warnings

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_zeros_that_attention_may_look_at_are_of_its_type(dtype):
    for t in (rl, torch):
        kind = getattr(t, dtype)
        layer = t.nn.MultiheadAttention(4, 2, add_zero_attn=True, dtype=kind)
        x = t.ones(3, 1, 4, dtype=kind)
        output, weights = layer(x, x, x)
        assert output.dtype is kind and weights.shape == (1, 3, 4)


def test_a_parameter_that_a_dictionary_loses_is_no_parameter_any_more():
    for t in (rl, torch):
        held = t.nn.ParameterDict({"one": t.nn.Parameter(t.ones(1)), "two": t.ones(2)})
        del held["one"]
        assert [name for name, _ in held.named_parameters()] == ["two"]
        assert not hasattr(held, "one") and "one" not in held


def test_a_deprecated_name_warns_where_it_is_called():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        rl.nn.init.normal(rl.empty(2))
    assert [str(one.filename) for one in seen] == [__file__]


@pytest.mark.parametrize(
    ("queries", "keys", "block"), [(300, 200, 128), (7, 9, (2, 4)), (1, 1, 1)]
)
def test_blocks_of_lengths_that_they_do_not_divide(queries, keys, block):
    found = []
    for t in (rl, torch):
        flex = __import__(f"{t.__name__}.nn.attention.flex_attention", fromlist=["x"])
        mask = flex.create_block_mask(
            lambda b, h, q, k: q >= k,
            None,
            None,
            queries,
            keys,
            device="cpu",
            BLOCK_SIZE=block,
        )
        names = "kv_num_blocks kv_indices full_kv_num_blocks full_kv_indices".split()
        found.append(
            [mask.to_dense().tolist(), *(getattr(mask, n).tolist() for n in names)]
        )
    assert found[0][:2] == found[1][:2] and found[0][3] == found[1][3]
