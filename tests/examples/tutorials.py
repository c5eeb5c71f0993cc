"""Programs in the manner of PyTorch's tutorials on smaller models and other tensors.

Each is given the package and yields results; ``ROUGH`` before them allows for rounding.
"""

import io
from importlib import import_module

ROUGH = "rough"


def pruning(t):
    """Pruning: one layer, several, all at once, a method of one's own."""
    nn, F = t.nn, t.nn.functional
    prune = import_module(f"{t.__name__}.nn.utils.prune")

    class LeNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.conv2 = nn.Conv2d(1, 6, 5), nn.Conv2d(6, 16, 5)
            self.fc1 = nn.Linear(16 * 5 * 5, 120)
            self.fc2, self.fc3 = nn.Linear(120, 84), nn.Linear(84, 10)

        def forward(self, x):
            x = F.max_pool2d(F.relu(self.conv1(x)), (2, 2))
            x = F.max_pool2d(F.relu(self.conv2(x)), 2)
            x = x.view(-1, int(x.nelement() / x.shape[0]))
            return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))

    model = LeNet()
    module = model.conv1
    yield sorted(name for name, _ in module.named_parameters())
    prune.random_unstructured(module, name="weight", amount=0.3)
    yield sorted(name for name, _ in module.named_parameters())
    yield dict(module.named_buffers())["weight_mask"]
    yield module.weight
    yield len(module._forward_pre_hooks)
    prune.l1_unstructured(module, name="bias", amount=3)
    yield sorted(name for name, _ in module.named_buffers())
    yield module.bias
    prune.ln_structured(module, name="weight", amount=0.5, n=2, dim=0)
    yield module.weight
    for hook in module._forward_pre_hooks.values():
        if hook._tensor_name == "weight":
            yield [type(each).__name__ for each in hook]
    yield list(model.state_dict())
    prune.remove(module, "weight")
    yield sorted(name for name, _ in module.named_parameters())
    yield sorted(name for name, _ in module.named_buffers())

    fresh = LeNet()
    for _, layer in fresh.named_modules():
        if isinstance(layer, nn.Conv2d):
            prune.l1_unstructured(layer, name="weight", amount=0.2)
        elif isinstance(layer, nn.Linear):
            prune.l1_unstructured(layer, name="weight", amount=0.4)
    yield list(dict(fresh.named_buffers()))
    yield fresh(t.ones(1, 1, 32, 32))

    model = LeNet()
    layers = [model.conv1, model.conv2, model.fc1, model.fc2, model.fc3]
    prune.global_unstructured(
        tuple((layer, "weight") for layer in layers),
        pruning_method=prune.L1Unstructured,
        amount=0.2,
    )
    for layer in layers:
        yield 100.0 * float(t.sum(layer.weight == 0)) / float(layer.weight.nelement())

    class Foobar(prune.BasePruningMethod):
        PRUNING_TYPE = "unstructured"

        def compute_mask(self, t, default_mask):
            mask = default_mask.clone()
            mask.view(-1)[::2] = 0
            return mask

    model = LeNet()
    Foobar.apply(model.fc3, "bias")
    yield model.fc3.bias_mask
    yield prune.is_pruned(model)


