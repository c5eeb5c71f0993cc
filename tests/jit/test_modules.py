"""The package's modules, translated: the same values, here and in PyTorch's hands."""

import io
import itertools
import re
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

import rushlight as rl
import rushlight as torch
from rushlight import nn, randn, tensor
from rushlight.fx.experimental.proxy_tensor import make_fx
from rushlight.jit import _modules
from rushlight.nn import functional


def windows():
    for count in (1, 2, 3):
        sizes = [8] * count
        for name, arguments in {
            "Conv": (3, 4, 3),
            "ConvTranspose": (3, 4, 3),
            "MaxPool": (2,),
            "AvgPool": (2,),
            "AdaptiveAvgPool": (2,),
            "AdaptiveMaxPool": (2,),
            "BatchNorm": (3,),
            "InstanceNorm": (3,),
            "ReflectionPad": (1,),
            "ReplicationPad": (1,),
            "CircularPad": (1,),
            "ConstantPad": (1, 2.0),
            "ZeroPad": (1,),
        }.items():
            yield getattr(nn, f"{name}{count}d")(*arguments), (randn(2, 3, *sizes),)
    image = randn(2, 3, 8, 8)
    yield nn.Conv2d(3, 4, 3, padding="same", padding_mode="circular"), (image,)
    yield nn.ConvTranspose2d(3, 4, 3, stride=2), (image, [18, 18])
    yield nn.Unfold(2), (image,)
    yield nn.Fold((4, 4), 2), (randn(1, 4, 9),)
    yield nn.Upsample(scale_factor=2), (image,)
    yield nn.Upsample(size=(5, 6), mode="bilinear"), (image,)
    yield nn.PixelShuffle(2), (randn(2, 4, 3, 3),)


def plain_ones():
    x = randn(2, 4, 6, 6)
    names = (
        "ReLU ReLU6 SELU SiLU Mish Hardswish Hardsigmoid ELU CELU LeakyReLU Hardtanh "
        "Sigmoid Tanh GELU Softplus Softshrink Hardshrink Softsign Tanhshrink LogSigmoid "
        "PReLU Identity Flatten Dropout Dropout2d AlphaDropout RReLU Softmax2d"
    )
    for name in names.split():
        yield getattr(nn, name)(), (x,)
    rows = randn(3, 4)
    yield nn.Linear(4, 5), (rows,)
    yield nn.LayerNorm(4), (rows,)
    yield nn.RMSNorm(4), (rows,)
    yield nn.GroupNorm(2, 4), (x,)
    yield nn.Softmax(1), (rows,)
    yield nn.LogSoftmax(1), (rows,)
    yield nn.Embedding(5, 3), (tensor([1, 2]),)
    yield nn.LocalResponseNorm(2), (x,)
    yield nn.Bilinear(2, 3, 4), (randn(5, 2), randn(5, 3))


def recurrent_and_attention():
    yield nn.LSTM(4, 5, 2, bidirectional=True), (randn(3, 2, 4),)
    state = (randn(1, 3, 3), randn(1, 3, 5))
    yield nn.LSTM(4, 5, batch_first=True, proj_size=3), (randn(3, 2, 4), state)
    yield nn.GRU(4, 5, 2), (randn(3, 2, 4),)
    yield nn.RNN(4, 5, nonlinearity="relu"), (randn(3, 2, 4), randn(1, 2, 5))
    yield nn.LSTMCell(3, 4), (randn(2, 3),)
    yield nn.GRUCell(3, 4), (randn(2, 3),)
    q, k = randn(3, 2, 8), randn(4, 2, 8)
    yield nn.MultiheadAttention(8, 2), (q, k, k)
    wide = nn.MultiheadAttention(
        8, 2, batch_first=True, kdim=6, vdim=7, add_bias_kv=True, add_zero_attn=True
    )
    yield wide, (randn(2, 3, 8), randn(2, 4, 6), randn(2, 4, 7))
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    yield nn.TransformerEncoder(layer, 2), (randn(2, 3, 8),)
    yield nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16), 2), (q, k)
    yield nn.Transformer(8, 2, 1, 1, 16), (q, k)


