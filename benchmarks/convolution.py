"""Convolutions of ResNet-50 and LeNet: forward, and both gradients."""

from benchmarks.harness import Case, Group, tensors

# Name: batch, channels in, size, channels out, kernel, stride, padding.
LAYERS = {
    "LeNet conv1": (64, 1, 28, 6, 5, 1, 2),
    "LeNet conv2": (64, 6, 14, 16, 5, 1, 0),
    "ResNet stem": (4, 3, 224, 64, 7, 2, 3),
    "ResNet 1x1 56": (4, 64, 56, 256, 1, 1, 0),
    "ResNet 3x3 56": (4, 64, 56, 64, 3, 1, 1),
    "ResNet 3x3 28": (4, 128, 28, 128, 3, 1, 1),
    "ResNet 3x3 28 stride 2": (4, 128, 56, 128, 3, 2, 1),
    "ResNet 3x3 14": (4, 256, 14, 256, 3, 1, 1),
    "ResNet 3x3 7": (4, 512, 7, 512, 3, 1, 1),
    "ResNet 1x1 7": (4, 2048, 7, 512, 1, 1, 0),
}
QUICK = "LeNet conv1", "LeNet conv2", "ResNet 3x3 56", "ResNet 1x1 56", "ResNet 3x3 14"


def operands(library, layer, input_grad=False, weight_grad=False):
    batch, channels, size, filters, kernel, stride, padding = layer
    x, w, b = tensors(
        library,
        (batch, channels, size, size),
        (filters, channels, kernel, kernel),
        (filters,),
    )
    x.requires_grad_(input_grad)
    w.requires_grad_(weight_grad)

    def forward():
        return library.nn.functional.conv2d(x, w, b, stride, padding)

    return x, w, forward


def forward(layer):
    return lambda library: operands(library, layer)[2]


def backward(layer, to_input):
    def make(library):
        x, w, run = operands(library, layer, to_input, not to_input)
        output = run()
        grad = library.ones_like(output)
        wanted = x if to_input else w
        return lambda: library.autograd.grad(output, wanted, grad, retain_graph=True)

    return make


def groups(quick):
    """The table's row for convolutions."""
    cases = []
    for name, layer in LAYERS.items():
        if quick and name not in QUICK:
            continue
        cases.append(Case(f"{name}, forward", forward(layer)))
        cases.append(Case(f"{name}, input's gradient", backward(layer, True)))
        cases.append(Case(f"{name}, weight's gradient", backward(layer, False)))
    title = "convolution forward and both backwards, layers of ResNet-50 and LeNet"
    return [Group(title, 1.00, cases)]
