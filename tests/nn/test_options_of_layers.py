"""Options of layers that few programs give, beside PyTorch's."""

import importlib

import pytest

import rushlight as rl

torch = pytest.importorskip("torch", reason="the oracle is not installed")


def drawn(m, *sizes):
    m.manual_seed(0)
    return m.randn(*sizes)


def filled(m, module):
    for at, (_, each) in enumerate(sorted(module.state_dict().items())):
        if each.is_floating_point():
            each.copy_(m.arange(float(each.numel())).reshape(each.shape).add(at).cos())
    return module.eval()


def folded(m, kind, bias):
    """A convolution with the norm behind it folded into its weights, and the two."""
    fusion = importlib.import_module(f"{m.__name__}.nn.utils.fusion")
    conv = filled(m, getattr(m.nn, kind)(2, 3, 3, bias=bias))
    norm = filled(m, m.nn.BatchNorm2d(3))
    norm.running_var.abs_().add_(0.5)
    x = drawn(m, 1, 2, 5, 5)
    one = fusion.fuse_conv_bn_eval(conv, norm, transpose="Transpose" in kind)
    found, expected = one(x), norm(conv(x))
    assert m.allclose(found, expected, atol=1e-5)
    return found


def decoded(m, **options):
    layer = filled(m, m.nn.TransformerDecoderLayer(4, 2, 8, batch_first=True))
    target, memory = drawn(m, 2, 3, 4), drawn(m, 2, 5, 4)
    mask = m.nn.Transformer.generate_square_subsequent_mask
    masks = {"tgt_mask": mask(3), "memory_mask": m.ones(3, 5).triu(1).bool()}
    stack = filled(m, m.nn.TransformerDecoder(layer, 2))
    return stack(target, memory, **masks, **options)


def padded_to(m, total):
    rnn = m.nn.utils.rnn
    packed = rnn.pack_padded_sequence(drawn(m, 4, 2, 3), [3, 2])
    return rnn.pad_packed_sequence(packed, total_length=total, padding_value=-1.0)[0]


PROGRAMS = {
    **{
        f"{kind} with bias {bias}": lambda m, kind=kind, bias=bias: folded(
            m, kind, bias
        )
        for kind in ("Conv2d", "ConvTranspose2d")
        for bias in (True, False)
    },
    "decoder": decoded,
    "a causal target": lambda m: decoded(m, tgt_is_causal=True),
    "no causal memory": lambda m: decoded(m, memory_is_causal=False),
    "padded to its length": lambda m: padded_to(m, None),
    "padded to six": lambda m: padded_to(m, 6),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_options_of_layers_have_pytorchs_values(name):
    with rl.no_grad(), torch.no_grad():
        ours, theirs = PROGRAMS[name](rl), PROGRAMS[name](torch)
    assert ours.shape == theirs.shape
    assert ours.flatten().tolist() == pytest.approx(theirs.flatten().tolist(), abs=1e-5)


def test_a_length_below_that_of_the_sequences_is_refused():
    with pytest.raises(ValueError, match="total_length to be at least"):
        padded_to(rl, 2)