def losses():
    a, b = randn(3, 4), randn(3, 4)
    labels = tensor([1, 2, 0])
    yield nn.CrossEntropyLoss(label_smoothing=0.1), (a, labels)
    yield nn.NLLLoss(), (a, labels)
    for name in ("MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss"):
        yield getattr(nn, name)(), (a, b)
    yield nn.BCEWithLogitsLoss(), (a, b.sigmoid())
    yield nn.KLDivLoss(reduction="batchmean"), (a, b.sigmoid())
    yield nn.TripletMarginLoss(), (a, b, -a)


def unusual_pooling():
    for count in (1, 2, 3):
        x = randn(2, 3, *[6] * count)
        pooled = getattr(nn, f"MaxPool{count}d")(2, return_indices=True)(x)
        unpool = getattr(nn, f"MaxUnpool{count}d")(2)
        yield unpool, pooled
        yield unpool, (*pooled, [2, 3] + [7] * count)
        lp_pool = getattr(nn, f"LPPool{count}d")
        yield lp_pool(2, 2), (x,)
        yield lp_pool(1.5, 2, stride=1, ceil_mode=True), (x.abs(),)
    image, samples = randn(2, 3, 8, 8), rl.rand(2, 3, 2)
    yield nn.FractionalMaxPool2d(2, 3, _random_samples=samples), (image,)
    ratio = {"output_ratio": (0.5, 0.4), "return_indices": True}
    yield nn.FractionalMaxPool2d((2, 3), **ratio, _random_samples=samples), (image,)
    volume = randn(2, 3, 8, 8, 8)
    yield nn.FractionalMaxPool3d(2, 3, _random_samples=rl.rand(2, 3, 3)), (volume,)


def margins_and_bags():
    a, b, labels = randn(3, 4), randn(3, 4), tensor([1, 2, 0])
    yield nn.GaussianNLLLoss(full=True), (a, b, b.abs() + 0.1)
    yield nn.GaussianNLLLoss(reduction="sum"), (a, b, b.abs()[:, :1] + 0.1)
    yield nn.MultiLabelSoftMarginLoss(), (a, (b > 0).float())
    weighted = nn.MultiLabelSoftMarginLoss(weight=rl.rand(4), reduction="none")
    yield weighted, (a, (b > 0).float())
    classes = tensor([[1, -1, 0, 0], [0, 2, -1, 0], [3, -1, 1, 1]])
    yield nn.MultiLabelMarginLoss(), (a, classes)
    yield nn.MultiMarginLoss(p=2, weight=rl.rand(4), margin=0.5), (a, labels)
    chances, lengths = randn(10, 2, 5).log_softmax(2), tensor([10, 9])
    yield (
        nn.CTCLoss(),
        (chances, tensor([[1, 2, 3], [2, 2, 1]]), lengths, tensor([3, 2])),
    )
    whole = nn.CTCLoss(zero_infinity=True, reduction="none")
    yield whole, (chances, tensor([1, 2, 3, 2, 2]), lengths, tensor([3, 2]))
    rows = tensor([1, 2, 4, 3, 0, 2])
    yield nn.EmbeddingBag(6, 3), (rows, tensor([0, 2]))
    yield nn.EmbeddingBag(6, 3, mode="sum"), (rows.view(2, 3), None, rl.rand(2, 3))
    yield nn.EmbeddingBag(6, 3, mode="max", padding_idx=2), (rows.view(2, 3),)
    bounded = nn.EmbeddingBag(6, 3, max_norm=0.5, include_last_offset=True)
    yield bounded, (rows, tensor([0, 2, 6]))
    yield nn.RNNCell(3, 4), (randn(2, 3),)
    yield nn.RNNCell(3, 4, nonlinearity="relu", bias=False), (randn(3), randn(4))


