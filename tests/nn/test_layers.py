"""Every layer against the oracle: text, state, values and gradients."""

from __future__ import annotations

import pytest

# name, positional arguments, keyword arguments, shapes of the inputs
LAYERS = [
    ("Identity", (), {}, [(2, 3)]),
    ("Linear", (4, 3), {}, [(5, 4)]),
    ("Linear", (4, 3), {"bias": False}, [(2, 5, 4)]),
    ("Bilinear", (3, 4, 2), {}, [(5, 3), (5, 4)]),
    ("Bilinear", (3, 4, 2), {"bias": False}, [(2, 5, 3), (2, 5, 4)]),
    ("Conv1d", (4, 6, 3), {"padding": 1, "stride": 2}, [(2, 4, 9)]),
    ("Conv2d", (1, 6, 5), {"padding": 2}, [(2, 1, 8, 8)]),
    (
        "Conv2d",
        (4, 6, (3, 2)),
        {"stride": (2, 1), "groups": 2, "dilation": 2},
        [(2, 4, 9, 8)],
    ),
    ("Conv2d", (2, 3, 3), {"padding": "same", "bias": False}, [(2, 2, 5, 5)]),
    ("Conv2d", (2, 3, 3), {"padding": 1, "padding_mode": "circular"}, [(2, 2, 5, 5)]),
    ("Conv2d", (2, 3, 3), {"padding": 1, "padding_mode": "reflect"}, [(2, 2, 5, 5)]),
    ("Conv3d", (2, 3, 2), {}, [(1, 2, 4, 4, 4)]),
    ("ConvTranspose1d", (3, 2, 3), {"stride": 2}, [(2, 3, 5)]),
    (
        "ConvTranspose2d",
        (3, 2, 3),
        {"stride": 2, "padding": 1, "output_padding": 1},
        [(2, 3, 4, 4)],
    ),
    ("ConvTranspose3d", (2, 2, 2), {}, [(1, 2, 3, 3, 3)]),
    ("BatchNorm1d", (4,), {}, [(6, 4)]),
    ("BatchNorm1d", (4,), {"affine": False}, [(6, 4, 3)]),
    ("BatchNorm2d", (3,), {"momentum": None}, [(4, 3, 5, 5)]),
    ("BatchNorm2d", (3,), {"track_running_stats": False}, [(4, 3, 5, 5)]),
    ("BatchNorm3d", (2,), {"eps": 1e-3}, [(3, 2, 2, 2, 2)]),
    ("InstanceNorm1d", (3,), {}, [(2, 3, 6)]),
    (
        "InstanceNorm2d",
        (3,),
        {"affine": True, "track_running_stats": True},
        [(2, 3, 4, 4)],
    ),
    ("InstanceNorm3d", (2,), {}, [(2, 2, 3, 3, 3)]),
    ("LayerNorm", (5,), {}, [(3, 5)]),
    ("LayerNorm", ((2, 5),), {"bias": False}, [(3, 2, 5)]),
    ("LayerNorm", (5,), {"elementwise_affine": False}, [(3, 5)]),
    ("GroupNorm", (2, 4), {}, [(3, 4, 5)]),
    ("GroupNorm", (4, 4), {"affine": False}, [(3, 4, 5, 2)]),
    ("RMSNorm", (5,), {}, [(3, 5)]),
    ("RMSNorm", ((2, 5),), {"eps": 1e-3, "elementwise_affine": False}, [(3, 2, 5)]),
    ("LocalResponseNorm", (3,), {}, [(2, 5, 4, 4)]),
    ("Dropout", (), {"p": 0.3}, [(20, 10)]),
    ("Dropout", (), {"inplace": False, "p": 0.0}, [(4, 4)]),
    ("Dropout1d", (), {}, [(4, 5, 6)]),
    ("Dropout2d", (), {}, [(4, 5, 3, 3)]),
    ("Dropout3d", (), {}, [(2, 5, 3, 3, 2)]),
    ("AlphaDropout", (), {"p": 0.4}, [(20, 10)]),
    ("FeatureAlphaDropout", (), {"p": 0.4}, [(4, 10, 3)]),
    ("MaxPool1d", (2,), {}, [(2, 3, 8)]),
    ("MaxPool2d", (2,), {}, [(2, 3, 8, 8)]),
    ("MaxPool2d", (3,), {"stride": 2, "padding": 1, "ceil_mode": True}, [(2, 3, 8, 8)]),
    ("MaxPool2d", (2,), {"return_indices": True}, [(2, 3, 6, 6)]),
    ("MaxPool3d", (2,), {}, [(1, 2, 4, 4, 4)]),
    ("AvgPool1d", (3,), {"stride": 2, "padding": 1}, [(2, 3, 8)]),
    ("AvgPool2d", (2,), {}, [(2, 3, 8, 8)]),
    (
        "AvgPool2d",
        (3,),
        {"stride": 2, "padding": 1, "count_include_pad": False},
        [(2, 3, 7, 7)],
    ),
    ("AvgPool3d", (2,), {}, [(1, 2, 4, 4, 4)]),
    ("AdaptiveAvgPool1d", (3,), {}, [(2, 3, 8)]),
    ("AdaptiveAvgPool2d", ((1, None),), {}, [(2, 3, 8, 7)]),
    ("AdaptiveAvgPool3d", (2,), {}, [(1, 2, 5, 5, 5)]),
    ("AdaptiveMaxPool1d", (3,), {}, [(2, 3, 8)]),
    ("AdaptiveMaxPool2d", ((2, 3),), {"return_indices": True}, [(2, 3, 8, 7)]),
    ("LPPool1d", (2, 3), {}, [(2, 3, 9)]),
    ("LPPool2d", (2, 2), {"stride": 1}, [(2, 3, 5, 5)]),
    ("Flatten", (), {}, [(2, 3, 4)]),
    ("Unflatten", (1, (2, 3)), {}, [(4, 6)]),
    ("Fold", ((4, 5), (2, 2)), {}, [(2, 12, 12)]),
    ("Unfold", ((2, 3),), {"stride": 2, "padding": 1}, [(2, 3, 5, 6)]),
    ("PixelShuffle", (2,), {}, [(2, 8, 3, 3)]),
    ("PixelUnshuffle", (2,), {}, [(2, 2, 4, 6)]),
    ("ChannelShuffle", (2,), {}, [(2, 4, 3, 3)]),
    ("CosineSimilarity", (), {"dim": 1}, [(3, 4), (3, 4)]),
    ("PairwiseDistance", (), {"p": 1.0, "keepdim": True}, [(3, 4), (3, 4)]),
    ("Upsample", (), {"scale_factor": 2}, [(1, 2, 3, 3)]),
    ("Upsample", (), {"size": (5, 7), "mode": "bilinear"}, [(1, 2, 3, 3)]),
    ("Upsample", (), {"scale_factor": 1.5, "mode": "bicubic"}, [(1, 2, 4, 4)]),
    ("UpsamplingBilinear2d", (), {"scale_factor": 2}, [(1, 2, 3, 3)]),
    ("UpsamplingNearest2d", (), {"size": 5}, [(1, 2, 3, 3)]),
    ("ConstantPad1d", ((1, 2), 3.5), {}, [(2, 3, 4)]),
    ("ConstantPad2d", (-1, 0.5), {}, [(2, 3, 4, 5)]),
    ("ZeroPad2d", ((1, 0, 2, 1),), {}, [(2, 3, 4, 5)]),
    ("ReflectionPad1d", (2,), {}, [(2, 3, 4)]),
    ("ReflectionPad2d", ((1, 2, 0, 1),), {}, [(2, 3, 4, 5)]),
    ("ReplicationPad2d", (1,), {}, [(2, 3, 4, 5)]),
    ("ReplicationPad3d", (1,), {}, [(1, 2, 3, 3, 3)]),
    ("CircularPad2d", (1,), {}, [(2, 3, 4, 5)]),
    ("RNN", (3, 4), {"num_layers": 2}, [(5, 2, 3)]),
    ("RNN", (3, 4), {"nonlinearity": "relu", "batch_first": True}, [(2, 5, 3)]),
    ("LSTM", (3, 4), {"num_layers": 2, "bidirectional": True}, [(5, 2, 3)]),
    ("LSTM", (3, 4), {"proj_size": 2, "bias": False}, [(5, 2, 3)]),
    ("LSTM", (3, 4), {}, [(5, 3)]),
    ("GRU", (3, 4), {"bidirectional": True}, [(5, 2, 3)]),
    ("RNNCell", (3, 4), {}, [(2, 3), (2, 4)]),
    ("GRUCell", (3, 4), {"bias": False}, [(2, 3), (2, 4)]),
    ("LSTMCell", (3, 4), {}, [(2, 3)]),
    ("MultiheadAttention", (6, 2), {}, [(4, 2, 6), (5, 2, 6), (5, 2, 6)]),
    (
        "MultiheadAttention",
        (6, 2),
        {"batch_first": True, "kdim": 4, "vdim": 3},
        [(2, 4, 6), (2, 5, 4), (2, 5, 3)],
    ),
    (
        "MultiheadAttention",
        (6, 2),
        {"add_bias_kv": True, "add_zero_attn": True},
        [(4, 2, 6), (5, 2, 6), (5, 2, 6)],
    ),
    ("TransformerEncoderLayer", (6, 2, 8), {"dropout": 0.0}, [(4, 2, 6)]),
    (
        "TransformerDecoderLayer",
        (6, 2, 8),
        {"dropout": 0.0, "norm_first": True},
        [(4, 2, 6), (5, 2, 6)],
    ),
    (
        "Transformer",
        (6, 2, 1, 1, 8, 0.0),
        {"batch_first": True},
        [(2, 4, 6), (2, 5, 6)],
    ),
]
ACTIVATIONS = [
    ("ReLU", {}),
    ("ReLU6", {}),
    ("LeakyReLU", {"negative_slope": 0.2}),
    ("PReLU", {}),
    ("PReLU", {"num_parameters": 3}),
    ("ELU", {"alpha": 1.5}),
    ("SELU", {}),
    ("CELU", {"alpha": 0.7}),
    ("GELU", {}),
    ("GELU", {"approximate": "tanh"}),
    ("SiLU", {}),
    ("Mish", {}),
    ("Sigmoid", {}),
    ("Tanh", {}),
    ("Hardtanh", {"min_val": -0.5, "max_val": 0.7}),
    ("Hardswish", {}),
    ("Hardsigmoid", {}),
    ("Softplus", {"beta": 2.0, "threshold": 1.0}),
    ("Softsign", {}),
    ("Softmax", {"dim": 1}),
    ("LogSoftmax", {"dim": -1}),
    ("Softmin", {"dim": 0}),
    ("Threshold", {"threshold": 0.1, "value": -2.0}),
    ("LogSigmoid", {}),
    ("Tanhshrink", {}),
    ("Softshrink", {"lambd": 0.3}),
    ("Hardshrink", {}),
    ("RReLU", {"lower": 0.25, "upper": 0.25}),
]


