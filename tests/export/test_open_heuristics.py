"""Sizes that stay open are asked by no choice of a kernel; what is taken out stays whole."""

import rushlight as rl
from rushlight import nn
from rushlight.export import Dim, default_decompositions, export
from rushlight.operators import call


def targets(program):
    return [str(one.target) for one in program.graph.nodes if one.op == "call_function"]


def test_attention_asks_no_length_how_fast_it_is():
    class Attends(nn.Module):
        def forward(self, x):
            return nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)

    program = export(
        Attends(), (rl.randn(2, 2, 8, 4),), dynamic_shapes=({2: Dim("length")},)
    )
    for length in (3, 20, 70):
        x = rl.randn(2, 2, length, 4)
        assert (program.module()(x) - Attends()(x)).abs().max() < 1e-5


def test_an_encoder_asks_no_batch_how_fast_it_is():
    model = nn.TransformerEncoderLayer(16, 2, 32).eval()
    program = export(
        model, (rl.randn(4, 3, 16),), dynamic_shapes=({0: Dim("n"), 1: Dim("m")},)
    )
    x = rl.randn(90, 2, 16)
    assert (program.module()(x) - model(x)).abs().max() < 1e-5


def test_recurrent_networks_take_lengths_that_stay_open():
    for kind in ("LSTM", "GRU", "RNN"):
        model = getattr(nn, kind)(3, 4, num_layers=2, bidirectional=True)
        program = export(model, (rl.randn(5, 2, 3),), dynamic_shapes=({0: Dim("t")},))
        x = rl.randn(9, 2, 3)
        assert (program.module()(x)[0] - model(x)[0]).abs().max() < 1e-6


def test_interpolate_and_broadcast_shapes_keep_sizes_open():
    class Resized(nn.Module):
        def forward(self, x, y):
            sizes = rl.broadcast_shapes(x.shape[:1], (1,))
            return nn.functional.interpolate(x, size=y.shape[2:]).expand(
                *sizes, -1, -1, -1
            )

    image = rl.randn(2, 1, 4, 4)
    rows = {0: Dim("n")}
    shapes = (rows, {**rows, 2: Dim("h"), 3: Dim("w")})
    program = export(Resized(), (image, rl.randn(2, 1, 8, 8)), dynamic_shapes=shapes)
    given = rl.randn(3, 1, 4, 4), rl.randn(3, 1, 5, 9)
    assert program.module()(*given).shape == (3, 1, 5, 9)


def test_a_size_that_is_a_multiple_is_solved_when_a_program_is_taken_apart():
    class Doubled(nn.Module):
        def forward(self, x):
            return x.reshape(2, -1), rl.zeros(x.shape[0] // 2)

    shapes = ({0: 2 * Dim("n", max=50)},)
    program = export(
        Doubled(), (rl.randn(6),), dynamic_shapes=shapes
    ).run_decompositions()
    made, zeros = program.module()(rl.randn(10))
    assert made.shape == (2, 5) and zeros.shape == (5,)


def test_an_operator_that_is_taken_out_of_the_table_stays_whole():
    model = nn.Sequential(nn.Linear(3, 4), nn.SiLU(), nn.LayerNorm(4))
    table = default_decompositions()
    for packet in (call.linear, call.silu, call.layer_norm):
        for op in packet.overloads:
            table.pop(op)
    program = export(model, (rl.ones(2, 3),)).run_decompositions(table)
    assert targets(program) == [
        "aten.linear.default", "aten.silu.default", "aten.layer_norm.default",
    ]  # fmt: skip
    x = rl.randn(2, 3)
    assert (program.module()(x) - model(x)).abs().max() < 1e-6


def test_a_window_on_memory_that_is_written_is_not_kept_whole():
    class Writes(nn.Module):
        def forward(self, x):
            y = x.clone()
            y.reshape(-1).add_(1)
            return y

    table = default_decompositions()
    for op in call.reshape.overloads:
        table.pop(op)
    program = export(Writes(), (rl.ones(2, 3),)).run_decompositions(table)
    assert program.module()(rl.ones(2, 3)).tolist() == [[2.0] * 3] * 2


def test_recurrent_networks_are_taken_apart_with_an_open_batch():
    model = nn.LSTM(3, 4, batch_first=True)
    shapes = ({0: Dim("n")},)
    program = export(model, (rl.randn(2, 5, 3),), dynamic_shapes=shapes)
    program = program.run_decompositions()
    x = rl.randn(4, 5, 3)
    assert (program.module()(x)[0] - model(x)[0]).abs().max() < 1e-6
