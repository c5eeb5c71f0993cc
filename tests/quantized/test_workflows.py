"""Models quantized module by module: PyTorch's tutorials with only the import changed."""

import io

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.usefixtures("fbgemm"),
    pytest.mark.filterwarnings(
        "ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"
    ),
]


def on_both(program):
    """The results of a program with each import."""
    found = []
    for t in (rl, torch):
        t.manual_seed(0)
        found.append(program(t))
    return found


def close(one, two, steps=0.0):
    """Results agree, up to one step of their quantization."""
    np.testing.assert_allclose(
        one.detach().numpy(), two.detach().numpy(), atol=1e-5 + steps, rtol=1e-5
    )


def block(t):
    """A residual block of the static tutorial, with its float functional."""
    nn, q = t.nn, t.ao.quantization

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant, self.dequant = q.QuantStub(), q.DeQuantStub()
            self.conv1, self.bn1 = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
            self.relu1 = nn.ReLU()
            self.conv2 = nn.Conv2d(8, 8, 3, padding=1, groups=8)
            self.bn2 = nn.BatchNorm2d(8)
            self.skip = nn.quantized.FloatFunctional()
            self.pool = nn.AdaptiveAvgPool2d((1, 1))
            self.drop = nn.Dropout(0.2)
            self.head = nn.Linear(8, 5)

        def forward(self, x):
            x = self.relu1(self.bn1(self.conv1(self.quant(x))))
            x = self.skip.add(x, self.bn2(self.conv2(x)))
            x = self.pool(x).flatten(1)
            return self.dequant(self.head(self.drop(x)))

    return Block()


PARTS = [["conv1", "bn1", "relu1"], ["conv2", "bn2"]]


def static(t, model=None):
    q = t.ao.quantization
    model = block(t).eval()
    for _ in range(2):
        model.train()(t.randn(4, 3, 8, 8))
    model = q.fuse_modules(model.eval(), PARTS)
    model.qconfig = q.get_default_qconfig("fbgemm")
    seen = q.prepare(model)
    for _ in range(3):
        seen(t.randn(4, 3, 8, 8))
    return q.convert(seen)


def test_static_quantization_gives_the_same_model_and_results():
    def program(t):
        model = static(t)
        return model, model(t.randn(2, 3, 8, 8))

    (one, a), (two, b) = on_both(program)
    close(a, b, one.head.scale)
    assert list(one.state_dict()) == list(two.state_dict())
    assert [type(m).__name__ for m in one.modules()] == [
        type(m).__name__ for m in two.modules()
    ]
    assert one.skip.zero_point == two.skip.zero_point


def test_states_of_quantized_models_go_both_ways():
    one, two = on_both(static)
    for source, target, t in ((one, two, torch), (two, one, rl)):
        file = io.BytesIO()
        (rl if t is torch else torch).save(source.state_dict(), file)
        file.seek(0)
        target.load_state_dict(t.load(file, weights_only=t is rl))
        x = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype("f")
        close(one(rl.tensor(x)), two(torch.tensor(x)))


def test_dynamic_quantization_gives_the_same_results():
    def program(t):
        nn = t.nn

        class Tagger(nn.Module):
            def __init__(self):
                super().__init__()
                self.table = nn.Embedding(10, 6)
                self.lstm = nn.LSTM(6, 8, 2, bidirectional=True)
                self.head = nn.Sequential(nn.Linear(16, 4), nn.ReLU(), nn.Linear(4, 3))

            def forward(self, x):
                return self.head(self.lstm(self.table(x))[0])

        kinds = {nn.LSTM, nn.Linear}
        model = t.ao.quantization.quantize_dynamic(Tagger(), kinds, dtype=t.qint8)
        return model, model(t.arange(10).reshape(5, 2))

    (one, a), (two, b) = on_both(program)
    close(a, b, 1e-5)
    assert repr(one).replace("rushlight", "torch") == repr(two)


def test_other_dynamic_layers_give_the_same_results():
    def program(t):
        nn, dynamic = t.nn, t.ao.quantization.quantize_dynamic
        found = []
        for layer in (nn.GRU(5, 6, batch_first=True), nn.LSTM(5, 6)):
            model = dynamic(nn.Sequential(layer))
            found += [model(t.randn(3, 4, 5))[0]]
            lengths = t.tensor([2, 4, 3])
            packed = nn.utils.rnn.pack_padded_sequence(
                t.randn(4, 3, 5), lengths, enforce_sorted=False
            )
            found.append(model(packed)[0].data)
        for cell in (nn.LSTMCell(5, 6), nn.GRUCell(5, 6), nn.RNNCell(5, 6)):
            made = dynamic(nn.ModuleList([cell]))[0](t.randn(3, 5))
            found.append(made[0] if isinstance(made, tuple) else made)
        half = dynamic(nn.Sequential(nn.Linear(5, 6)), dtype=t.float16)
        return [*found, half(t.randn(3, 5))]

    for one, two in zip(*on_both(program), strict=True):
        close(one, two, 2e-3)