def _label(row):
    options = ", ".join(f"{key}={value}" for key, value in row[-2].items())
    return f"{row[0]}({', '.join(map(str, row[1]))} {options})"


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize("row", LAYERS, ids=_label)
def test_layer_equals_the_oracle_in_text_state_values_and_gradients(torch, pair, row):
    name, args, kwargs, shapes = row
    both = pair(name, *args, **kwargs)
    both.assert_same_text_and_state()
    torch.manual_seed(3)
    both.assert_same_results(*[torch.randn(shape) for shape in shapes])


@pytest.mark.parametrize("name, options", ACTIVATIONS, ids=str)
def test_activation_equals_the_oracle(torch, pair, name, options):
    both = pair(name, **options)
    both.assert_same_text_and_state()
    torch.manual_seed(3)
    both.assert_same_results(2 * torch.randn(4, 3, 5))


@pytest.mark.parametrize(
    "name",
    [
        "ReLU",
        "ReLU6",
        "ELU",
        "SELU",
        "CELU",
        "SiLU",
        "Mish",
        "LeakyReLU",
        "Hardtanh",
        "Dropout",
    ],
)
def test_inplace_activations_change_their_input_and_print_so(torch, pair, name):
    both = pair(name, inplace=True)
    both.assert_same_text_and_state()
    values = torch.randn(4, 3)
    ours, theirs = both.here(values), values.clone()
    both.ours.eval()
    both.theirs.eval()
    assert both.ours(ours) is ours
    both.theirs(theirs)
    torch.testing.assert_close(both.there(ours), theirs)


