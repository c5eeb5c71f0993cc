"""Tables of integers of four and two bits, as PyTorch's own operators have them."""

import numpy as np
import pytest

import rushlight as rl
from tests.quantized.test_workflows import on_both

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings(
    "ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"
)


def alike(program):
    one, two = on_both(program)
    for mine, theirs in zip(one, two, strict=True):
        mine, theirs = mine.detach().numpy(), theirs.detach().numpy()
        assert mine.dtype == theirs.dtype and mine.shape == theirs.shape
        np.testing.assert_allclose(mine, theirs, atol=2e-6)


@pytest.mark.parametrize("optimized", [False, True])
@pytest.mark.parametrize("bits", [4, 2])
def test_rows_are_packed_and_summed_as_there(bits, optimized):
    def program(t):
        ops, word = t.ops.quantized, f"embedding_bag_{bits}bit"
        table = t.randn(5, 16)
        table[1] = 0.25
        packed = getattr(ops, f"{word}_prepack")(table, optimized)
        rows = getattr(ops, f"{word}_unpack")(packed)
        indices = t.tensor([0, 1, 4, 1, 2], dtype=t.int32)
        offsets = t.tensor([0, 2, 2], dtype=t.int32)
        sums = getattr(ops, f"{word}_rowwise_offsets")(packed, indices, offsets)
        return packed, rows, sums

    alike(program)


def test_columns_that_do_not_fill_bytes_are_refused():
    for bits, columns in ((4, 5), (2, 6)):
        name = f"embedding_bag_{bits}bit_prepack"
        for t in (rl, torch):
            with pytest.raises(RuntimeError, match="number of columns a multiple of"):
                getattr(t.ops.quantized, name)(t.ones(2, columns))


def test_tensors_of_four_bits_have_two_integers_in_a_byte():
    def program(t):
        x = t.randn(3, 5)
        scales, points = t.rand(3) + 0.1, t.rand(3) * 8
        by_row = t.quantize_per_channel(x, scales, points, 0, t.quint4x2)
        whole = t.quantize_per_tensor(x, 0.2, 3, t.quint4x2)
        assert str(by_row.dtype).endswith("quint4x2") and by_row.shape == (3, 5)
        found = [by_row.int_repr(), by_row.dequantize(), whole.int_repr()]
        found += [whole.dequantize(), by_row.q_per_channel_zero_points()]
        with pytest.raises(NotImplementedError, match="per_channel_affine.*QUInt4x2"):
            t.quantize_per_channel(x, scales, points.long(), 0, t.quint4x2)
        return found

    alike(program)


@pytest.mark.parametrize("kind", ["Embedding", "EmbeddingBag"])
def test_modules_of_tables_have_four_bits(kind):
    def program(t):
        q = t.ao.quantization
        settings = {"mode": "sum"} if kind == "EmbeddingBag" else {}
        model = t.nn.Sequential(getattr(t.nn, kind)(10, 12, **settings))
        model.qconfig = q.float_qparams_weight_only_qconfig_4bit
        made = q.convert(q.prepare(model))
        assert str(made[0].weight().dtype).endswith("quint4x2")
        indices = t.tensor([[1, 2, 4], [5, 4, 3]])
        other = getattr(t.ao.nn.quantized, kind)(10, 12, dtype=t.quint4x2)
        other.load_state_dict(made[0].state_dict())
        # PyTorch's converted Embedding forgets its type and reads bytes
        found = [made(indices)] if settings else []
        return *found, other(indices), made[0].weight().int_repr()

    alike(program)
