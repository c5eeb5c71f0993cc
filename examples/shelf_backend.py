"""A device of one's own: memory that no kernel here can reach, and a training step on it.

Run: python examples/shelf_backend.py
"""

import bisect
import ctypes

import rushlight as rl
from rushlight import nn
from rushlight.backends import Backend, register_backend
from rushlight.core import device_roles
from rushlight.library import Library

PAGE = 4096


class Rows(device_roles.Memory):
    """Rows of bytes, found by numbers that are no pointers."""

    def __init__(self, name):
        super().__init__(name)
        self.rows = {}
        self.starts = []
        self.used = PAGE

    def allocate(self, n_bytes, device):
        address = self.used
        self.used += (n_bytes + PAGE - 1) // PAGE * PAGE
        self.rows[address] = bytearray(n_bytes)
        self.starts.append(address)
        return address

    def free(self, address, n_bytes, device):
        del self.rows[address]
        self.starts.remove(address)

    def bytes_at(self, address, n_bytes):
        """The bytes from an address on, which may lie within a row."""
        start = self.starts[bisect.bisect_right(self.starts, address) - 1]
        return memoryview(self.rows[start])[address - start :][:n_bytes]

    def copy_bytes(self, target, to, source, of, n_bytes, non_blocking=False):
        if of.type == "cpu":
            data = ctypes.string_at(source, n_bytes)
        else:
            data = bytes(self.bytes_at(source, n_bytes))
        if to.type == "cpu":
            ctypes.memmove(target, data, n_bytes)
        else:
            self.bytes_at(target, n_bytes)[:] = data


class AtOnce(device_roles.Streams):
    """Work is done at once: there is nothing to wait for."""

    waits = 0

    def synchronize(self, device):
        self.waits += 1


class Shelf(Backend):
    """One device, which has memory and no kernels."""

    def __init__(self):
        super().__init__("shelf")
        self.memory, self.streams = Rows("shelf"), AtOnce("shelf")

    def device_count(self):
        return 1


def fetched(value):
    """The same on the host: of a tensor, a list of them, or a device."""
    if isinstance(value, rl.Tensor):
        return value.detach().cpu()
    if isinstance(value, (list, tuple)):
        return type(value)(map(fetched, value))
    return rl.device("cpu") if isinstance(value, rl.device) else value


def shelved(value):
    """The same on the shelf."""
    if isinstance(value, rl.Tensor):
        return value.to("privateuseone")
    if isinstance(value, (list, tuple)):
        return type(value)(map(shelved, value))
    return value


def through_the_host(op, *args):
    """Computes any operator on copies; what it writes goes back."""
    given = [fetched(arg) for arg in args]
    result = op.redispatch(None, *given)
    for row, arg, here in zip(op.signature.rows, args, given):
        if row[5] & 1:  # the schema says that it is written
            arg.copy_(here)
            result = arg if result is here else result
    return shelved(result)


def install():
    """Registers the backend, and a fallback for the kernels that it does not have."""
    shelf = Shelf()
    before = register_backend("privateuseone", shelf)
    library = Library("aten", "IMPL", "PrivateUse1")
    library.fallback(through_the_host)
    return shelf, library, before


def lenet():
    """LeNet-5 for pictures of 28 x 28, with maxima and ReLU."""
    return nn.Sequential(
        *(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        *(nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU()),
        nn.Linear(84, 10),
    )


def train(device, steps=5):
    """The losses of a small LeNet in training, and what it has learned."""
    rl.manual_seed(0)
    model = lenet().to(device)
    optimizer = rl.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    pictures, digits = rl.randn(8, 1, 28, 28), rl.randint(10, (8,))
    inputs, targets = pictures.to(device), digits.to(device)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, [p.detach().cpu() for p in model.parameters()]


if __name__ == "__main__":
    rl.utils.rename_privateuse1_backend("shelf")
    shelf, library, _ = install()
    there, here = train("shelf"), train("cpu")
    print("on the shelf:", [round(loss, 4) for loss in there[0]])
    print("on the host: ", [round(loss, 4) for loss in here[0]])
    print("rows left:", len(shelf.memory.rows))