def test_tables_become_bytes():
    def program(t):
        nn, q = t.nn, t.ao.quantization
        bag, table = nn.EmbeddingBag(12, 8, mode="sum"), nn.Embedding(12, 8)
        model = nn.ModuleList([bag, table])
        model.qconfig = q.float_qparams_weight_only_qconfig
        q.prepare(model, inplace=True)
        q.convert(model, inplace=True)
        indices = t.tensor([3, 1, 4, 1, 5, 9, 2])
        sums = model[0](indices, t.tensor([0, 3, 3]))
        weighted = model[0](indices, t.tensor([0, 3]), per_sample_weights=t.arange(7.0))
        return [sums, weighted, model[1](indices.reshape(7, 1)), model.state_dict()]

    one, two = on_both(program)
    for a, b in zip(one[:3], two[:3]):
        close(a, b)
    assert list(one[3]) == list(two[3])


def test_training_for_quantization_gives_the_same_losses_and_model():
    def program(t):
        q = t.ao.quantization
        model = q.fuse_modules_qat(block(t).train(), PARTS)
        model.drop = t.nn.Identity()
        model.qconfig = q.get_default_qat_qconfig("fbgemm")
        q.prepare_qat(model, inplace=True)
        optimizer = t.optim.SGD(model.parameters(), lr=0.05)
        losses = []
        for step in range(6):
            if step == 3:
                model.apply(q.disable_observer)
            if step == 4:
                model.apply(t.nn.intrinsic.qat.freeze_bn_stats)
            loss = model(t.randn(4, 3, 8, 8)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        found = q.convert(model.eval())
        return losses, found, found(t.randn(2, 3, 8, 8))

    (a, one, x), (b, two, y) = on_both(program)
    np.testing.assert_allclose(a, b, rtol=2e-3)
    assert list(one.state_dict()) == list(two.state_dict())
    close(x, y, 2 * one.head.scale)


def test_layers_become_layers_of_integers():
    def program(t):
        nn, q = t.nn, t.ao.quantization
        inner = [
            nn.Conv1d(4, 6, 3, padding=1), nn.Hardswish(), nn.ELU(), nn.LeakyReLU(0.1),
            nn.GroupNorm(2, 6), nn.InstanceNorm1d(6, affine=True), nn.Sigmoid(),
            nn.ReLU6(), nn.LayerNorm(10), nn.PReLU(), nn.Linear(10, 3),
        ]  # fmt: skip
        model = nn.Sequential(q.QuantStub(), *inner, q.DeQuantStub()).eval()
        model.qconfig = q.default_qconfig
        q.prepare(model, inplace=True)
        for _ in range(2):
            model(t.randn(2, 4, 10))
        q.convert(model, inplace=True)
        return model, model(t.randn(2, 4, 10))

    (one, a), (two, b) = on_both(program)
    assert list(one.state_dict()) == list(two.state_dict())
    close(a, b, one[11].scale)


def test_transposed_convolutions_and_norms_become_integers():
    def program(t):
        nn, q = t.nn, t.ao.quantization
        inner = [nn.ConvTranspose2d(3, 4, 3, 2, 1, 1), nn.BatchNorm2d(4), nn.ReLU()]
        inner += [nn.ConvTranspose2d(4, 2, 2)]
        model = nn.Sequential(q.QuantStub(), *inner, q.DeQuantStub()).eval()
        model = q.fuse_modules(model, ["2", "3"])
        model.qconfig = q.default_qconfig
        seen = q.prepare(model)
        seen(t.randn(2, 3, 5, 5))
        made = q.convert(seen)
        return made, made(t.randn(2, 3, 5, 5))

    (one, a), (two, b) = on_both(program)
    assert list(one.state_dict()) == list(two.state_dict())
    close(a, b, one[4].scale)


def test_what_cannot_be_quantized_is_refused():
    q, nn = rl.ao.quantization, rl.nn
    with pytest.raises(AssertionError, match="training mode"):
        q.prepare_qat(nn.Linear(2, 2).eval())
    with pytest.raises(ValueError, match="default settings"):
        q.quantize_dynamic(nn.Linear(2, 2), dtype=rl.int32)
    with pytest.raises(AssertionError, match="did not find fuser method"):
        q.fuse_modules(nn.Sequential(nn.ReLU(), nn.Linear(2, 2)), ["0", "1"])
    with pytest.raises(AssertionError, match="same mode"):
        q.fuse_conv_bn(False, nn.Conv2d(1, 1, 1).eval(), nn.BatchNorm2d(1).train())
    model = nn.Sequential(nn.ConvTranspose2d(1, 1, 1))
    model.qconfig = q.get_default_qconfig("fbgemm")
    with pytest.raises(AssertionError, match="Per channel weight observer"):
        q.prepare(model)


def test_engines_are_pytorchs_and_others_are_refused():
    found = []
    for t in (rl, torch):
        backend = t.backends.quantized
        before = backend.engine
        backend.engine = "fbgemm"
        names = [backend.engine, backend.supported_engines]
        for name, value in (("engine", "bad"), ("supported_engines", [])):
            with pytest.raises(RuntimeError) as caught:
                setattr(backend, name, value)
            names.append(str(caught.value))
        backend.engine = before
        found.append(names)
    assert found[0] == found[1]


def test_quantized_models_are_copied_and_saved_whole():
    import copy

    model = static(rl)
    x = rl.randn(2, 3, 8, 8)
    file = io.BytesIO()
    rl.save(model.head, file)
    file.seek(0)
    again = rl.load(file, weights_only=False)
    assert again.weight().equal(model.head.weight())
    assert copy.deepcopy(model)(x).equal(model(x))
    lstm = rl.ao.quantization.quantize_dynamic(rl.nn.Sequential(rl.nn.LSTM(4, 3)))
    again = rl.ao.quantization.quantize_dynamic(rl.nn.Sequential(rl.nn.LSTM(4, 3)))
    again.load_state_dict(lstm.state_dict())
    y = rl.randn(2, 1, 4)
    assert again(y)[0].equal(lstm(y)[0])


class Marked(rl.nn.Module):
    def __init__(self):
        super().__init__()
        self.sums = rl.nn.quantized.FloatFunctional()
        self.layers = rl.ao.quantization.fuse_modules(
            rl.nn.Sequential(rl.nn.Conv2d(3, 3, 1), rl.nn.ReLU()).eval(), ["0", "1"]
        )
        self.quant = rl.ao.quantization.QuantStub()
        self.dequant = rl.ao.quantization.DeQuantStub()

    def forward(self, x):
        x = self.quant(x)
        y = self.sums.add(x, self.layers(x))
        y = self.sums.cat([self.sums.mul(y, x), self.sums.add_scalar(y, 2.0)], dim=1)
        y = self.sums.add_relu(y, self.sums.mul_scalar(y, -0.5))
        return self.dequant(self.sums.matmul(y, y))


def test_models_with_marks_for_quantization_are_scripted_and_saved(tmp_path):
    model, x = Marked(), rl.randn(2, 3, 4, 4)
    scripted = rl.jit.script(model)
    rl.jit.save(scripted, tmp_path / "model.pt")
    wanted = model(x)
    for found in (scripted, rl.jit.load(tmp_path / "model.pt")):
        assert rl.equal(found(x), wanted)
    whole = rl.jit.script(rl.ao.quantization.QuantWrapper(rl.nn.Linear(4, 2)))
    assert whole(x).shape == (2, 3, 4, 2)


NOT_NUMBERS = [
    [float("nan"), 1.0, 2.0],
    [1.0, float("nan"), 2.0],
    [1.0, 2.0, float("nan")],
]


def test_layers_of_dynamic_scales_refuse_a_first_element_that_is_not_a_number():
    def program(t):
        model = t.nn.Sequential(t.nn.Linear(3, 2))
        made = t.ao.quantization.quantize_dynamic(model)
        found = []
        for row in NOT_NUMBERS:
            try:
                found.append(made(t.tensor([row])).tolist())
            except RuntimeError as error:
                found.append(str(error).partition("\n")[0])
        return found

    one, two = on_both(program)
    assert (
        one[0]
        == two[0]
        == ("In ChooseQuantizationParams, min should be less than or equal to max")
    )
    np.testing.assert_allclose(one[1:], two[1:], rtol=1e-6)


def test_long_values_take_the_same_elements_that_are_not_numbers():
    x = rl.ones(1 << 9, 1 << 9)
    made = rl.ao.quantization.quantize_dynamic(
        rl.nn.Sequential(rl.nn.Linear(1 << 9, 2))
    )
    x[3, 3] = float("nan")
    assert made(x)[0].isfinite().all()
    x[0, 0] = float("nan")
    with pytest.raises(RuntimeError, match="In ChooseQuantizationParams"):
        made(x)


def test_weights_that_are_not_numbers_stay_so_in_their_channels():
    def program(t):
        model, q = t.nn.Sequential(t.nn.Linear(3, 2)), t.ao.quantization
        model[0].weight.data[1, 0] = float("nan")
        found = []
        for config in (q.default_dynamic_qconfig, q.per_channel_dynamic_qconfig):
            made = q.quantize_dynamic(model, {t.nn.Linear: config})
            found.append(made(t.ones(1, 3)).isnan().tolist())
        return found

    one, two = on_both(program)
    assert one == two == [[[True, True]], [[False, True]]]


def test_ranges_without_a_scale_are_refused_when_tensors_are_quantized():
    for bad in (float("nan"), float("inf")):
        words = []
        for t in (rl, torch):
            with pytest.raises(RuntimeError) as caught:
                t.quantize_per_tensor_dynamic(t.tensor([1.0, bad]), t.quint8, False)
            words.append(str(caught.value).partition("\n")[0])
        assert words[0] == words[1]
    for x in ([0.0, 2.55], [-1.0, 3.0], [1.0, float("inf")]):
        one, two = (
            t._choose_qparams_per_tensor(t.tensor(x), True) for t in (rl, torch)
        )
        assert one == two
