"""Profilers: blocks that are recorded, tables and traces of them.

``python -m benchmarks.profiling`` tells what recording adds to an operator of ours, and how
far totals are from the wall's time.
"""

from __future__ import annotations

import os
import tempfile
import time

from benchmarks.harness import Case, Group, tensors

CALLS = 200


def additions(library, **options):
    """A block of additions that a profiler records, and the events made of it."""
    (a,) = tensors(library, (4,))

    def call():
        with library.profiler.profile(**options) as prof:
            for _ in range(CALLS):
                a + a
        return prof.events()

    return call


def recorded(library):
    """A recording of a network's step."""
    model = library.nn.Sequential(
        library.nn.Linear(64, 64), library.nn.ReLU(), library.nn.Linear(64, 8)
    )
    (x,) = tensors(library, (16, 64))
    with library.profiler.profile(record_shapes=True) as prof:
        for _ in range(10):
            model(x).sum().backward()
    return prof


def table(library):
    prof = recorded(library)
    return lambda: prof.key_averages(group_by_input_shape=True).table()


def groups(quick):
    """The table's rows of profilers."""
    kinds = {
        "plain": {},
        "shapes": {"record_shapes": True},
        "memory": {"profile_memory": True},
        "stacks": {"with_stack": True},
    }
    cases = [
        Case(f"{CALLS} additions, {name}", lambda lib, o=options: additions(lib, **o))
        for name, options in kinds.items()
    ]
    return [
        Group("Profiling", 1.0, cases),
        Group("Tables of profiles", 1.0, [Case("10 steps of a network", table)]),
    ]


def least(call, rounds=200):
    """Seconds of a call: the least of many."""
    found = []
    for _ in range(rounds):
        begun = time.perf_counter()
        call()
        found.append(time.perf_counter() - begun)
    return min(found)


def added(library, **options):
    """Microseconds that recording adds to an operator, the making of events left out."""
    (a,) = tensors(library, (4,))

    def calls():
        for _ in range(CALLS):
            a + a

    times = {"off": [], "on": []}
    for _ in range(50):
        times["off"].append(least(calls, 1))
        with library.profiler.profile(**options):
            times["on"].append(least(calls, 1))
    return {key: 1e6 * min(value) / CALLS for key, value in times.items()}


def discrepancy(library, rounds=20):
    """The least part of the wall's time by which the total of a profile is off."""
    (x,) = tensors(library, (400, 400))
    best = 1.0
    for _ in range(rounds):
        begun = time.perf_counter()
        with library.profiler.profile() as prof:
            with library.profiler.record_function("all"):
                for _ in range(10):
                    library.mm(x, x)
            wall = (time.perf_counter() - begun) * 1e6
        total = prof.key_averages().self_cpu_time_total
        best = min(best, abs(total - wall) / wall)
    return best


def main():
    """Prints what recording adds to an operator, and how far totals are off."""
    import rushlight

    for name, options in (
        ("plain", {}),
        ("shapes", {"record_shapes": True}),
        ("memory", {"profile_memory": True}),
        ("stacks", {"with_stack": True}),
    ):
        found = added(rushlight, **options)
        more = found["on"] - found["off"]
        print(f"{name:8} off {found['off']:.3f} us, on {found['on']:.3f}, +{more:.3f}")
    print(f"totals: {100 * discrepancy(rushlight):.2f} % off the wall's time")
    prof = recorded(rushlight)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        seconds = least(lambda: prof.export_chrome_trace(path), 5)
    print(f"trace of {len(prof.events())} events: {1e3 * seconds:.1f} ms")


if __name__ == "__main__":
    main()
