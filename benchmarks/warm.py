"""What compiling costs: the first calls of a training step, and memory at its peak.

python -m benchmarks.warm [NAME ...]

Each model has a process of its own, without PyTorch: collecting its half a million objects
takes longer than all that is measured here. First with no kernels on disk, then with all.
Processor time of ``compile`` and of three calls, less that of three uncompiled calls which
are warm; the kernels of the uncompiled step are there by then.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

BATCH = 8


def spent(call):
    """Processor time of a call, in milliseconds."""
    start = time.process_time()
    call()
    return (time.process_time() - start) * 1e3


def measure(name):
    """What compiling a model's step costs in this process."""
    import rushlight
    from benchmarks.models import step_of

    plain = step_of(rushlight, name, BATCH)
    for _ in range(3):
        plain()
    usual = min(spent(plain) for _ in range(3))
    step = step_of(rushlight, name, BATCH)
    step()  # the optimizer's state is there
    made = []
    first = spent(lambda: made.append(rushlight.compile(step)))
    (compiled,) = made
    first += sum(spent(compiled) for _ in range(3)) - 3 * usual
    return {"ms": first, "plain": peak_of(plain), "compiled": peak_of(compiled)}


def peak_of(call):
    """The most memory that tensors had during a call, in bytes, above what was there."""
    import rushlight

    watched = rushlight.cpu
    watched.reset_peak_memory_stats()
    before = watched.memory_allocated()
    call()
    return watched.max_memory_allocated() - before


def in_a_process(name, cache):
    """`measure` in a process of its own."""
    found = subprocess.run(
        [sys.executable, "-m", "benchmarks.warm", "--measure", name],
        env={**os.environ, "RUSHLIGHT_CACHE": cache},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(found.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure:
        print(json.dumps(measure(asked.measure)))
        return
    from benchmarks.models import MODELS

    print(
        "| program | no kernels on disk | all on disk | peak memory, uncompiled | compiled |"
    )
    print("| --- | ---: | ---: | ---: | ---: |")
    for name in asked.names or MODELS:
        with tempfile.TemporaryDirectory() as cache:
            cold = in_a_process(name, cache)
            warm = min(
                (in_a_process(name, cache) for _ in range(3)), key=lambda m: m["ms"]
            )
        cells = [f"{cold['ms']:.0f} ms", f"{warm['ms']:.0f} ms"]
        cells += [f"{warm[kind] / 2**20:.2f} MiB" for kind in ("plain", "compiled")]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
