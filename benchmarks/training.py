"""Whole training steps: forward, backward, optimizer."""

from benchmarks.harness import Case, Group, tensors
from benchmarks.models import lenet, perceptron


def step(build, shape, optimizer):
    """A training step of a model on one batch of random images."""

    def make(library):
        library.manual_seed(0)
        model = build(library)
        optimizers = {
            "SGD": lambda p: library.optim.SGD(p, lr=1e-3, momentum=0.9),
            "Adam": lambda p: library.optim.Adam(p, lr=1e-4),
        }
        update = optimizers[optimizer](model.parameters())
        (images,) = tensors(library, shape)
        labels = library.randint(0, 10, (shape[0],))

        def call():
            update.zero_grad()
            loss = library.nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            update.step()

        return call

    return make


def groups(quick):
    """The table's row for training."""
    cases = []
    for batch in 1, 64:
        for name in "SGD", "Adam":
            images, flat = (batch, 1, 28, 28), (batch, 784)
            cases.append(
                Case(f"LeNet, batch {batch}, {name}", step(lenet, images, name))
            )
            cases.append(
                Case(f"MLP, batch {batch}, {name}", step(perceptron, flat, name))
            )
    return [Group("training step of LeNet and MLP, against eager PyTorch", 0.70, cases)]
