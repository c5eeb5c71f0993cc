"""Runs many cases in processes of their own, which may die or never end.

python -m tests.fuzz --cases 100000 --jobs 2
python -m tests.fuzz --case 4711 -v        # one case again, in this process
python -m tests.fuzz --only '^index' --cases 5000
python -m tests.fuzz --seed 7 --ledger done.json   # goes on where a run ended
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback

from tests.fuzz.ledger import Ledger

BATCH = 4000  # cases of one process: it starts in a few seconds
PATIENCE = 60  # seconds for one case: kernels may have to be compiled
START = 300  # seconds for a process to begin, on a busy machine
MEMORY = 6 << 30
GUARDED = {**os.environ, "RUSHLIGHT_GUARD": "1"}  # a write beside a block is a crash
HOARD = 1 << 30  # bytes of one call, after which a process is of no more use


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", default="", help="of operators whose name matches")
    parser.add_argument("--case", type=int, help="one case, in this process")
    parser.add_argument("--json", help="write every difference to this file")
    parser.add_argument("--ledger", help="leave out what this file says is done")
    parser.add_argument(
        "--alone", choices=("torch", "rushlight"), help=argparse.SUPPRESS
    )
    parser.add_argument("--worker", nargs=2, type=int, help=argparse.SUPPRESS)
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args()
    if options.worker:
        return work(options)
    if options.alone:
        return alone(options)
    if options.case is not None:
        return show(options)
    return supervise(options)


def show(options):
    from tests.fuzz import draw, judge

    case = draw.draw(options.seed, options.case)
    print(case)
    if case is None:
        return 0
    for module in (judge.torch, judge.rushlight):
        if judge.lookup(module, case.path) is None:
            print(f"{module.__name__}: no {case.path[1]}")
            continue
        answer = judge.call(module, case)
        print(f"{module.__name__}: {answer.result if answer.error is None else ''}")
        if answer.error is not None and options.verbose:
            traceback.print_exception(answer.error)
        elif answer.error is not None:
            print(f"  {type(answer.error).__name__}: {answer.error}")
    print(judge.compare(case))
    return 0


def alone(options):
    """One library's part of a case, in this process, and nothing of the other's."""
    from tests.fuzz import draw, judge

    case = draw.draw(options.seed, options.case)
    begun = time.monotonic()
    judge.their_gradients(
        judge.call(getattr(judge, options.alone), case), own_gradients(options.alone)
    )
    print(time.monotonic() - begun)
    return 0


def own_gradients(name):
    from tests.fuzz import judge

    return lambda answer, _: judge.gradients(answer, getattr(judge, name))


def work(options):
    """One process: a line before each case, and one for each difference."""
    import resource

    import torch

    from tests.fuzz import draw, judge, known

    if "asan" not in os.environ.get("LD_PRELOAD", ""):  # its map of memory is larger
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    torch.set_num_threads(1)
    judge.rushlight.set_num_threads(1)
    only = re.compile(options.only)
    for index in range(*options.worker):
        name = draw.operators()[draw.chosen(options.seed, index)][0].name
        if not only.search(name):
            continue
        say(["start", index])
        case = draw.draw(options.seed, index)
        if case is None or not judge.present(case):
            continue
        before = resident()
        judge.their_gradients(judge.call(torch, case))  # a crash here is PyTorch's
        if case.twice:
            twice = judge.gradients_of_gradients
            judge.their_gradients(judge.call(torch, case), twice)
        if resident() > before + HOARD:  # so is memory that is never given back
            return 1
        say(["ours", index, str(case)])
        try:
            found = judge.compare(case)
        except Exception as error:
            text = "".join(traceback.format_exception(error)[-2:])
            found = ("judge", f"{type(error).__name__}: {text}")
        why = known.explanation(case, *found) if found else None
        if found and not why:
            say(["differs", index, case.path[1], *found, str(case)])
        elif found:
            say(["explained", index, why])
    say(["end", options.worker[1]])
    return 0


def resident():
    """Bytes of this process that are in memory."""
    with open("/proc/self/statm", encoding="utf-8") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def say(row):
    print(json.dumps(row), flush=True)


class Run:
    """A worker process over a range of cases, restarted behind each fatal one."""

    def __init__(self, options, start, stop):
        self.options, self.next, self.stop = options, start, stop
        self.start, self.differences, self.counts = start, [], collections.Counter()
        self.launch()

    def launch(self):
        # two descriptions of one file: the worker's place in it is its own
        written = tempfile.NamedTemporaryFile("w", encoding="utf-8")
        self.log = open(written.name, encoding="utf-8")
        self.read_to, self.last, self.phase = 0, self.next, "launch"
        self.text = ""
        command = [sys.executable, "-m", "tests.fuzz", "--seed", str(self.options.seed)]
        command += ["--only", self.options.only]
        command += ["--worker", str(self.next), str(self.stop)]
        self.process = subprocess.Popen(
            command, stdout=written, stderr=subprocess.PIPE, env=GUARDED
        )
        written.close()
        self.seen = time.monotonic() + START

    def follow(self):
        """Reads new lines; True while the range is not done."""
        ended = self.process.poll() is not None
        self.log.seek(self.read_to)
        for line in self.log:
            if not line.endswith("\n"):
                break
            self.read_to += len(line.encode())
            if line.startswith("["):  # libraries may print as well
                self.take(json.loads(line))
        if self.phase == "end":
            self.process.wait()
            return False
        if ended or time.monotonic() - self.seen > PATIENCE:
            self.process.kill()
            self.process.wait()
            if self.phase == "launch":
                said = self.process.stderr.read().decode()
                raise SystemExit(f"a worker did not start:\n{said}")
            kind = "crash" if ended else "hang"
            if self.phase == "ours" and (text := self.ours(kind)):
                self.differences.append([self.last, "", kind, text, self.text])
            else:
                self.counts[f"PyTorch's {kind}"] += 1
            self.next = self.last + 1
            if self.next >= self.stop:
                return False
            self.launch()
        return True

    def ours(self, kind):
        """What Rushlight does alone that PyTorch does not; None where it does well.

        A process has both in it: PyTorch may have written over memory that is not its
        own, and what takes it minutes may take us as long.
        """
        seconds = {}
        for name, patience in (("torch", 5 * PATIENCE), ("rushlight", PATIENCE)):
            command = [sys.executable, "-m", "tests.fuzz", "--seed"]
            command += [
                str(self.options.seed),
                "--case",
                str(self.last),
                "--alone",
                name,
            ]
            limit = START + max(patience, 4 * seconds.get("torch", 0.0))
            try:
                done = subprocess.run(
                    command, capture_output=True, text=True, timeout=limit
                )
            except subprocess.TimeoutExpired:
                seconds[name] = float("inf")
                continue
            if done.returncode:
                if name == "torch":
                    return None
                return done.stderr.strip()[-200:] or f"exit status {done.returncode}"
            seconds[name] = float(done.stdout.split()[-1])
        allowed = max(PATIENCE, 4 * seconds["torch"])
        return None if seconds["rushlight"] <= allowed else f"{kind}: {seconds}"

    def take(self, row):
        self.seen = max(self.seen, time.monotonic())
        kind = row[0]
        if kind in ("start", "ours", "end"):
            self.phase, self.last = kind, row[1]
            self.text = row[2] if kind == "ours" else ""
            self.counts["cases"] += kind == "ours"
        elif kind == "differs":
            self.differences.append(row[1:])
        else:
            self.counts[row[2]] += 1


def supervise(options):
    if options.ledger and options.only:
        raise SystemExit("a ledger counts numbers of all operators: leave out --only")
    ledger = Ledger(options.ledger, options.seed)
    end = options.first + options.cases
    waiting = ledger.missing(options.first, end, BATCH)
    running, differences, counts = [], [], collections.Counter()
    while waiting or running:
        while waiting and len(running) < options.jobs:
            running.append(Run(options, *waiting.pop(0)))
        for run in list(running):
            if not run.follow():
                running.remove(run)
                differences += run.differences
                counts += run.counts
                ledger.add(run.start, run.stop, run.counts["cases"], run.differences)
                print(f"{counts['cases']} cases, {len(differences)} differ", flush=True)
        time.sleep(0.2)
    if options.ledger:
        print(ledger.told())
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(differences, file, indent=1)
    report(differences, counts, options.verbose)
    return int(bool(differences))


def report(differences, counts, verbose):
    groups = collections.defaultdict(list)
    for index, name, kind, text, case in sorted(differences):
        groups[kind, name].append((index, text, case))
    for (kind, name), found in sorted(groups.items()):
        index, text, case = found[0]
        print(f"{kind:10} {name} ({len(found)}): case {index}: {text[:200]}")
        if verbose:
            print(f"    {case[:400]}")
    for what, number in counts.most_common():
        print(f"{number:8} {what}")
    print(f"fuzz: {counts['cases']} cases, {len(differences)} unexplained differences")


if __name__ == "__main__":
    sys.exit(main())