def parametrizations(t):
    """Parametrizations: symmetric, skew, orthogonal by Cayley, cached, inspected, removed."""
    nn, parametrize = t.nn, import_module(f"{t.__name__}.nn.utils.parametrize")
    made = import_module(f"{t.__name__}.nn.utils.parametrizations")

    class Symmetric(nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).transpose(-1, -2)

        def right_inverse(self, a):
            return a.triu()

    class Skew(nn.Module):
        def forward(self, x):
            a = x.triu(1)
            return a - a.transpose(-1, -2)

    class Cayley(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.register_buffer("Id", t.eye(n))

        def forward(self, x):
            return t.linalg.solve(self.Id - x, self.Id + x)

    layer = nn.Linear(3, 3)
    parametrize.register_parametrization(layer, "weight", Symmetric())
    a = layer.weight
    yield t.allclose(a, a.T), a, repr(layer)
    yield [name for name, _ in layer.named_parameters()]
    layer.weight = t.arange(9.0).reshape(3, 3)
    yield layer.weight, layer.parametrizations.weight.original
    layer = nn.Linear(3, 3)
    parametrize.register_parametrization(layer, "weight", Skew())
    parametrize.register_parametrization(layer, "weight", Cayley(3))
    x = layer.weight
    yield t.dist(x.T @ x, t.eye(3)) < 1e-6, x
    with parametrize.cached():
        yield layer.weight is layer.weight
    yield layer.weight is layer.weight
    loss = layer(t.randn(5, 3)).square().sum()
    loss.backward()
    yield layer.parametrizations.weight.original.grad
    yield isinstance(layer.parametrizations.weight[0], Skew)
    yield parametrize.is_parametrized(layer)
    yield type(layer).__name__, list(layer.state_dict())
    parametrize.remove_parametrizations(layer, "weight", leave_parametrized=True)
    yield layer.weight, type(layer).__name__

    orthogonal = made.orthogonal(nn.Linear(4, 3))
    q = orthogonal.weight
    yield t.dist(q @ q.T, t.eye(3)) < 1e-5
    spectral = made.spectral_norm(nn.Linear(5, 4))
    yield t.linalg.matrix_norm(spectral.weight, 2) < 1.5
    weight = made.weight_norm(nn.Linear(5, 4))
    yield weight.weight, [name for name, _ in weight.named_parameters()]


def nested(t):
    """Nested tensors: made, padded, read, reshaped; attention without padding."""
    nn, F = t.nn, t.nn.functional
    parts = [t.arange(3.0), t.arange(5.0)]
    nt = t.nested.nested_tensor(parts)
    yield [len(each) for each in nt.unbind()], nt.dim(), nt.is_nested
    yield t.nested.to_padded_tensor(nt, padding=0.0)
    yield list(nt.unbind())
    parts = [t.randn(2, 4), t.randn(5, 4)]
    nt = t.nested.nested_tensor(parts, dtype=t.float32)
    yield nt.size(0), nt.size(2)
    yield nt[1], nt[1][0]
    linear = nn.Linear(4, 6)
    yield list(linear(nt).unbind())
    yield list(F.relu(nt).unbind()), list((nt + nt).unbind()), list((nt * 2.0).unbind())
    jagged = t.nested.nested_tensor(parts, layout=t.jagged)
    yield jagged.values(), jagged.offsets()
    yield list(jagged.sin().unbind()), jagged.sum(-1).values()
    yield t.nested.to_padded_tensor(jagged, -1.0)
    built = t.nested.nested_tensor_from_jagged(
        t.randn(7, 4), offsets=t.tensor([0, 2, 7]), min_seqlen=2, max_seqlen=5
    )
    yield list(built.unbind())
    batch, narrow = t.randn(3, 6, 4), t.tensor([1, 4, 6])
    part = t.nested.narrow(batch, dim=1, start=0, length=narrow, layout=t.jagged)
    yield list(part.contiguous().unbind())

    class MultiHeadAttention(nn.Module):
        def __init__(self, size=4, heads=2):
            super().__init__()
            self.heads = heads
            self.query, self.key, self.value = (nn.Linear(size, size) for _ in range(3))
            self.out = nn.Linear(size, size)

        def forward(self, x):
            q, k, v = (
                f(x).unflatten(-1, [self.heads, -1]).transpose(1, 2)
                for f in (self.query, self.key, self.value)
            )
            found = F.scaled_dot_product_attention(q, k, v, dropout_p=0.0)
            return self.out(found.transpose(1, 2).flatten(-2))

    attention = MultiHeadAttention()
    given = t.nested.nested_tensor(parts, layout=t.jagged, requires_grad=True)
    found = attention(given)
    yield list(found.unbind())
    found.values().square().sum().backward()
    yield [p.grad for p in attention.parameters()]
    for part, one in zip(parts, found.unbind()):
        yield t.allclose(attention(part[None])[0], one, atol=1e-5)


def memory_formats(t):
    """Channels last: strides, conversions, what keeps it, a whole model."""
    nn = t.nn
    n, c, h, w = 10, 3, 32, 32
    x = t.empty(n, c, h, w)
    yield x.stride()
    x = x.to(memory_format=t.channels_last)
    yield tuple(x.shape), x.stride()
    x = x.to(memory_format=t.contiguous_format)
    yield x.stride(), x.is_contiguous(memory_format=t.channels_last)
    x = x.to(memory_format=t.channels_last)
    yield x.is_contiguous(memory_format=t.channels_last)
    special = t.empty(4, 4, 1, 1)
    yield special.is_contiguous(memory_format=t.channels_last), special.is_contiguous()
    special = t.empty(4, 1, 4, 4)
    yield special.is_contiguous(memory_format=t.channels_last), special.is_contiguous()
    x = t.empty(n, c, h, w, memory_format=t.channels_last)
    yield x.stride(), x.clone().stride()
    y = t.zeros_like(x)
    yield y.stride(), (x + y).stride(), x.relu().stride(), t.empty_like(x).stride()
    yield x.contiguous(memory_format=t.channels_last).stride()
    inputs = t.randint(1, 10, (2, 8, 4, 4), dtype=t.float32, requires_grad=True)
    model = nn.Conv2d(8, 4, 3).to(memory_format=t.channels_last)
    inputs2 = inputs.to(memory_format=t.channels_last)
    out = model(inputs2)
    yield out.is_contiguous(memory_format=t.channels_last), out.stride()
    out.sum().backward()
    yield model.weight.grad.stride(), model.weight.grad

    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.Hardtanh(), nn.AdaptiveAvgPool2d(4),
    ).to(memory_format=t.channels_last)  # fmt: skip
    lost = []

    def check(module, inputs, output):
        if not output.is_contiguous(memory_format=t.channels_last):
            lost.append(type(module).__name__)

    for module in net.children():
        module.register_forward_hook(check)
    yield net(t.randn(2, 3, 16, 16).contiguous(memory_format=t.channels_last)), lost


