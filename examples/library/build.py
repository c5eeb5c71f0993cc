"""Writes LeNet, an encoder and a training step as libraries without Python.

    python examples/library/build.py build/library
    cd build/library
    gcc -O2 -I. -o run ../../examples/library/main.c -L. -llenet -lencoder -lstep -Wl,-rpath,.
    ./run

The program in C runs them on the arrays that are written here, compares the results with
those of Python, and says how long a run takes; so does this script, in Python.
"""

import sys
import time
from pathlib import Path

import rushlight as torch
from rushlight import nn
from rushlight.export import aot_compile, export


def lenet():
    """The network of ``examples/mnist.py`` in its oldest form."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(256, 84), nn.ReLU(), nn.Linear(84, 10),
        nn.LogSoftmax(1),
    )  # fmt: skip


def training_step():
    """A function that trains a small network, and its arguments."""
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 3))
    update = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x, target):
        update.zero_grad()
        loss = nn.functional.cross_entropy(model(x), target)
        loss.backward()
        update.step()
        return loss

    return step, (torch.randn(16, 8), torch.randint(0, 3, (16,)))


def seconds(function, args, runs=200):
    """The shortest of some runs."""
    found = []
    for _ in range(runs):
        start = time.perf_counter()
        function(*args)
        found.append(time.perf_counter() - start)
    return min(found)


def write(folder, name, program, args, function):
    """A library, its arguments and what they should give."""
    aot_compile(program, args, directory=folder, name=name)
    for at, one in enumerate(args):
        (folder / f"{name}.input{at}").write_bytes(one.numpy().tobytes())
    with torch.set_grad_enabled(name == "step"):
        result = function(*args)
        (folder / f"{name}.output0").write_bytes(result.detach().numpy().tobytes())
        print(f"{name}: {1e6 * seconds(function, args):.1f} us in Python")


def main(folder):
    """Writes everything into a folder."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    models = {
        "lenet": (lenet().eval(), (torch.randn(4, 1, 28, 28),)),
        "encoder": (
            nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).eval(),
            (torch.randn(2, 16, 64),),
        ),
    }
    for name, (model, args) in models.items():
        write(folder, name, export(model, args), args, model)
    step, args = training_step()
    write(folder, "step", step, args, step)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/library"))