def test_glu_halves_a_dimension(torch, pair):
    both = pair("GLU", dim=1)
    both.assert_same_text_and_state()
    both.assert_same_results(torch.randn(3, 4, 2))


def test_softmax2d_works_over_the_channels(torch, pair):
    pair("Softmax2d").assert_same_results(torch.randn(2, 3, 4, 4))


def test_dropout_does_nothing_in_evaluation(torch, pair):
    both = pair("Dropout", 0.5)
    both.ours.eval()
    both.theirs.eval()
    both.assert_same_results(torch.randn(3, 3))


def test_batch_norm_uses_running_statistics_in_evaluation(torch, pair):
    both = pair("BatchNorm2d", 3)
    both.assert_same_results(torch.randn(4, 3, 5, 5))
    both.ours.eval()
    both.theirs.eval()
    both.ours.zero_grad()
    both.theirs.zero_grad()
    both.assert_same_results(torch.randn(4, 3, 5, 5))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"padding_idx": 1},
        {"padding_idx": -1},
        {"max_norm": 1.0},
        {"scale_grad_by_freq": True},
    ],
    ids=str,
)
def test_embedding_equals_the_oracle(torch, pair, options):
    both = pair("Embedding", 7, 4, **options)
    both.assert_same_text_and_state()
    both.assert_same_results(torch.tensor([[1, 2, 2], [0, 6, 1]]))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bag_equals_the_oracle(torch, pair, mode):
    both = pair("EmbeddingBag", 7, 4, mode=mode)
    both.assert_same_text_and_state()
    both.assert_same_results(torch.tensor([[1, 2, 2], [0, 6, 1]]))
    both.ours.zero_grad()
    both.theirs.zero_grad()
    both.assert_same_results(torch.tensor([1, 2, 2, 0, 6]), torch.tensor([0, 2, 2]))