def autocast(t):
    """Mixed precision: a training loop with a scaler, gradients clipped, penalized."""
    nn = t.nn
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    opt = t.optim.SGD(net.parameters(), lr=0.01)
    scaler = t.amp.GradScaler("cpu", enabled=True)
    data = [t.randn(4, 8) for _ in range(3)]
    targets = [t.randn(4, 4) for _ in range(3)]
    loss_fn = nn.MSELoss()
    for x, y in zip(data, targets):
        with t.autocast(device_type="cpu", dtype=t.bfloat16):
            output = net(x)
            assert output.dtype is t.bfloat16
            loss = loss_fn(output.float(), y)
            assert loss.dtype is t.float32
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        norm = t.nn.utils.clip_grad_norm_(net.parameters(), max_norm=0.1)
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()
        yield ROUGH, loss, norm
    yield scaler.state_dict()
    for x, y in zip(data, targets):
        with t.autocast(device_type="cpu", dtype=t.bfloat16):
            loss = loss_fn(net(x).float(), y)
        params = t.autograd.grad(
            outputs=scaler.scale(loss), inputs=net.parameters(), create_graph=True
        )
        inverse = 1.0 / scaler.get_scale()
        params = [p * inverse for p in params]
        with t.autocast(device_type="cpu", dtype=t.bfloat16):
            penalty = sum(p.pow(2).sum() for p in params).sqrt()
            loss = loss + penalty
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()
        yield ROUGH, loss


def sparse(t):
    """Sparse tensors: made, coalesced, converted, multiplied, differentiated, hybrid."""
    i, v = [[0, 1, 1], [2, 0, 2]], [3, 4, 5]
    s = t.sparse_coo_tensor(i, v, (2, 3))
    yield s.to_dense(), repr(s)
    a = t.tensor([[0, 2.0], [3, 0]])
    yield a.to_sparse(), a.to_sparse_csr(), a.to_sparse_csc()
    blocks = t.arange(16.0).reshape(4, 4).to_sparse_bsr((2, 2))
    yield blocks
    hybrid = t.sparse_coo_tensor(i, [[3, 4], [5, 6], [7, 8]], (2, 3, 2))
    yield hybrid.to_dense(), hybrid.sparse_dim(), hybrid.dense_dim()
    twice = t.sparse_coo_tensor([[1, 1]], t.tensor([3, 4]), (3,))
    yield twice, twice.coalesce(), twice.is_coalesced(), twice.coalesce().indices()
    csr = t.sparse_csr_tensor(
        t.tensor([0, 2, 4]),
        t.tensor([0, 1, 0, 1]),
        t.tensor([1, 2, 3, 4]),
        dtype=t.float64,
    )
    yield csr, csr.matmul(t.randn(2, 1, dtype=t.float64))
    yield csr.crow_indices(), csr.col_indices(), csr.values()
    weight = t.randn(3, 4).relu().to_sparse().requires_grad_()
    dense = t.randn(4, 2, requires_grad=True)
    t.sparse.mm(weight, dense).sum().backward()
    yield weight.grad.to_dense(), dense.grad
    yield t.sparse.sum(weight.detach(), 0).to_dense()
    yield t.sparse.softmax(t.eye(3).to_sparse(), 1).to_dense()
    yield (
        (hybrid + hybrid).to_dense(),
        (hybrid * 3).to_dense(),
        s.transpose(0, 1).to_dense(),
    )


