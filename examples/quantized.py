"""One network in floats and in fewer bits, by every recipe: how many pictures stay right.

python examples/quantized.py
python examples/quantized.py --backend torch    # the same script on PyTorch
"""

import copy
import json
import warnings

from report import Progress, accuracy, draw, options, start, torch
from shapes import shapes

nn, F, q = torch.nn, torch.nn.functional, torch.ao.quantization
KINDS, GROUP = 6, 32


class Net(nn.Module):
    """Two convolutions and two linear layers, with marks where bytes begin and end."""

    def __init__(self):
        super().__init__()
        self.begin, self.end = q.QuantStub(), q.DeQuantStub()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU(),
        )  # fmt: skip
        self.hidden, self.out = nn.Linear(32 * 36, 64), nn.Linear(64, KINDS)

    def forward(self, x):
        x = self.features(self.begin(x)).flatten(1)
        return self.end(self.out(F.relu(self.hidden(x))))


class WeightOnly(nn.Module):
    """A linear layer of floats by a weight of bytes, or of half bytes in groups."""

    def __init__(self, layer, bits):
        super().__init__()
        weight, self.bias, self.bits = layer.weight.detach(), layer.bias.detach(), bits
        if bits == 8:
            self.scales = weight.abs().amax(1) / 127
            self.packed = (weight / self.scales[:, None]).round().to(torch.int8)
            return
        parts = weight.view(len(weight), -1, GROUP)
        low, high = parts.amin(-1), parts.amax(-1)
        scale = (high - low) / 15
        steps = ((parts - low[..., None]) / scale[..., None]).round().clamp(0, 15)
        steps = steps.view(weight.shape).to(torch.int32)
        self.packed = torch._convert_weight_to_int4pack_for_cpu(steps, 1)
        self.scales = torch.stack([scale, low + 8 * scale], -1).transpose(0, 1)
        self.scales = self.scales.to(torch.bfloat16).contiguous()

    def forward(self, x):
        x = x.to(torch.bfloat16)
        if self.bits == 8:
            scales = self.scales.to(torch.bfloat16)
            return torch._weight_int8pack_mm(x, self.packed, scales).float() + self.bias
        found = torch._weight_int4pack_mm_for_cpu(x, self.packed, GROUP, self.scales)
        return found.float() + self.bias


def learn(model, data, args, title, epochs, lr):
    """Losses of the steps."""
    loader = torch.utils.data.DataLoader(data, args.batch_size, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    progress = Progress(title, epochs * len(loader))
    model.train()
    for _ in range(epochs):
        for images, labels in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            progress.add(loss.item())
    progress.close()
    return progress.losses


def recipes(model, data, args):
    """The network by each recipe; it is in floats itself."""
    layers = [["features.0", "features.1", "features.2"]]
    layers += [["features.3", "features.4", "features.5"]]
    yield "float", model
    yield "dynamic", q.quantize_dynamic(copy.deepcopy(model), {nn.Linear})
    static = q.fuse_modules(copy.deepcopy(model).eval(), layers)
    static.qconfig = q.get_default_qconfig("fbgemm")
    q.prepare(static, inplace=True)
    static(data.tensors[0][:256])
    yield "static", q.convert(static)
    trained = q.fuse_modules_qat(copy.deepcopy(model).train(), layers)
    trained.qconfig = q.get_default_qat_qconfig("fbgemm")
    q.prepare_qat(trained, inplace=True)
    learn(trained, data, args, "trained for it", 1, args.lr / 10)
    yield "trained for it", q.convert(trained.eval())
    for bits in 8, 4:
        small = copy.deepcopy(model)
        small.hidden = WeightOnly(small.hidden, bits)
        yield f"weights of {bits} bits", small


def main():
    warnings.filterwarnings("ignore", category=UserWarning)
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    parser = options(__doc__, "quantized", epochs=4, batch_size=32, lr=2e-3)
    parser.add_argument("--images", type=int, default=2880)
    parser.add_argument("--tested", type=int, default=1200)
    args = parser.parse_args()
    start(args)
    torch.backends.quantized.engine = "fbgemm"
    data = shapes(args.images, size=24, kinds=KINDS, seed=1, noise=0.1)
    data = torch.utils.data.TensorDataset(*data)
    test = shapes(args.tested, size=24, kinds=KINDS, seed=2, noise=0.1)
    torch.manual_seed(args.seed)
    model = Net()
    losses = learn(model, data, args, "float", args.epochs, args.lr)
    right = {}
    for title, small in recipes(model.eval(), data, args):
        small.eval()
        right[title] = accuracy(small, *test)
        print(f"  {title}: {right[title]:.2f} % of new pictures right")
    history = {"backend": args.backend, "losses": losses, "accuracy": right}
    (args.out / "history.json").write_text(json.dumps(history))
    draw(args.out / "curves.png", {"Loss": {"float": losses}})


if __name__ == "__main__":
    main()
