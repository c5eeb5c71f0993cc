"""One rank fails in a way that is asked for; the others say what they saw, and when.

Each argument is ``FAULT:COUNT:SHARED``: a process forked for it joins, and fails or watches.
"""

import json
import os
import signal
import sys
import time

import rushlight as torch
import rushlight.distributed as dist

folder, *faults = sys.argv[1:]
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
culprit = size - 1


def fail(fault, count):
    if fault in ("kill", "message"):
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    if fault == "raise":
        raise ValueError("the loss is not finite")
    if fault == "shape":
        dist.all_reduce(torch.ones(count + 1))
    if fault == "operator":
        dist.broadcast(torch.ones(count), 0)
    if fault == "dtype":
        dist.all_reduce(torch.ones(count, dtype=torch.float64))
    if fault == "leave":
        dist.destroy_process_group()
        os._exit(0)


def watch(fault, count, say):
    try:
        if fault == "message":
            dist.recv(torch.ones(count), culprit)
        dist.all_reduce(torch.ones(count))
        say(said="nothing")
    except dist.DistBackendError as error:
        states = [each["state"] for each in dist.group.WORLD.recent_collectives()]
        say(said=str(error).replace("\n", " | "), states=states)


def run(fault, count, say):
    where = f"file://{folder}/{fault}-{count}-{os.environ['MASTER_PORT']}"
    dist.init_process_group("gloo", where, rank=rank, world_size=size)
    dist.all_reduce(torch.ones(count))
    time.sleep(0.3)
    if rank != culprit:
        return watch(fault, count, say)
    say(began=True)
    try:
        fail(fault, count)
    except dist.DistBackendError as error:
        say(said=str(error).replace("\n", " | "))


def child(case):
    fault, count, shared = case.split(":")
    os.environ["RUSHLIGHT_DISTRIBUTED_SHARED_MEMORY"] = shared
    os.environ["MASTER_PORT"] = shared

    def say(**facts):
        print(json.dumps([case, {"time": time.time(), **facts}]), flush=True)

    try:
        run(fault, int(count), say)
    except ValueError as error:
        sys.last_exc = error  # as at the end of a program
        dist.world._leave_at_exit()
    os._exit(0)


for case in faults:
    number = os.fork()
    if number == 0:
        child(case)
    _, status = os.waitpid(number, os.WUNTRACED)
    if os.WIFSTOPPED(status):
        time.sleep(1.5)  # the others must have seen it by now
        os.kill(number, signal.SIGKILL)
        os.waitpid(number, 0)
