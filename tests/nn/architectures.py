"""Two dozen known architectures, small, of either side's modules.

Each function is called with a module, ours or the oracle's, and returns a model and a
function that makes its inputs.
"""

from __future__ import annotations

MODELS: dict = {}


def model(function):
    """Adds a function to the table under its name."""
    MODELS[function.__name__] = function
    return function


def _model_class(m, parts, forward):
    """A module of some parts, given by a function of the module."""

    class Model(m.nn.Module):
        def __init__(self):
            super().__init__()
            for name, part in parts.items():
                if isinstance(part, m.Tensor) and not isinstance(part, m.nn.Parameter):
                    self.register_buffer(name, part)
                else:
                    setattr(self, name, part)

        def forward(self, *args):
            return forward(self, *args)

    return Model()


def _image(m, channels=3, size=16, count=2):
    return lambda: (m.randn(count, channels, size, size),)


def _tokens(m, length=7, count=2, vocabulary=11):
    return lambda: (m.arange(count * length).reshape(count, length) * 5 % vocabulary,)


def _conv_bn(m, inputs, outputs, size=3, stride=1, groups=1, act=None):
    nn = m.nn
    layers = [
        nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]
    return nn.Sequential(*layers, *([act] if act is not None else []))


@model
def mlp(m):
    nn = m.nn
    net = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 4))
    return net, lambda: (m.randn(3, 8),)


@model
def lenet(m):
    nn = m.nn
    net = nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(64, 20),
        nn.Tanh(),
        nn.Linear(20, 10),
    )
    return net, _image(m, 1)


