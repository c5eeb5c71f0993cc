"""What is left out of a call is what PyTorch takes there, for every operator."""

import pytest

import rushlight as rl

torch = pytest.importorskip("torch", reason="the oracle is not installed")

# Given by the names of types and formats, which schemas number otherwise.
NAMED = {"dtype", "memory_format"}


def default_of(argument):
    return argument.default_value if argument.has_default_value() else None


def spelled(value, like):
    """A default as the oracle spells it: lists, each of a list's equal numbers."""
    if isinstance(like, list) and isinstance(value, (int, float)):
        return [value] * len(like)
    return list(value) if isinstance(value, tuple) else value


def test_defaults_of_every_schema_are_the_oracles():
    compared, wrong = 0, []
    for schema in torch._C._jit_get_all_schemas():
        name = schema.name.removeprefix("aten::")
        packet = getattr(rl.ops.aten, name, None) if "::" not in name else None
        try:
            own = getattr(packet, schema.overload_name or "default")._schema
        except AttributeError:
            continue
        if own.overload_name != schema.overload_name:
            continue
        mine = {argument.name: argument for argument in own.arguments}
        for argument in schema.arguments:
            other = mine.get(argument.name)
            if other is None or argument.name in NAMED:
                continue
            if argument.has_default_value() and other.has_default_value():
                compared += 1
                want = default_of(argument)
                got = spelled(default_of(other), want)
                if repr(got) != repr(want):
                    wrong.append((schema.name, argument.name, want, got))
    assert not wrong
    assert compared > 1200


a = torch.tensor([[0.2, 0.7, 0.9], [0.6, 0.1, 0.4]])
target, signs = torch.tensor([1, 0]), torch.tensor([1.0, -1.0])
LENGTHS = torch.tensor([5, 5]), torch.tensor([2, 2])
LOSSES = {
    "kl_div": (a, a),
    "hinge_embedding_loss": (a, a),
    "binary_cross_entropy_with_logits": (a, a),
    "cosine_embedding_loss": (a, a, signs),
    "margin_ranking_loss": (a, a, a),
    "triplet_margin_loss": (a, a, a),
    "ctc_loss": (torch.zeros(5, 2, 4), torch.ones(2, 2, dtype=torch.long), *LENGTHS),
    "_nn.mse_loss": (a, a),
    "_nn.l1_loss": (a, a),
    "_nn.smooth_l1_loss": (a, a),
    "_nn.huber_loss": (a, a),
    "_nn.binary_cross_entropy": (a, a),
    "_nn.soft_margin_loss": (a, a),
    "_nn.nll_loss": (a, target),
    "_nn.nll_loss_nd": (a, target),
    "_nn.cross_entropy_loss": (a, target),
    "_nn.multi_margin_loss": (a, target),
    "_nn.multilabel_margin_loss": (a, target.expand(3, 2).T.contiguous()),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses_without_a_reduction_are_those_of_the_oracles_functions(name):
    def called(module, operands):
        home = module._C._nn if name.startswith("_nn.") else module
        return getattr(home, name.removeprefix("_nn."))(*operands)

    want = called(torch, LOSSES[name])
    got = called(rl, [rl.from_numpy(operand.numpy()) for operand in LOSSES[name]])
    assert tuple(got.shape) == tuple(want.shape)
    numbers = want.flatten().tolist()
    assert got.flatten().tolist() == pytest.approx(numbers, rel=1e-5, abs=1e-6)


def test_the_operators_themselves_reduce_by_the_mean():
    x = rl.tensor([[0.2, 0.7]])
    assert rl.ops.aten.kl_div(x, x).shape == ()
    assert rl.ops.aten.kl_div.default(x, x).shape == ()