def test_max_unpool_puts_values_back(torch, pair):
    pool = pair("MaxPool2d", 2, return_indices=True)
    unpool = pair("MaxUnpool2d", 2)
    unpool.assert_same_text_and_state()
    values, indices = pool.theirs(torch.randn(2, 3, 6, 6))
    unpool.assert_same_results(values, indices)


def test_transposed_convolution_reaches_the_size_asked_for(torch, pair):
    both = pair("ConvTranspose2d", 2, 3, 3, stride=2)
    both.assert_same_results(torch.randn(1, 2, 4, 4), output_size=[10, 9])
    message = "requested an output size of"
    for module, values in (
        (both.ours, both.here(torch.randn(1, 2, 4, 4))),
        (both.theirs, torch.randn(1, 2, 4, 4)),
    ):
        with pytest.raises(ValueError, match=message):
            module(values, output_size=[30, 9])


def test_attention_obeys_masks(torch, pair):
    both = pair("MultiheadAttention", 6, 2)
    x = torch.randn(4, 2, 6)
    hidden = torch.tensor([[False, False, True, True], [False, False, False, True]])
    both.assert_same_results(x, x, x, key_padding_mask=hidden)
    later = torch.ones(4, 4, dtype=torch.bool).triu(1)
    both.ours.zero_grad()
    both.theirs.zero_grad()
    both.assert_same_results(x, x, x, attn_mask=later, average_attn_weights=False)


def test_recurrent_networks_take_packed_sequences(torch):
    import rushlight as rl
    from rushlight import nn
    from rushlight.nn.utils import rnn

    torch.manual_seed(5)
    theirs = torch.nn.LSTM(3, 4, bidirectional=True)
    rl.manual_seed(5)
    ours = nn.LSTM(3, 4, bidirectional=True)
    x, lengths = torch.randn(5, 3, 3), [3, 5, 2]
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
    out, state = theirs(packed)
    expected, _ = torch.nn.utils.rnn.pad_packed_sequence(out)
    packed = rnn.pack_padded_sequence(
        rl.from_numpy(x.numpy()), lengths, enforce_sorted=False
    )
    out, (hidden, _) = ours(packed)
    found, found_lengths = rnn.pad_packed_sequence(out)
    assert found_lengths.tolist() == lengths
    torch.testing.assert_close(torch.tensor(found.tolist()), expected.detach())
    torch.testing.assert_close(torch.tensor(hidden.tolist()), state[0].detach())
