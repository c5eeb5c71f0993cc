"""The cost of a call on a card that does nothing: a driver that returns at once.

``python -m benchmarks.launching`` puts the imagined card of the tests in place, lets each call
run once, then has launches, products and convolutions go to functions that return at once, and
times the calls: what is left is the framework's own. What else of the driver a call asks for
goes through the tests' stand-in, which is Python, and counts.
"""

from __future__ import annotations

import time
from types import SimpleNamespace

import llvmlite.binding as llvm

import rushlight as rl
from rushlight.nn import functional
from rushlight.runtime.cuda import libraries
from rushlight.runtime.cuda.launch import set_entry
from tests.cuda import conftest, dnn
from tests.cuda.test_training import LeNet

CALLS = {
    "a + b": lambda a, b, w: a + b,
    "a + b, broadcast": lambda a, b, w: a + w,
    "a * 2": lambda a, b, w: a * 2.0,
    "a.add_(b)": lambda a, b, w: a.add_(b),
    "relu": lambda a, b, w: a.relu(),
    "empty": lambda a, b, w: rl.empty(8, 8, device="cuda"),
    "empty_like": lambda a, b, w: rl.empty_like(a),
    "copy_": lambda a, b, w: a.copy_(b),
    "sum": lambda a, b, w: a.sum(),
    "sum over a dimension": lambda a, b, w: a.sum(1),
    "softmax": lambda a, b, w: a.softmax(1),
    "layer_norm": lambda a, b, w: functional.layer_norm(a, (8,), w, w),
    "linear": lambda a, b, w: functional.linear(a, b, w),
}


def network_calls():
    """Calls by name: a convolution, and LeNet's outputs and step."""
    image, weight, bias = (
        rl.ones(size, device="cuda") for size in ((2, 4, 8, 8), (8, 4, 3, 3), (8,))
    )
    model = LeNet().to("cuda")
    optimizer = rl.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x, y = rl.ones(8, 1, 12, 12, device="cuda"), rl.arange(8, device="cuda")

    def step():
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    def outputs():
        with rl.no_grad():
            model(x)

    return {
        "conv2d": lambda: functional.conv2d(image, weight, bias),
        "LeNet, outputs": outputs,
        "LeNet, a step with SGD": step,
    }


def idle_entry():
    """A function that takes what it is given and returns 0, and what keeps it."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly("define i32 @idle() { ret i32 0 }")
    machine = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine.get_function_address("idle"), engine


def idle(*args, **named):
    """A function of a library that returns at once."""


def idle_libraries():
    """Has products and convolutions that were prepared cost nothing."""
    libraries.CUBLAS_LT.found = SimpleNamespace(matmul=idle)
    libraries.CUDNN.found = SimpleNamespace(set_stream=idle)
    dnn.Graph.execute = idle


def least(call, turns=100, samples=40):
    """Microseconds of a call: the least of many samples."""
    found = []
    for _ in range(samples):
        begun = time.perf_counter()
        for _ in range(turns):
            call()
        found.append((time.perf_counter() - begun) / turns)
    return min(found) * 1e6


def main():
    """Prints a row for each call."""
    with conftest.imagined(conftest.Machine()) as machine:
        machine.start(cards=1, memory=1 << 28)
        a, b = (rl.ones(8, 8, device="cuda") for _ in range(2))
        w = rl.ones(8, device="cuda")
        here = rl.ones(8, 8)
        calls = {n: (lambda f=f: f(a, b, w)) for n, f in CALLS.items()}
        calls |= network_calls()
        calls["a + b on the host"] = lambda: here + here
        for call in calls.values():
            for _ in range(3):
                call()
        machine.fake.drain()
        address, engine = idle_entry()
        set_entry(address)
        idle_libraries()
        print("| call | us |\n| --- | --- |")
        for name, call in calls.items():
            print(f"| {name} | {least(call):.2f} |")
        del engine


if __name__ == "__main__":
    main()
