"""Products with weights of eight and of four bits have PyTorch's numbers and errors."""

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

TYPES = ("float32", "bfloat16", "float16")
# rows, depth, columns, group: whole blocks of 64 columns, what is left over, many rows
SIZES = [
    (1, 64, 64, 32),
    (3, 256, 128, 64),
    (5, 128, 80, 128),
    (20, 128, 48, 32),
    (1, 96, 112, 32),
    (7, 512, 192, 256),
    (100, 64, 80, 32),
    (120, 128, 128, 64),
    (13, 96, 64, 32),
    (6, 64, 128, 32),
]
CLOSE = {"float32": 3e-6, "bfloat16": 8e-3, "float16": 1e-3}


def both(array, dtype):
    return (
        rl.tensor(array).to(getattr(rl, dtype)),
        torch.tensor(array).to(getattr(torch, dtype)),
    )


def far(ours, theirs):
    """How far two results are apart, as a part of the largest number."""
    wanted = theirs.float().numpy()
    return np.abs(ours.float().numpy() - wanted).max() / max(np.abs(wanted).max(), 1e-6)


def test_half_bytes_are_packed_as_in_pytorch():
    if torch.backends.cpu.get_cpu_capability() != "AVX512":
        pytest.skip("PyTorch packs blocks of another width on this processor")
    draw = np.random.default_rng(0)
    for columns, depth in ((16, 2), (64, 32), (80, 64), (112, 6), (192, 128)):
        q = draw.integers(0, 16, (columns, depth)).astype("int32")
        ours = rl._convert_weight_to_int4pack_for_cpu(rl.tensor(q), 1)
        theirs = torch._convert_weight_to_int4pack_for_cpu(torch.tensor(q), 1)
        assert ours.dtype is rl.uint8
        assert np.array_equal(ours.numpy(), theirs.numpy()), (columns, depth)


def test_products_with_half_bytes_have_the_same_numbers():
    draw = np.random.default_rng(1)
    for dtype in TYPES:
        for rows, depth, columns, group in SIZES:
            q = draw.integers(0, 16, (columns, depth)).astype("int32")
            pairs = 0.1 * draw.standard_normal((depth // group, columns, 2))
            x, their_x = both(draw.standard_normal((rows, depth)).astype("f4"), dtype)
            pairs, their_pairs = both(pairs.astype("f4"), dtype)
            ours = rl._weight_int4pack_mm_for_cpu(
                x, rl._convert_weight_to_int4pack_for_cpu(rl.tensor(q), 1), group, pairs
            )
            packed = torch._convert_weight_to_int4pack_for_cpu(torch.tensor(q), 1)
            theirs = torch._weight_int4pack_mm_for_cpu(
                their_x, packed, group, their_pairs
            )
            assert far(ours, theirs) < CLOSE[dtype], (dtype, rows, depth, columns)


def test_products_with_bytes_have_the_same_numbers():
    draw = np.random.default_rng(2)
    for dtype in TYPES:
        for rows, depth, columns in (
            (1, 64, 32),
            (4, 128, 64),
            (8, 96, 32),
            (40, 96, 64),
        ):
            q = draw.integers(-128, 128, (columns, depth)).astype("int8")
            x, their_x = both(draw.standard_normal((rows, depth)).astype("f4"), dtype)
            scales, their_scales = both(draw.random(columns).astype("f4"), dtype)
            ours = rl._weight_int8pack_mm(x, rl.tensor(q), scales)
            if dtype == "bfloat16":  # whose kernel may end the process
                theirs = their_x.float() @ torch.tensor(q).float().t()
                theirs = (theirs * their_scales.float()).bfloat16()
            else:
                theirs = torch._weight_int8pack_mm(
                    their_x, torch.tensor(q), their_scales
                )
            assert ours.dtype is x.dtype
            assert far(ours, theirs) < CLOSE[dtype], (dtype, rows, depth, columns)


def test_bytes_of_any_number_of_rows_and_places_are_multiplied():
    rl.manual_seed(0)
    for rows, depth, columns in ((1, 1, 1), (3, 70, 5), (6, 129, 33), (2, 0, 3)):
        q = rl.randint(-128, 128, (columns, depth), dtype=rl.int8)
        x, scales = rl.randn(rows, depth), rl.rand(columns)
        wanted = (x @ q.float().t()) * scales
        assert rl.allclose(rl._weight_int8pack_mm(x, q, scales), wanted, atol=1e-3)


def wrong_calls(t):
    x, q = t.ones(3, 64), t.ones(64, 64, dtype=t.int32)
    pack = t._convert_weight_to_int4pack_for_cpu
    packed, pairs = pack(q, 1), t.ones(2, 64, 2)
    four, eight = t._weight_int4pack_mm_for_cpu, t._weight_int8pack_mm
    small, scales = t.ones(8, 64, dtype=t.int8), t.ones(8)
    return [
        lambda: pack(q[:10], 1),
        lambda: pack(q.long(), 1),
        lambda: pack(q[:, :7].contiguous(), 1),
        lambda: pack(q[None], 1),
        lambda: four(x, packed, 32, pairs.bfloat16()),
        lambda: four(x, packed, 33, pairs),
        lambda: four(x[:, :32].contiguous(), packed, 32, pairs),
        lambda: four(x.double(), packed, 32, pairs.double()),
        lambda: four(x, packed.int(), 32, pairs),
        lambda: four(x, packed, 256, pairs[:1].contiguous()),
        lambda: eight(x[:, :32].contiguous(), small, scales),
        lambda: eight(x, small.int(), scales),
        lambda: eight(x, small, scales[:3]),
        lambda: eight(x.double(), small, scales.double()),
    ]


def test_wrong_calls_are_refused_in_the_same_words():
    for i, calls in enumerate(zip(wrong_calls(rl), wrong_calls(torch))):
        told = []
        for call in calls:
            with pytest.raises(RuntimeError) as caught:
                call()
            told.append(str(caught.value).splitlines()[0][:40])
        assert told[0] == told[1], i
