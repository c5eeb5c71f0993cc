"""Gradients for each sample of a batch are those of the samples alone, and PyTorch's."""

import pytest

import rushlight

torch = pytest.importorskip("torch")

LAYERS = {
    "linear": lambda nn: nn.Linear(4, 3),
    "linear without a bias": lambda nn: nn.Linear(4, 3, bias=False),
    "convolution": lambda nn: nn.Conv2d(2, 4, 3, padding=1, groups=2),
    "convolution of lines": lambda nn: nn.Conv1d(2, 3, 3, padding="same"),
    "layer norm": lambda nn: nn.LayerNorm(4),
    "group norm": lambda nn: nn.GroupNorm(2, 4),
    "instance norm": lambda nn: nn.InstanceNorm1d(4, affine=True),
    "embedding": lambda nn: nn.Embedding(5, 3),
    "a network": lambda nn: nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)),
}
SIZES = {
    "convolution": (3, 2, 5, 5),
    "convolution of lines": (3, 2, 5),
    "group norm": (3, 4, 5),
    "instance norm": (3, 4, 5),
}


def gradients(lib, name, reduction):
    """Of a layer whose weights are the same in both libraries."""
    call = lib.nn.utils._per_sample_grad.call_for_per_sample_grads
    layer = LAYERS[name](lib.nn)
    for number, parameter in enumerate(layer.parameters()):
        count = parameter.numel()
        values = lib.arange(float(count)).add(number).sin().reshape(parameter.shape)
        parameter.data.copy_(values)
    if name == "embedding":
        x = lib.tensor([[1, 2], [3, 2], [0, 1]])
    else:
        sizes = SIZES.get(name, (3, 4))
        x = lib.arange(float(torch.Size(sizes).numel())).cos().reshape(sizes)
        x.requires_grad_()
    loss = call(layer, loss_reduction=reduction)(x).pow(2)
    (loss.sum() if reduction == "sum" else loss.mean()).backward()
    found = [p.grad_sample.tolist() for p in layer.parameters()]
    assert all(p.grad is None for p in layer.parameters())
    return found, None if name == "embedding" else x.grad.tolist()


def close(a, b):
    return torch.allclose(torch.tensor(a), torch.tensor(b), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", LAYERS)
def test_each_sample_has_its_gradient(name):
    import torch.nn.utils._per_sample_grad

    import rushlight.nn.utils._per_sample_grad

    for reduction in ("sum", "mean"):
        ours, theirs = (gradients(lib, name, reduction) for lib in (rushlight, torch))
        assert all(close(a, b) for a, b in zip(ours[0], theirs[0], strict=True))
        assert ours[1] is None or close(ours[1], theirs[1])


def test_rows_of_padding_and_frequent_rows_are_those_of_the_samples_alone():
    from rushlight.nn.utils._per_sample_grad import call_for_per_sample_grads as call

    x = rushlight.tensor([[1, 2, 2], [3, 2, 1], [0, 1, 1]])
    for options in ({"padding_idx": 1}, {"scale_grad_by_freq": True}, {}):
        layer = rushlight.nn.Embedding(5, 3, **options)
        call(layer)(x).pow(2).sum().backward()
        for sample, found in zip(x, layer.weight.grad_sample):
            layer.weight.grad = None
            layer(sample[None]).pow(2).sum().backward()
            assert rushlight.allclose(found, layer.weight.grad)


def test_statistics_count_a_batch_once():
    from rushlight.nn.utils._per_sample_grad import call_for_per_sample_grads as call

    layer = rushlight.nn.InstanceNorm1d(2, affine=True, track_running_stats=True)
    other = rushlight.nn.InstanceNorm1d(2, affine=True, track_running_stats=True)
    x = rushlight.rand(3, 2, 4, requires_grad=True)
    call(layer)(x).sum().backward()
    other(x)
    assert rushlight.equal(layer.running_mean, other.running_mean)


def test_programs_name_functions_of_their_own():
    from rushlight.nn.utils._expanded_weights import expanded_weights_impl as impl

    def scaled(input, weight):
        if rushlight.overrides.has_torch_function((input, weight)):
            return rushlight.overrides.handle_torch_function(
                scaled, (input, weight), input, weight
            )
        return input * weight

    @impl.implements_per_sample_grads(scaled)
    class Scaled(rushlight.autograd.Function):
        @staticmethod
        def forward(ctx, names, func, input, weight):
            ctx.input, ctx.weight = input, weight
            return func(input, weight.orig_weight)

        @staticmethod
        def backward(ctx, grad):
            ctx.weight.orig_weight.grad_sample = ctx.input * grad
            return None, None, None, None

    weight = rushlight.nn.Parameter(rushlight.ones(2))
    x = rushlight.arange(6.0).view(3, 2)
    scaled(x, impl.ExpandedWeight(weight, 3, "sum")).sum().backward()
    del impl.HANDLED_FUNCTIONS[scaled]
    assert rushlight.equal(weight.grad_sample, x)


def test_what_cannot_be_told_apart_is_refused():
    from rushlight.nn.utils._per_sample_grad import call_for_per_sample_grads as call

    layer = rushlight.nn.Linear(4, 3)
    for wrong, words in (
        (lambda: call(3), "must be nn.Module, got int"),
        (lambda: call(layer, batch_size=2.5), "None or an integer, got float"),
        (lambda: call(layer, batch_size=0), "must be positive, got 0"),
        (lambda: call(layer, loss_reduction="x"), "sum or mean, got x"),
        (lambda: call(layer)(rushlight.ones(4)), "a batch dimension"),
        (
            lambda: call(layer, batch_size=2)(rushlight.ones(3, 4)),
            "batch size matching input",
        ),
        (lambda: call(layer)(), "determine the batch size"),
        (lambda: call(rushlight.nn.PReLU())(rushlight.ones(2, 2)), "cannot handle"),
    ):
        with pytest.raises(RuntimeError, match=words):
            wrong()
    call(layer)(rushlight.ones(2, 4)).sum().backward()
    with pytest.raises(RuntimeError, match="clear out the grad_sample"):
        call(layer)


def test_norms_of_rows_alone_have_gradients_of_each():
    layer = rushlight.nn.LayerNorm(3)
    x = rushlight.tensor([[1.0, 2.0, 4.0], [0.0, 1.0, -1.0]])
    from rushlight.nn.utils._per_sample_grad import call_for_per_sample_grads

    call_for_per_sample_grads(layer)(x).sum().backward()
    alone = []
    for row in x:
        layer.weight.grad = None
        layer(row).sum().backward()
        alone.append(layer.weight.grad.tolist())
    for ours, theirs in zip(layer.weight.grad_sample.tolist(), alone):
        assert ours == pytest.approx(theirs)