@model
def alexnet(m):
    nn = m.nn
    net = nn.Sequential(
        nn.Conv2d(3, 8, 5, 2, 2),
        nn.ReLU(inplace=True),
        nn.LocalResponseNorm(3),
        nn.MaxPool2d(3, 2),
        nn.Conv2d(8, 12, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.AdaptiveAvgPool2d((2, 2)),
        nn.Flatten(),
        nn.Linear(48, 10),
    )
    return net, _image(m)


@model
def vgg(m):
    nn = m.nn
    layers, channels = [], 3
    for width in (8, "M", 12, 12, "M"):
        if width == "M":
            layers.append(nn.MaxPool2d(2, 2))
        else:
            layers += [nn.Conv2d(channels, width, 3, padding=1)]
            layers += [nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
            channels = width
    parts = {
        "features": nn.Sequential(*layers),
        "avgpool": nn.AdaptiveAvgPool2d(2),
        "classifier": nn.Sequential(nn.Linear(48, 16), nn.ReLU(True), nn.Linear(16, 5)),
    }

    def forward(self, x):
        return self.classifier(m.flatten(self.avgpool(self.features(x)), 1))

    return _model_class(m, parts, forward), _image(m)


def _basic_block(m, inputs, width, stride):
    nn = m.nn
    parts = {
        "conv1": nn.Conv2d(inputs, width, 3, stride, 1, bias=False),
        "bn1": nn.BatchNorm2d(width),
        "relu": nn.ReLU(inplace=True),
        "conv2": nn.Conv2d(width, width, 3, 1, 1, bias=False),
        "bn2": nn.BatchNorm2d(width),
        "downsample": _conv_bn(m, inputs, width, 1, stride)
        if stride != 1 or inputs != width
        else None,
    }

    def forward(self, x):
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return self.relu(out + (x if self.downsample is None else self.downsample(x)))

    return _model_class(m, parts, forward)


@model
def resnet(m):
    nn = m.nn
    parts = {
        "stem": _conv_bn(m, 3, 8, 7, 2, act=nn.ReLU()),
        "maxpool": nn.MaxPool2d(3, 2, 1),
        "layer1": nn.Sequential(_basic_block(m, 8, 8, 1), _basic_block(m, 8, 8, 1)),
        "layer2": nn.Sequential(_basic_block(m, 8, 16, 2)),
        "avgpool": nn.AdaptiveAvgPool2d((1, 1)),
        "fc": nn.Linear(16, 10),
    }

    def forward(self, x):
        x = self.layer2(self.layer1(self.maxpool(self.stem(x))))
        return self.fc(self.avgpool(x).flatten(1))

    return _model_class(m, parts, forward), _image(m)


@model
def resnext_bottleneck(m):
    nn = m.nn
    parts = {
        "reduce": _conv_bn(m, 8, 8, 1, act=nn.ReLU()),
        "grouped": _conv_bn(m, 8, 8, 3, groups=4, act=nn.ReLU()),
        "expand": _conv_bn(m, 8, 8, 1),
    }

    def forward(self, x):
        return m.relu(x + self.expand(self.grouped(self.reduce(x))))

    return _model_class(m, parts, forward), _image(m, 8)


@model
def densenet(m):
    nn = m.nn
    parts = {
        "layers": nn.ModuleList(
            nn.Sequential(
                nn.BatchNorm2d(4 + 3 * i),
                nn.ReLU(),
                nn.Conv2d(4 + 3 * i, 3, 3, padding=1, bias=False),
            )
            for i in range(3)
        ),
        "transition": nn.Sequential(nn.Conv2d(13, 6, 1), nn.AvgPool2d(2)),
    }

    def forward(self, x):
        found = [x]
        for layer in self.layers:
            found.append(layer(m.cat(found, 1)))
        return self.transition(m.cat(found, 1))

    return _model_class(m, parts, forward), _image(m, 4)


@model
def mobilenet_v2(m):
    nn = m.nn

    def inverted(inputs, outputs, stride):
        body = nn.Sequential(
            _conv_bn(m, inputs, inputs * 3, 1, act=nn.ReLU6(inplace=True)),
            _conv_bn(m, inputs * 3, inputs * 3, 3, stride, inputs * 3, nn.ReLU6()),
            _conv_bn(m, inputs * 3, outputs, 1),
        )
        same = stride == 1 and inputs == outputs
        return _model_class(
            m, {"conv": body}, lambda s, x: x + s.conv(x) if same else s.conv(x)
        )

    net = nn.Sequential(
        _conv_bn(m, 3, 8, 3, 2, act=nn.ReLU6()),
        inverted(8, 8, 1),
        inverted(8, 12, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.0),
        nn.Linear(12, 4),
    )
    return net, _image(m)


@model
def squeezenet(m):
    nn = m.nn

    def forward(self, x):
        x = m.relu(self.squeeze(x))
        x = m.cat([m.relu(self.expand1(x)), m.relu(self.expand3(x))], 1)
        return self.pool(self.final(x)).flatten(1)

    parts = {
        "squeeze": nn.Conv2d(3, 4, 1),
        "expand1": nn.Conv2d(4, 6, 1),
        "expand3": nn.Conv2d(4, 6, 3, padding=1),
        "final": nn.Conv2d(12, 5, 1),
        "pool": nn.AdaptiveAvgPool2d(1),
    }
    return _model_class(m, parts, forward), _image(m)


@model
def inception(m):
    nn = m.nn
    parts = {
        "one": _conv_bn(m, 4, 3, 1, act=nn.ReLU()),
        "tall": nn.Sequential(
            nn.Conv2d(4, 3, (1, 7), padding=(0, 3)),
            nn.Conv2d(3, 3, (7, 1), padding=(3, 0)),
        ),
        "pool": nn.Sequential(nn.MaxPool2d(3, 1, 1), nn.Conv2d(4, 2, 1)),
    }

    def forward(self, x):
        return m.cat([self.one(x), self.tall(x), self.pool(x)], 1)

    return _model_class(m, parts, forward), _image(m, 4)


@model
def efficientnet(m):
    nn = m.nn
    parts = {
        "depthwise": _conv_bn(m, 8, 8, 5, groups=8, act=nn.SiLU()),
        "excite": nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(8, 2, 1),
            nn.SiLU(),
            nn.Conv2d(2, 8, 1),
            nn.Sigmoid(),
        ),
        "project": _conv_bn(m, 8, 4, 1),
    }

    def forward(self, x):
        x = self.depthwise(x)
        return self.project(x * self.excite(x))

    return _model_class(m, parts, forward), _image(m, 8)


@model
def convnext(m):
    nn = m.nn
    parts = {
        "depthwise": nn.Conv2d(6, 6, 7, padding=3, groups=6),
        "norm": nn.LayerNorm(6, eps=1e-6),
        "widen": nn.Linear(6, 24),
        "act": nn.GELU(),
        "narrow": nn.Linear(24, 6),
        "gamma": nn.Parameter(m.full((6,), 0.1)),
    }

    def forward(self, x):
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.gamma * self.narrow(self.act(self.widen(y)))
        return x + y.permute(0, 3, 1, 2)

    return _model_class(m, parts, forward), _image(m, 6)


@model
def unet(m):
    nn = m.nn

    def double(inputs, outputs):
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, padding=1),
            nn.GroupNorm(2, outputs),
            nn.LeakyReLU(0.1),
        )

    parts = {
        "down1": double(3, 4),
        "down2": double(4, 8),
        "pool": nn.MaxPool2d(2),
        "up": nn.ConvTranspose2d(8, 4, 2, 2),
        "last": double(8, 4),
        "head": nn.Conv2d(4, 2, 1),
    }

    def forward(self, x):
        first = self.down1(x)
        second = self.up(self.down2(self.pool(first)))
        return self.head(self.last(m.cat([first, second], 1)))

    return _model_class(m, parts, forward), _image(m)


