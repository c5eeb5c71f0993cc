"""Attention over batches whose samples end earlier: what is padded is zero as in PyTorch."""

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
EPILOGUE = [[0, 0, 1], [0, 1, 1]]
BETWEEN = [[0, 1, 0], [0, 1, 1]]
WHOLE = [[1, 1, 1], [0, 1, 1]]


def on_both(program):
    found = []
    for t in (rl, torch):
        t.manual_seed(0)
        found.append([each.detach().numpy() for each in program(t)])
    for one, two in zip(*found, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-5)
    return found[0]


@pytest.mark.parametrize("padding", [EPILOGUE, BETWEEN, WHOLE])
def test_samples_without_a_key_give_zero_where_nobody_asks_for_weights(padding):
    def program(t):
        attention = t.nn.MultiheadAttention(4, 2, batch_first=True)
        x = t.randn(2, 3, 4, requires_grad=True)
        mask = t.tensor(padding, dtype=t.bool)
        found, _ = attention(x, x, x, key_padding_mask=mask, need_weights=False)
        found.square().sum().backward()
        return found, x.grad, *(p.grad for p in attention.parameters())

    assert all(np.isfinite(each).all() for each in on_both(program))


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("padding", [EPILOGUE, BETWEEN, WHOLE])
def test_encoders_give_zero_for_what_is_padded_behind_a_sample(padding, norm):
    def program(t):
        nn = t.nn
        layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
        last = nn.LayerNorm(4) if norm else None
        encoder = nn.TransformerEncoder(layer, 2, norm=last).eval()
        x, mask = t.randn(2, 3, 4), t.tensor(padding, dtype=t.bool)
        yield encoder(
            x, src_key_padding_mask=mask
        )  # with gradients: nothing is left out
        with t.no_grad():
            yield encoder(x, src_key_padding_mask=mask)
            if padding is not WHOLE:  # PyTorch gives what is no number
                yield encoder(
                    x, t.zeros(3, 3), src_key_padding_mask=mask.float() * -1e9
                )
        yield encoder.train()(x, src_key_padding_mask=mask).isfinite()

    found = on_both(program)
    if not norm and padding is EPILOGUE:
        assert (found[1][0, 2] == 0).all() and (found[0][0, 2] != 0).any()