def distillation(t):
    """Distillation: soft targets, cosine of hidden values, a regressor of feature maps."""
    nn = t.nn

    class Deep(nn.Module):
        def __init__(self, wide=16):
            super().__init__()
            self.features = nn.Sequential(
                nn.Conv2d(3, wide, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                nn.Conv2d(wide, wide, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            )  # fmt: skip
            self.classifier = nn.Sequential(
                nn.Linear(wide * 4, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 5)
            )

        def forward(self, x):
            hidden = t.flatten(self.features(x), 1)
            return self.classifier(hidden), hidden, self.features(x)

    images, labels = t.randn(12, 3, 8, 8), t.randint(0, 5, (12,))
    teacher, student = Deep(16), Deep(4)
    criterion = nn.CrossEntropyLoss()
    optimizer = t.optim.Adam(teacher.parameters(), lr=0.001)
    for _ in range(3):
        optimizer.zero_grad()
        loss = criterion(teacher(images)[0], labels)
        loss.backward()
        optimizer.step()
        yield loss
    teacher.eval()
    temperature, soft_weight, hard_weight = 2, 0.25, 0.75
    optimizer = t.optim.Adam(student.parameters(), lr=0.001)
    for _ in range(3):
        optimizer.zero_grad()
        with t.no_grad():
            wanted = teacher(images)[0]
        found = student(images)[0]
        soft = nn.functional.softmax(wanted / temperature, dim=-1)
        given = nn.functional.log_softmax(found / temperature, dim=-1)
        soft_loss = (
            t.sum(soft * (soft.log() - given)) / given.size()[0] * temperature**2
        )
        loss = soft_weight * soft_loss + hard_weight * criterion(found, labels)
        loss.backward()
        optimizer.step()
        yield loss
    cosine, shrink = nn.CosineEmbeddingLoss(), nn.AvgPool1d(4)
    with t.no_grad():
        hidden = shrink(teacher(images)[1].unsqueeze(1)).squeeze(1)
    yield cosine(student(images)[1], hidden, target=t.ones(images.size(0)))
    regressor = nn.Conv2d(4, 16, kernel_size=3, padding=1)
    mse = nn.MSELoss()
    with t.no_grad():
        maps = teacher(images)[2]
    loss = mse(regressor(student(images)[2]), maps)
    loss.backward()
    yield loss, regressor.weight.grad
    yield sum(p.numel() for p in student.parameters())


def two_of_four(t):
    """Two of four: masks by a sparsifier, a model that stays so, products of it."""
    nn = t.nn
    sparsify = import_module(f"{t.__name__}.ao.pruning").WeightNormSparsifier
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 16))
    sparsifier = sparsify(
        sparsity_level=1.0, sparse_block_shape=(1, 4), zeros_per_block=2
    )
    config = [
        {"tensor_fqn": f"{name}.weight"}
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear)
    ]
    sparsifier.prepare(model, config)
    sparsifier.step()
    yield model[0].parametrizations.weight[0].mask
    optimizer = t.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        loss = model(t.randn(8, 64)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        sparsifier.step()
        yield loss
    sparsifier.squash_mask()
    weight = model[0].weight
    yield weight, (weight.reshape(-1, 4) != 0).sum(1).max()
    yield model(t.ones(4, 64))


def dynamic_lstm(t):
    """Dynamic quantization: an LSTM of words and its sizes, a model with attention."""
    nn, q = t.nn, t.ao.quantization

    class LSTMModel(nn.Module):
        def __init__(self, ntoken, ninp, nhid, nlayers, dropout=0.5):
            super().__init__()
            self.drop, self.encoder = nn.Dropout(dropout), nn.Embedding(ntoken, ninp)
            self.rnn = nn.LSTM(ninp, nhid, nlayers, dropout=dropout)
            self.decoder = nn.Linear(nhid, ntoken)
            self.encoder.weight.data.uniform_(-0.1, 0.1)
            self.decoder.bias.data.zero_()
            self.decoder.weight.data.uniform_(-0.1, 0.1)
            self.nhid, self.nlayers = nhid, nlayers

        def forward(self, input, hidden):
            output, hidden = self.rnn(self.drop(self.encoder(input)), hidden)
            return self.decoder(self.drop(output)), hidden

        def init_hidden(self, bsz):
            weight = next(self.parameters())
            size = self.nlayers, bsz, self.nhid
            return weight.new_zeros(size), weight.new_zeros(size)

    model = LSTMModel(ntoken=40, ninp=32, nhid=24, nlayers=2).eval()
    quantized = q.quantize_dynamic(model, {nn.LSTM, nn.Linear}, dtype=t.qint8)
    yield repr(quantized)
    file = io.BytesIO()
    t.save(quantized.state_dict(), file)
    yield len(file.getvalue()) < 25_000
    hidden = model.init_hidden(4)
    data = t.randint(0, 40, (6, 4))
    with t.no_grad():
        output, (h, c) = quantized(data, hidden)
    yield ROUGH, output, h, c
    yield ROUGH, nn.functional.cross_entropy(output.view(-1, 40), data.view(-1))


def dynamic_bert(t):
    """Dynamic quantization of BERT, traced, saved and loaded again."""
    nn, q = t.nn, t.ao.quantization

    class Layer(nn.Module):
        def __init__(self, size=32, heads=4):
            super().__init__()
            self.heads = heads
            self.query, self.key, self.value = (nn.Linear(size, size) for _ in range(3))
            self.dense, self.norm = nn.Linear(size, size), nn.LayerNorm(size)
            self.wide, self.narrow = (
                nn.Linear(size, 4 * size),
                nn.Linear(4 * size, size),
            )
            self.norm2 = nn.LayerNorm(size)

        def forward(self, x, mask):
            b, n, d = x.shape
            q, k, v = (
                f(x).view(b, n, self.heads, d // self.heads).transpose(1, 2)
                for f in (self.query, self.key, self.value)
            )
            scores = q @ k.transpose(-1, -2) / (d // self.heads) ** 0.5 + mask
            found = (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d)
            x = self.norm(x + self.dense(found))
            return self.norm2(x + self.narrow(nn.functional.gelu(self.wide(x))))

    class Bert(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(50, 32), nn.Embedding(16, 32)
            self.layers = nn.ModuleList(Layer() for _ in range(2))
            self.pooler, self.head = nn.Linear(32, 32), nn.Linear(32, 2)

        def forward(self, ids, mask):
            x = self.words(ids) + self.places(t.arange(ids.shape[1]))
            bias = (1.0 - mask[:, None, None, :].float()) * -10000.0
            for layer in self.layers:
                x = layer(x, bias)
            return self.head(t.tanh(self.pooler(x[:, 0])))

    model = Bert().eval()
    quantized = q.quantize_dynamic(model, {nn.Linear}, dtype=t.qint8)
    ids, mask = t.randint(0, 50, (3, 8)), t.ones(3, 8, dtype=t.int64)
    with t.no_grad():
        yield ROUGH, model(ids, mask), quantized(ids, mask)
        traced = t.jit.trace(quantized, (ids, mask))
        yield t.allclose(traced(ids, mask), quantized(ids, mask))
        file = io.BytesIO()
        t.jit.save(traced, file)
        file.seek(0)
        loaded = t.jit.load(file)
        yield t.allclose(loaded(ids, mask), quantized(ids, mask))


def mobile_net(t):
    """The network of the tutorials on static quantization and training for it, smaller."""
    nn, q = t.nn, t.ao.quantization

    class ConvBNReLU(nn.Sequential):
        def __init__(self, i, o, kernel_size=3, stride=1, groups=1):
            super().__init__(
                nn.Conv2d(
                    i,
                    o,
                    kernel_size,
                    stride,
                    (kernel_size - 1) // 2,
                    groups=groups,
                    bias=False,
                ),
                nn.BatchNorm2d(o, momentum=0.1),
                nn.ReLU(inplace=False),
            )

    class InvertedResidual(nn.Module):
        def __init__(self, i, o, stride, expand):
            super().__init__()
            hidden = i * expand
            self.use_res_connect = stride == 1 and i == o
            self.conv = nn.Sequential(
                ConvBNReLU(i, hidden, kernel_size=1),
                ConvBNReLU(hidden, hidden, stride=stride, groups=hidden),
                nn.Conv2d(hidden, o, 1, 1, 0, bias=False),
                nn.BatchNorm2d(o, momentum=0.1),
            )
            self.skip_add = nn.quantized.FloatFunctional()

        def forward(self, x):
            if self.use_res_connect:
                return self.skip_add.add(x, self.conv(x))
            return self.conv(x)

    class MobileNetV2(nn.Module):
        def __init__(self):
            super().__init__()
            self.features = nn.Sequential(
                ConvBNReLU(3, 8, stride=2), InvertedResidual(8, 8, 1, 2),
                InvertedResidual(8, 16, 2, 2), ConvBNReLU(16, 32, kernel_size=1),
            )  # fmt: skip
            self.quant, self.dequant = q.QuantStub(), q.DeQuantStub()
            self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(32, 5))

        def forward(self, x):
            x = self.features(self.quant(x)).mean([2, 3])
            return self.dequant(self.classifier(x))

        def fuse_model(self, is_qat=False):
            fuse = q.fuse_modules_qat if is_qat else q.fuse_modules
            for m in self.modules():
                if type(m) is ConvBNReLU:
                    fuse(m, ["0", "1", "2"], inplace=True)
                if type(m) is InvertedResidual:
                    for idx in range(len(m.conv)):
                        if type(m.conv[idx]) is nn.Conv2d:
                            fuse(m.conv, [str(idx), str(idx + 1)], inplace=True)

    return MobileNetV2()


def static_scripted(t):
    """Static quantization per channel: calibrated, converted, scripted, saved, loaded."""
    q = t.ao.quantization
    model = mobile_net(t).eval()
    model.fuse_model()
    model.qconfig = q.get_default_qconfig("fbgemm")
    q.prepare(model, inplace=True)
    for _ in range(2):
        model(t.randn(4, 3, 16, 16))
    q.convert(model, inplace=True)
    x = t.randn(2, 3, 16, 16)
    yield ROUGH, model(x), model.classifier[1].scale
    scripted = t.jit.script(model)
    yield t.equal(scripted(x), model(x))
    file = io.BytesIO()
    t.jit.save(scripted, file)
    file.seek(0)
    yield t.equal(t.jit.load(file)(x), model(x))


def training_for_quantization(t):
    """Quantization-aware training: observers and norms stop, then bytes are made of it."""
    nn, q = t.nn, t.ao.quantization
    model = mobile_net(t)
    model.classifier[0] = nn.Identity()  # each side would draw its own
    model.eval()
    model.fuse_model(is_qat=True)
    model.qconfig = q.get_default_qat_qconfig("fbgemm")
    q.prepare_qat(model.train(), inplace=True)
    optimizer = t.optim.SGD(model.parameters(), lr=0.01)
    x, target = t.randn(8, 3, 16, 16), t.arange(8) % 5
    for epoch in range(6):
        loss = nn.functional.cross_entropy(model(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if epoch > 2:
            model.apply(q.disable_observer)
        if epoch > 1:
            model.apply(nn.intrinsic.qat.freeze_bn_stats)
        yield ROUGH, loss.detach()
    quantized = q.convert(model.eval(), inplace=False)
    yield ROUGH, quantized(x)
    yield type(quantized.classifier[1]).__name__


PROGRAMS = [
    pruning, parametrizations, nested, memory_formats, autocast, sparse, distillation,
    two_of_four, dynamic_lstm, dynamic_bert, static_scripted,
    training_for_quantization,
]  # fmt: skip