def leaves(value):
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in leaves(item)]
    return [value]


def same(first, second):
    pairs = list(zip(leaves(first), leaves(second), strict=True))
    return all(
        (a is None) is (b is None) and (a is None or rl.allclose(a, b, atol=1e-5))
        for a, b in pairs
    )


GROUPS = (
    windows,
    plain_ones,
    recurrent_and_attention,
    losses,
    unusual_pooling,
    margins_and_bags,
)


@pytest.mark.parametrize("group", GROUPS)
def test_modules_of_the_package_translate_to_the_same(group):
    rl.manual_seed(0)
    wrong = []
    for module, operands in group():
        translated = rl.jit.script(module.eval())
        if not isinstance(translated, rl.jit.ScriptModule):
            wrong.append((type(module).__name__, "not translated"))
        elif not same(module(*operands), translated(*operands)):
            wrong.append((type(module).__name__, "other values"))
    assert not wrong


@pytest.mark.parametrize("group", GROUPS)
def test_pytorch_reads_translated_modules(group):
    torch = pytest.importorskip("torch")
    rl.manual_seed(0)

    def there(value):
        if isinstance(value, (tuple, list)):
            return type(value)(map(there, value))
        return (
            torch.from_numpy(value.numpy()) if isinstance(value, rl.Tensor) else value
        )

    def here(value):
        if isinstance(value, (tuple, list)):
            return type(value)(map(here, value))
        return rl.from_numpy(value.detach().numpy()) if value is not None else None

    wrong = []
    for module, operands in group():
        file = io.BytesIO()
        rl.jit.save(rl.jit.script(module.eval()), file)
        file.seek(0)
        if module.training or type(module).__name__ in ("RReLU",):
            continue
        found = torch.jit.load(file)(*there(operands))
        if not same(module(*operands), here(found)):
            wrong.append(type(module).__name__)
    assert not wrong


def test_parameters_are_shared_with_the_original():
    module = nn.Linear(2, 2)
    translated = rl.jit.script(module)
    assert translated.weight is module.weight
    translated(rl.ones(1, 2)).sum().backward()
    assert module.weight.grad is not None
    assert list(translated.state_dict()) == list(module.state_dict())


def test_copies_of_translated_modules_are_their_own():
    import copy

    translated = rl.jit.script(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    other = copy.deepcopy(translated)
    with rl.no_grad():
        other[0].weight.zero_()
        other[0].bias.zero_()
    x = rl.ones(1, 2)
    assert other(x).abs().sum() == 0 and other.code == translated.code
    assert translated[0].weight.abs().sum() > 0


def test_threads_may_call_a_scripted_module_for_the_first_time_together():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for _ in range(10):
            model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
            scripted, x = rl.jit.script(model), rl.randn(3, 4)
            with ThreadPoolExecutor(6) as pool:
                found = list(pool.map(lambda _: scripted(x), range(12)))  # noqa: B023
            assert all(rl.equal(each, model(x)) for each in found)
    finally:
        sys.setswitchinterval(interval)


@pytest.mark.parametrize(
    "module, wrong",
    [
        (nn.Softmax2d(), (2, 3)),
        (nn.CircularPad1d(1), (2, 3, 4, 5)),
        (nn.Dropout1d(), (3,)),
        (nn.Softshrink(), None),
    ],
)
def test_modules_without_a_form_are_translated_as_they_are_written(module, wrong):
    program = rl.jit.script(module)
    assert isinstance(program, rl.jit.ScriptModule)
    if wrong is None:  # its base has a form
        assert rl.equal(program(tensor([0.7, 0.2])), module(tensor([0.7, 0.2])))
        return
    for call in (module, program):
        with pytest.raises(Exception, match="input"):
            call(randn(*wrong))


def test_programs_find_what_a_module_holds_without_a_look_at_its_class(monkeypatch):
    program = rl.jit.script(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).eval())
    expected = program(randn(4, 2)).shape

    def looked(*_):
        raise AssertionError("a property was looked for")

    monkeypatch.setattr(_modules.Modules, "accessor", looked)
    assert program(randn(4, 2)).shape == expected


