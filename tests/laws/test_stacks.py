"""Kernels need little stack: threads that have little run them."""

import platform
import re
import struct
import subprocess
import sys
import threading

import pytest

import rushlight
from rushlight.runtime.cpu import code_cache, warm
from rushlight.runtime.cpu.image import body_of

FRAME = 16 * 1024
FUNCTIONS = rushlight.nn.functional


def products():
    """What uses matrix products, convolutions and pooling, in every dtype."""
    for dtype in (
        rushlight.float32,
        rushlight.float64,
        rushlight.int32,
        rushlight.int64,
    ):
        a = rushlight.ones(9, 40, dtype=dtype)
        a @ a.t(), a[0] @ a.t(), a[:, :1].t() @ a, a @ a[0]
        x = rushlight.ones(2, 20, 9, 9, dtype=dtype)
        for rows in (3, 40):
            w = rushlight.ones(rows, 20, 3, 3, dtype=dtype)
            y = FUNCTIONS.conv2d(x, w, stride=2)
            FUNCTIONS.conv2d(x, w)
            FUNCTIONS.conv_transpose2d(y, w, stride=2)
            if dtype.is_floating_point:
                leaves = x.requires_grad_(), w.requires_grad_()
                FUNCTIONS.conv2d(*leaves).sum().backward()
                x = x.detach()
    for dtype in (rushlight.float16, rushlight.bfloat16):
        a = rushlight.ones(9, 40, dtype=dtype)
        a @ a.t(), a[0] @ a.t(), a @ a[0]


def others():
    """Kernels with arrays of their own."""
    x = rushlight.rand(3000)
    for values in (x, x.double(), x.long(), x.half(), x.to(rushlight.bfloat16)):
        values.sort(), values.reshape(30, 100).t().cumsum(0), values.topk(3)
        values.reshape(30, 100).t() + values.reshape(100, 30)
        values.reshape(30, 100).sum(0), values.reshape(30, 100).median(0)
        if values.is_floating_point():
            FUNCTIONS.softmax(values.reshape(30, 100), 1)
            FUNCTIONS.softmax(values.reshape(30, 100), 0)
            rushlight.addcmul(values, values[:1], values, value=0.5)
    rushlight.where(x > 0.5, x.double(), x.double()[:1])
    z = x.to(rushlight.complex64)
    z[::2] * z[1::2] + z[::2] / z[1::2]


def frames(code):
    """What functions take from the stack as they start: ``sub rsp, size``."""
    return [
        struct.unpack("<I", size)[0]
        for size in re.findall(rb"\x48\x81\xec(....)", code, re.DOTALL)
    ]


def watch_kernels():
    """Runs every exercise; returns the number of kernels found, and large frames."""
    found, large = 0, []
    make = code_cache.Image

    def watched(packed, key):
        nonlocal found
        found += 1
        large.extend(
            size for size in frames(bytes(body_of(packed, key))) if size > FRAME
        )
        return make(packed, key)

    code_cache.Image = watched
    for exercise in (*warm.EXERCISES, products, others):
        exercise()
    return found, large


@pytest.mark.skipif(platform.machine() != "x86_64", reason="reads x86-64's code")
def test_no_kernel_takes_more_than_a_small_frame():
    assert frames(b"\x48\x81\xec\x00\x00\x01\x00") == [65536]
    code = "from tests.laws.test_stacks import watch_kernels; print(*watch_kernels())"
    text = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    count, _, large = text.strip().partition(" ")
    assert int(count) > 120 and large == "[]"


def run_with_stack(size, work):
    """Runs a function in a thread of little stack; what it raised."""
    errors = []

    def guarded():
        try:
            work()
        except BaseException as error:
            errors.append(error)

    before = threading.stack_size(size)
    try:
        thread = threading.Thread(target=guarded)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    return errors


@pytest.mark.parametrize("threads", (1, 4))
def test_a_thread_with_a_small_stack_computes(threads):
    """Kernels are found before: compiling them takes the stack that LLVM takes."""

    def work():
        a = rushlight.rand(300, 300)
        assert ((a @ a) - (a @ a)).abs().max() == 0
        x = rushlight.rand(4, 16, 20, 20, requires_grad=True)
        w = rushlight.rand(32, 16, 3, 3, requires_grad=True)
        FUNCTIONS.conv2d(x, w).sum().backward()
        FUNCTIONS.conv2d(x, w[:2]).sum().backward()
        values = rushlight.rand(100000)
        assert (values.sort()[0].diff() >= 0).all()
        FUNCTIONS.softmax(values.reshape(100, 1000), 1).sum()
        (values.reshape(100, 1000).t() + values[:100]).sum()

    before = rushlight.get_num_threads()
    rushlight.set_num_threads(threads)
    try:
        work()
        assert run_with_stack(256 * 1024, work) == []
    finally:
        rushlight.set_num_threads(before)
