"""Compiled programs: training steps and inference.

Beside the same programs uncompiled, and beside PyTorch: its training steps eager, or compiled
where ``$BENCHMARK_TORCH_COMPILE`` is set (each takes half a minute to compile, and needs a
C++ compiler), whichever is faster; for inference ONNX Runtime and OpenVINO where they are
installed (``pip install rushlight[benchmarks]``), else PyTorch.
"""

import importlib
import io
import os
import time
import warnings

import torch

import rushlight
from benchmarks.harness import Case, Group
from benchmarks.models import MODELS, answer_of, prepared, step_of


def training(name, batch):
    """A case: the training step of a model, compiled and not."""
    return beside_itself(step_of, name, batch)


def inference(name, batch):
    """A case: a model's answer, compiled and not."""
    return beside_itself(answer_of, name, batch)


def beside_itself(make, name, batch):
    """A case whose second is the first without ``compile``, not PyTorch."""

    def call(library):
        made = make(rushlight, name, batch)
        return settled(rushlight.compile(made) if library is rushlight else made)

    return Case(f"{name}, batch {batch}", call)


def beside_pytorch(name, batch):
    """A case: the compiled training step, and the faster of PyTorch's."""

    def call(library):
        made = step_of(library, name, batch)
        if library is rushlight:
            return settled(rushlight.compile(made))
        calls = [settled(made)]
        if os.environ.get("BENCHMARK_TORCH_COMPILE"):
            torch._dynamo.reset()
            calls.append(settled(torch.compile(step_of(torch, name, batch))))
        return fastest(calls)

    return Case(f"{name}, batch {batch}", call)


def beside_runtimes(name, batch):
    """A case: a compiled answer, and that of the fastest runtime there is."""

    def call(library):
        if library is rushlight:
            return settled(rushlight.compile(answer_of(rushlight, name, batch)))
        calls = [runtime(name, batch) for runtime in (onnx_answer, openvino_answer)]
        calls = [settled(one) for one in calls if one is not None]
        return fastest(calls or [settled(answer_of(torch, name, batch))])

    return Case(f"{name}, batch {batch}", call)


def onnx_answer(name, batch):
    """The answer by ONNX Runtime; None where it is not installed, or has no such model."""
    runtime = installed("onnxruntime")
    if runtime is None:
        return None
    model, images = prepared(torch, name, batch)
    written = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            torch.onnx.export(model.eval(), (images,), written, dynamo=False)
        except TypeError:  # PyTorch cannot write what encoders ask of attention
            return None
    options = runtime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = runtime.InferenceSession(
        written.getvalue(), options, providers=["CPUExecutionProvider"]
    )
    given = {session.get_inputs()[0].name: images.numpy()}
    return lambda: session.run(None, given)


def openvino_answer(name, batch):
    """The answer by OpenVINO; None where it is not installed."""
    runtime = installed("openvino")
    if runtime is None:
        return None
    model, images = prepared(torch, name, batch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        read = runtime.convert_model(model.eval(), example_input=images)
    threads = {
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        "INFERENCE_PRECISION_HINT": "f32",  # or products are of bfloat16
    }
    request = runtime.compile_model(read, "CPU", threads).create_infer_request()
    given = [runtime.Tensor(images.numpy(), shared_memory=True)]
    return lambda: request.infer(given)


def installed(name):
    """A module that may be missing."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def fastest(calls):
    """The call that takes the least time."""

    def least(call):
        times = []
        for _ in range(5):
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        return min(times)

    return min(calls, key=least)


def settled(call):
    """The call, once all is built."""
    for _ in range(4):
        call()
    return call


def groups(quick):
    """The table's rows for compiled programs."""
    names = list(MODELS)[: 3 if quick else None]
    several = [(name, batch) for name in names for batch in (8, 64)]
    few = [(name, batch) for name in names for batch in (1, 8)]
    return [
        Group(
            "compiled training step, against the same one uncompiled",
            0.85,
            [training(*one) for one in several],
        ),
        Group(
            "compiled inference, against the same one uncompiled",
            0.85,
            [inference(*one) for one in few],
        ),
        Group(
            "compiled training step, against the faster of PyTorch's",
            0.6,
            [beside_pytorch(*one) for one in several],
        ),
        Group(
            "compiled inference, against the fastest of ONNX Runtime and OpenVINO",
            1.0,
            [beside_runtimes(*one) for one in few],
        ),
    ]