@model
def autoencoder(m):
    nn = m.nn
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3, 2, 1),
        nn.PReLU(4),
        nn.Conv2d(4, 8, 3, 2, 1),
        nn.PReLU(),
        nn.ConvTranspose2d(8, 4, 3, 2, 1, output_padding=1),
        nn.ELU(),
        nn.Upsample(scale_factor=2, mode="bilinear"),
        nn.Conv2d(4, 1, 3, padding=1),
        nn.Sigmoid(),
    )
    return net, _image(m, 1)


@model
def variational_autoencoder(m):
    nn = m.nn
    parts = {
        "encode": nn.Linear(10, 8),
        "mean": nn.Linear(8, 3),
        "scale": nn.Linear(8, 3),
        "decode": nn.Sequential(nn.Linear(3, 8), nn.Softplus(), nn.Linear(8, 10)),
    }

    def forward(self, x):
        h = m.tanh(self.encode(x))
        mean, scale = self.mean(h), self.scale(h)
        return self.decode(mean + (0.5 * scale).exp()), mean, scale

    return _model_class(m, parts, forward), lambda: (m.randn(4, 10),)


@model
def gan_generator(m):
    nn = m.nn
    net = nn.Sequential(
        nn.ConvTranspose2d(5, 8, 4, 1, 0, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(True),
        nn.ConvTranspose2d(8, 4, 4, 2, 1, bias=False),
        nn.InstanceNorm2d(4, affine=True),
        nn.ReLU(True),
        nn.PixelShuffle(2),
        nn.Tanh(),
    )
    return net, lambda: (m.randn(2, 5, 1, 1),)


@model
def gan_discriminator(m):
    nn = m.nn
    norm = nn.utils.spectral_norm
    net = nn.Sequential(
        norm(nn.Conv2d(3, 4, 4, 2, 1)),
        nn.LeakyReLU(0.2),
        norm(nn.Conv2d(4, 8, 4, 2, 1)),
        nn.Flatten(),
        norm(nn.Linear(128, 1)),
    )
    return net, _image(m)


@model
def vision_transformer(m):
    nn = m.nn
    block = nn.TransformerEncoderLayer(
        12, 3, 24, 0.0, "gelu", batch_first=True, norm_first=True
    )
    parts = {
        "patches": nn.Conv2d(3, 12, 4, 4),
        "cls": nn.Parameter(m.zeros(1, 1, 12)),
        "places": nn.Parameter(m.randn(1, 17, 12) * 0.02),
        "blocks": nn.TransformerEncoder(block, 2, enable_nested_tensor=False),
        "norm": nn.LayerNorm(12),
        "head": nn.Linear(12, 5),
    }

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = m.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.places
        return self.head(self.norm(self.blocks(x))[:, 0])

    return _model_class(m, parts, forward), _image(m)


@model
def gpt(m):
    nn = m.nn

    def attend(self, x):
        count, length, width = x.shape
        q, k, v = (
            each.view(count, length, 2, width // 2).transpose(1, 2)
            for each in self.qkv(x).chunk(3, -1)
        )
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(count, length, width))

    def block():
        attention = _model_class(
            m, {"qkv": nn.Linear(8, 24), "out": nn.Linear(8, 8)}, attend
        )
        parts = {
            "ln1": nn.LayerNorm(8),
            "attn": attention,
            "ln2": nn.LayerNorm(8),
            "mlp": nn.Sequential(nn.Linear(8, 16), nn.GELU("tanh"), nn.Linear(16, 8)),
        }

        def forward(self, x):
            x = x + self.attn(self.ln1(x))
            return x + self.mlp(self.ln2(x))

        return _model_class(m, parts, forward)

    parts = {
        "wte": nn.Embedding(11, 8),
        "wpe": nn.Embedding(16, 8),
        "h": nn.ModuleList([block(), block()]),
        "ln_f": nn.LayerNorm(8),
        "head": nn.Linear(8, 11, bias=False),
    }

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(m.arange(ids.shape[1]))
        for each in self.h:
            x = each(x)
        return self.head(self.ln_f(x))

    net = _model_class(m, parts, forward)
    net.head.weight = net.wte.weight  # tied
    return net, _tokens(m)


@model
def llama(m):
    nn = m.nn
    parts = {
        "embed": nn.Embedding(11, 8),
        "norm": nn.RMSNorm(8, eps=1e-6),
        "gate": nn.Linear(8, 16, bias=False),
        "up": nn.Linear(8, 16, bias=False),
        "down": nn.Linear(16, 8, bias=False),
        "turns": m.arange(7.0).outer(10.0 ** -m.arange(4.0)),
    }

    def forward(self, ids):
        x = self.norm(self.embed(ids))
        a, b = x[..., :4], x[..., 4:]
        cos, sin = self.turns.cos(), self.turns.sin()
        x = m.cat([a * cos - b * sin, a * sin + b * cos], -1)
        return self.down(nn.functional.silu(self.gate(x)) * self.up(x))

    return _model_class(m, parts, forward), _tokens(m)


@model
def bert(m):
    nn = m.nn
    parts = {
        "words": nn.Embedding(11, 8, padding_idx=0),
        "places": nn.Embedding(16, 8),
        "types": nn.Embedding(2, 8),
        "norm": nn.LayerNorm(8, eps=1e-12),
        "attention": nn.MultiheadAttention(8, 2, batch_first=True),
        "output": nn.Linear(8, 8),
        "pooler": nn.Sequential(nn.Linear(8, 8), nn.Tanh()),
        "position_ids": m.arange(16).unsqueeze(0),
    }

    def forward(self, ids):
        places = self.position_ids[:, : ids.shape[1]]
        x = self.words(ids) + self.places(places) + self.types(ids % 2)
        x = self.norm(x)
        y, weights = self.attention(x, x, x, key_padding_mask=ids == 0)
        x = self.norm(x + self.output(y))
        return x, self.pooler(x[:, 0]), weights

    return _model_class(m, parts, forward), _tokens(m)


@model
def seq2seq_transformer(m):
    nn = m.nn
    net = nn.Transformer(8, 2, 2, 2, 16, 0.0, batch_first=True)
    return net, lambda: (m.randn(2, 5, 8), m.randn(2, 4, 8))


@model
def lstm_tagger(m):
    nn = m.nn
    parts = {
        "embed": nn.Embedding(11, 6),
        "lstm": nn.LSTM(6, 5, 2, bidirectional=True, batch_first=True),
        "tags": nn.Linear(10, 4),
    }

    def forward(self, ids):
        return self.tags(self.lstm(self.embed(ids))[0]).log_softmax(-1)

    return _model_class(m, parts, forward), _tokens(m)


@model
def gru_attention(m):
    nn = m.nn
    parts = {
        "embed": nn.Embedding(11, 6),
        "encoder": nn.GRU(6, 6, batch_first=True),
        "cell": nn.GRUCell(6, 6),
        "score": nn.Bilinear(6, 6, 1),
    }

    def forward(self, ids):
        states, last = self.encoder(self.embed(ids))
        state = self.cell(last[0], last[0])
        query = state.unsqueeze(1).expand_as(states).contiguous()
        weights = self.score(query, states).softmax(1)
        return (weights * states).sum(1)

    return _model_class(m, parts, forward), _tokens(m)


@model
def temporal_convolutions(m):
    nn = m.nn
    norm = nn.utils.parametrizations.weight_norm
    net = nn.Sequential(
        norm(nn.Conv1d(3, 6, 3, padding=2, dilation=2)),
        nn.ReLU(),
        norm(nn.Conv1d(6, 4, 3, padding=4, dilation=4)),
        nn.AdaptiveMaxPool1d(3),
    )
    return net, lambda: (m.randn(2, 3, 12),)


@model
def bag_of_words(m):
    nn = m.nn
    net = nn.Sequential(nn.EmbeddingBag(11, 6, mode="mean"), nn.Linear(6, 3))
    return net, _tokens(m)


@model
def mixer(m):
    nn = m.nn
    parts = {
        "norm": nn.LayerNorm(6),
        "tokens": nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 4)),
        "channels": nn.Sequential(nn.Linear(6, 8), nn.Hardswish(), nn.Linear(8, 6)),
    }

    def forward(self, x):
        x = x + self.tokens(self.norm(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm(x))

    return _model_class(m, parts, forward), lambda: (m.randn(2, 4, 6),)


@model
def speech(m):
    nn = m.nn
    parts = {
        "conv": nn.Sequential(nn.Conv2d(1, 2, 3, 2, 1), nn.Hardtanh(0, 20)),
        "rnn": nn.RNN(16, 6, nonlinearity="relu"),
        "norm": nn.BatchNorm1d(6),
        "out": nn.Linear(6, 5),
    }

    def forward(self, x):
        x = self.conv(x).flatten(1, 2).permute(2, 0, 1)
        x = self.rnn(x)[0]
        count = x.shape[:2]
        return self.out(self.norm(x.flatten(0, 1))).view(*count, 5)

    return _model_class(m, parts, forward), _image(m, 1)


@model
def voxels(m):
    nn = m.nn
    net = nn.Sequential(
        nn.Conv3d(1, 4, 3, padding=1),
        nn.BatchNorm3d(4),
        nn.SELU(),
        nn.MaxPool3d(2),
        nn.ConvTranspose3d(4, 2, 2, 2),
    )
    return net, lambda: (m.randn(1, 1, 4, 4, 4),)