@pytest.mark.parametrize(
    "module, sizes",
    [
        (nn.InstanceNorm1d(3), (3, 8)),
        (nn.InstanceNorm2d(3), (3, 4, 4)),
        (nn.Dropout1d(), (3, 8)),
        (nn.Dropout3d(), (3, 2, 4, 4)),
    ],
)
def test_programs_take_inputs_without_a_batch(module, sizes):
    x, program = randn(*sizes), rl.jit.script(module)
    rl.manual_seed(0)
    expected = module(x)
    rl.manual_seed(0)
    assert rl.equal(program(x), expected)


def warned(x):
    if x.dim() == 1:
        warnings.warn("of {} dimension".format(x.dim()), stacklevel=2)  # noqa: UP032
    return x


def test_programs_warn_where_they_are_called():
    program = rl.jit.script(warned)
    assert "    torch.warn(torch.format(" in program.code
    with pytest.warns(UserWarning, match="of 1 dimension") as given:
        program(randn(2))
    assert given[0].filename == __file__


def places(x):
    y, at = nn.functional.max_pool1d(x, 2, return_indices=True)
    return nn.functional.max_unpool1d(y, at, 2)


def adapted(x):
    return nn.functional.adaptive_max_pool1d(x, 2, True)[1]


def shares_2d(x):
    return nn.functional.fractional_max_pool2d(
        x, [2, 2], output_ratio=0.5, return_indices=True
    )


@pytest.mark.parametrize(
    "function",
    [
        places,
        adapted,
        shares_2d,
        nn.MaxPool1d(2, return_indices=True),
        nn.AdaptiveMaxPool1d(3, return_indices=True),
        nn.FractionalMaxPool2d(2, 2, return_indices=True),
    ],
)
def test_programs_give_indices_where_they_are_asked_for(function):
    x = randn(2, 3, 8) if "2d" not in str(function) else randn(2, 3, 8, 8)
    rl.manual_seed(0)
    expected = function(x)
    rl.manual_seed(0)
    found = rl.jit.script(function)(x)
    assert type(found) is type(expected)
    pairs = zip(found, expected) if isinstance(found, tuple) else [(found, expected)]
    assert all(rl.equal(one, other) for one, other in pairs)


def shrunk(x):
    smooth = nn.functional.interpolate(x, [3, 3], mode="bilinear", antialias=True)
    means = nn.functional.interpolate(x, scale_factor=0.4, mode="area")
    return smooth, means


def test_programs_resample_as_they_are_asked_to():
    x = randn(1, 2, 9, 9)
    found = rl.jit.script(shrunk)(x)
    assert all(rl.equal(one, other) for one, other in zip(found, shrunk(x)))


def bagged(weight, places, offsets):
    return nn.functional.embedding_bag(weight, places, offsets)


def test_programs_of_bags_take_the_older_order_with_a_warning():
    given = randn(5, 3), tensor([1, 2, 3]), tensor([0, 1])
    program = rl.jit.script(bagged)
    with pytest.warns(UserWarning, match="Argument order"):
        found = program(*given)
    assert rl.equal(found, nn.functional.embedding_bag(given[1], given[0], given[2]))


