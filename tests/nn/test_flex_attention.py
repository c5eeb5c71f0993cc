"""Attention with scores and masks of one's own is PyTorch's."""

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")
MODS = {
    "plain": (None, None),
    "causal": (None, lambda b, h, q, k: q >= k),
    "window": (None, lambda b, h, q, k: (q - k).abs() < 3),
    "bias": (lambda s, b, h, q, k: s + (k - q) * 0.1, None),
    "heads": (lambda s, b, h, q, k: s * (h + 1) - b, lambda b, h, q, k: k <= q + h),
}


def run(m, name, heads=2):
    from importlib import import_module

    flex = import_module(f"{m.__name__}.nn.attention.flex_attention")
    score_mod, mask_mod = MODS[name]
    m.manual_seed(0)
    query = m.randn(2, 2, 5, 4)
    key, value = m.randn(2, heads, 6, 4), m.randn(2, heads, 6, 3)
    mask = mask_mod and flex.create_block_mask(
        mask_mod, 2, 2, 5, 6, device="cpu", BLOCK_SIZE=2
    )
    out, lse = flex.flex_attention(
        query, key, value, score_mod, mask, enable_gqa=heads == 1, return_lse=True
    )
    dense = None if mask is None else mask.to_dense().tolist()
    return [x.detach().numpy() for x in (out, lse)], dense


@pytest.mark.parametrize("name", MODS)
@pytest.mark.parametrize("heads", [2, 1])
@pytest.mark.filterwarnings("ignore")
def test_results_and_blocks_are_pytorch_s(name, heads):
    (ours, dense), (theirs, reference) = run(rl, name, heads), run(torch, name, heads)
    assert dense == reference
    for a, b in zip(ours, theirs):
        torch.testing.assert_close(torch.from_numpy(a), torch.from_numpy(b))


def test_gradients_are_those_of_attention_with_the_same_mask():
    from rushlight.nn.attention import flex_attention as flex

    def gradients(attend):
        rl.manual_seed(0)
        parts = [rl.randn(1, 2, 4, 4).requires_grad_() for _ in range(3)]
        attend(*parts).square().sum().backward()
        return [part.grad for part in parts]

    mask = flex.create_block_mask(lambda b, h, q, k: q >= k, 1, 2, 4, 4)
    ours = gradients(lambda *qkv: flex.flex_attention(*qkv, block_mask=mask))
    plain = gradients(
        lambda *qkv: rl.nn.functional.scaled_dot_product_attention(*qkv, is_causal=True)
    )
    assert all(rl.allclose(a, b, atol=1e-6) for a, b in zip(ours, plain))


def test_the_choice_of_a_kernel_is_kept_for_a_block():
    from rushlight.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel(SDPBackend.MATH):
        assert not rl.backends.cuda.flash_sdp_enabled()
        assert rl.backends.cuda.math_sdp_enabled()
    assert rl.backends.cuda.flash_sdp_enabled()


LISTS = [
    f"{full}{by}_{what}"
    for full in ("", "full_")
    for by in ("kv", "q")
    for what in ("num_blocks", "indices")
]


@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize("name", ["causal", "window"])
def test_blocks_are_listed_by_queries_and_by_keys(name, apart):
    from importlib import import_module

    lists = []
    for m in rl, torch:
        flex = import_module(f"{m.__name__}.nn.attention.flex_attention")
        mask = flex.create_block_mask(
            MODS[name][1], None, None, 7, 5, device="cpu", BLOCK_SIZE=2,
            separate_full_blocks=apart,
        )  # fmt: skip
        lists.append([getattr(mask, one) for one in LISTS])
    for ours, theirs in zip(*lists, strict=True):
        assert (ours is None) == (theirs is None)
        assert ours is None or ours.tolist() == theirs.tolist()
