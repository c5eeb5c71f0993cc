"""Makes the packs that programs on devices begin with, on a machine without a device.

``python -m rushlight.runtime.cuda.warm`` runs exercises on devices that do nothing, for each
generation of devices, and writes the texts of the kernels that they ask for, a pack for each
generation. Builds of wheels do so (``ship FOLDER``): the first program on a device then waits
for no compiler, and has one module for what a step of most networks needs in place of one for
each kernel. Products and convolutions are NVIDIA's libraries', and not among them.
"""

import contextlib
import ctypes
import itertools
import os
import sys
import zlib
from types import SimpleNamespace

from rushlight.runtime.cpu import code_cache as host_code_cache
from rushlight.runtime.cpu import warm
from rushlight.runtime.cuda import code_cache, contexts, device_kernel, driver


def network():
    """A step of a small network, but for its products: what most programs begin with."""
    import rushlight as rl
    import rushlight.nn.functional as F
    from rushlight import optim

    x, bias = rl.zeros(4, 8, 8, 8), rl.zeros(8, requires_grad=True)
    y = F.max_pool2d(F.relu(x + bias.view(8, 1, 1)), 2)
    optimizer = optim.SGD([bias], lr=0.1, momentum=0.9)
    for size in (2, 1):  # rows of few classes, and of many
        scores = (F.avg_pool2d(y, 4 // size).flatten(2).tanh().mT + bias).flatten(1)
        optimizer.zero_grad()
        F.cross_entropy(scores, rl.arange(4)).backward(retain_graph=True)
        optimizer.step()


EXERCISES = (  # after that
    warm.windows,
    warm.pointwise,
    warm.reductions,
    warm.indexing,
    warm.updates,
)
MEMORY = 1 << 36  # bytes that a device says it has
PLENTY = 1024  # of all other figures
LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 0)


class IdleDriver:
    """A driver whose calls do nothing; what it allocates is an address and no memory.

    Args:
        architectures: of its devices, such as ``"sm_80"``.
    """

    def __init__(self, architectures):
        self.digits = [name.removeprefix("sm_") for name in architectures]
        self.room = []  # of the host, that it was asked for
        numbers = itertools.count(MEMORY, MEMORY)
        self.answers = {
            "cuDeviceGetCount": lambda: len(self.digits),
            "cuDeviceGet": lambda index: index,
            "cuDeviceGetAttribute": self.attribute,
            "cuDeviceGetName": lambda *_: b"idle",
            "cuDeviceGetUuid": lambda _: SimpleNamespace(bytes=bytes(16)),
            "cuDeviceTotalMem": lambda _: MEMORY,
            "cuDriverGetVersion": lambda: 12000,
            "cuMemAlloc": lambda _: next(numbers),
            "cuMemHostAlloc": self.host_memory,
            "cuFuncGetAttribute": lambda *_: PLENTY,
        }

    def attribute(self, which, index):
        """A figure of a device: its generation's number, or plenty."""
        digits = self.digits[index]
        figures = {contexts.MAJOR: int(digits[:-1]), contexts.MINOR: int(digits[-1])}
        return figures.get(which, PLENTY)

    def host_memory(self, n_bytes, flags):
        """The address of room on the host, which is read and written."""
        self.room.append(ctypes.create_string_buffer(n_bytes))
        return ctypes.addressof(self.room[-1])

    def __getattr__(self, name):
        if name.startswith("CU"):
            return int
        if name == "cuGetProcAddress":
            return lambda *_: (0, ctypes.cast(LAUNCH, ctypes.c_void_p).value, 0)
        answer = self.answers.get(name, lambda *_: 1)
        return lambda *args: (0, answer(*args))


class Collector:
    """Stands where a device's modules do, and keeps the texts that it is asked for."""

    def __init__(self):
        self.texts: dict = {}

    def function(self, key, entry, build):
        """A handle of no kernel, whose text is kept."""
        if key not in self.texts:
            self.texts[key] = zlib.compress(build().encode(), 9)
        return len(self.texts)

    def join(self):
        """Leaves no bundle."""


@contextlib.contextmanager
def idle_devices(architectures):
    """Puts devices that do nothing in place of the machine's.

    Args:
        architectures: of the devices.
    """
    door = driver.Driver(IdleDriver(architectures))
    contexts.forget()
    before = driver.replace(door)
    try:
        door.start()
        yield
    finally:
        contexts.forget()
        driver.replace(before)


def texts_of(devices, exercises) -> dict:
    """The texts that exercises ask for, by their kernels' keys.

    Args:
        devices: numbers of two alike that do nothing. On the second threads take several
            elements as soon as there are some: what is planned for the first is not
            asked for again there.
        exercises: functions whose tensors lie on the default device.
    """
    import rushlight as rl

    usual, texts = device_kernel.WIDE_FROM, {}
    try:
        for index, device_kernel.WIDE_FROM in zip(devices, (usual, 1), strict=True):
            modules = contexts.ctx(index).modules = Collector()
            with rl.device(f"cuda:{index}"):
                for exercise in exercises:
                    exercise()
            texts |= modules.texts
    finally:
        device_kernel.WIDE_FROM = usual
    return texts


def ship(folder: str, names) -> int:
    """Writes a pack for each of some generations of devices; returns how many those are.

    Args:
        folder: where they go.
        names: of the generations, such as ``"sm_80"``.
    """
    os.makedirs(folder, exist_ok=True)
    with idle_devices([*names, *names]):
        for n, name in enumerate(names):
            devices = n, n + len(names)
            common = texts_of(devices, [network])
            texts = common | texts_of(devices, EXERCISES)
            texts[code_cache.COMMON] = b"".join(common)
            data = host_code_cache.joined(texts)
            path = code_cache.pack_path(name, folder)
            host_code_cache.write_atomically(path, data)
            size = f"{len(data) >> 10} KiB"
            print(f"{len(texts) - 1} kernels for {name}, {len(common)} of most: {size}")
    return len(names)


def main(arguments: list) -> int:
    """Writes the packs of all generations, by default where the package looks for them."""
    if arguments and (arguments[0] != "ship" or len(arguments) != 2):
        print("usage: python -m rushlight.runtime.cuda.warm [ship FOLDER]")
        return 2
    from rushlight.codegen.target import GPUS

    folder = arguments[1] if arguments else code_cache.PACKS
    return int(not ship(folder, [name for name in GPUS if name[3:].isdigit()]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