def test_graphs_of_fx_are_scripted():
    class Net(rl.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = rl.nn.Linear(3, 2)

        def forward(self, x):
            return rl.relu(self.linear(x)).sum(0)

    net, x = Net(), rl.randn(4, 3)
    recorded = make_fx(lambda x: (x.sin() * 2).sum(0))(x)
    for node in list(recorded.graph.nodes)[1:-1]:
        node.target = node.target.overloadpacket
    recorded.recompile()
    assert "torch.ops.aten.sin(x_1)" in recorded.code
    for graph in rl.fx.symbolic_trace(net), recorded:
        scripted = rl.jit.freeze(rl.jit.script(graph).eval())
        assert rl.equal(scripted(x), graph(x))


@pytest.mark.parametrize("kind", ["BatchNorm", "InstanceNorm"])
def test_scripted_norms_refuse_the_dimensions_that_they_refuse_unscripted(kind):
    for rank, dims in itertools.product((1, 2, 3), (1, 2, 3, 4, 5, 6)):
        module, x = getattr(nn, f"{kind}{rank}d")(2), rl.ones([2] * dims)
        program = rl.jit.script(module)
        try:
            expected = module(x)
        except ValueError as error:
            with pytest.raises(Exception, match=re.escape(str(error))):
                program(x)
        else:
            assert rl.equal(program(x), expected)


def as_told(call, *operands):
    """What a function gives, or how it refuses, without the traceback of a program."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call(*operands)
        except Exception as refusal:
            words = str(refusal).strip().splitlines()[-1].rpartition("Error: ")[2]
            return re.sub(r"\w+\.Size\((.*?)\)", r"\1", words)  # sizes are lists there


def older_loss(x, y):
    return functional.mse_loss(x, y, size_average=False)


def weighted_loss(x, y):
    return functional.l1_loss(x, y, weight=y)


def loss_of_no_parabola(x, y):
    return functional.smooth_l1_loss(x, y, beta=0.0)


def loss_of_other_sizes(x, y):
    return functional.binary_cross_entropy(x, y[0])


def loss_of_one_variance(x, y):
    return functional.gaussian_nll_loss(x, y, 0.5)


def loss_by_a_vector(x, y):
    return functional.binary_cross_entropy(x, y, y[0])


def margins_of_other_ranks(x, y):
    return functional.margin_ranking_loss(x, y, y[0])


def dropped_too_often(x, y):
    return functional.dropout(x + y, 1.5)


def crossed_bounds(x, y):
    return functional.hardtanh(x + y, 1.0, -1.0)


def implied_dimension(x, y):
    return functional.softmax(x + y)


def one_value_of_a_channel(x, y):
    return functional.group_norm(x[:1, :2] + y[:1, :2], 2)


def a_row_from_the_end(x, y):
    return functional.embedding((x * 2).long(), y, padding_idx=-4)


def an_unknown_padding(x, y):
    points = torch.zeros(1, 1, 1, 2)
    return functional.grid_sample(x[None, None] + y, points, padding_mode="ones")


def statistics_of_one_value(x, y):
    return functional.batch_norm(x[:1], None, None, y[0], training=True)


def tensors_after_each_other(x, y):
    x, y = torch.broadcast_tensors(x, y[0])
    return x + y


@pytest.mark.parametrize(
    "function",
    (
        older_loss,
        weighted_loss,
        loss_of_no_parabola,
        loss_of_other_sizes,
        loss_of_one_variance,
        loss_by_a_vector,
        margins_of_other_ranks,
        dropped_too_often,
        crossed_bounds,
        implied_dimension,
        one_value_of_a_channel,
        a_row_from_the_end,
        an_unknown_padding,
        statistics_of_one_value,
        tensors_after_each_other,
    ),
)
def test_programs_of_functions_give_and_refuse_what_the_functions_do(function):
    x, y = rl.rand(3, 3), rl.rand(3, 3)
    found, wanted = as_told(rl.jit.script(function), x, y), as_told(function, x, y)
    assert type(found) is type(wanted)
    assert found == wanted if isinstance(wanted, str) else rl.equal(found, wanted)


def test_a_scripted_batch_norm_refuses_statistics_of_one_value():
    for norm in (nn.BatchNorm1d(3), rl.jit.script(nn.BatchNorm1d(3))):
        with pytest.raises(Exception, match="Expected more than 1 value per channel"):
            norm(rl.ones(1, 3))
