"""One rank fails in a way that is asked for; the others say what they saw, and when."""

import os
import signal
import sys
import time

import rushlight as torch
import rushlight.distributed as dist

fault, count = sys.argv[1], int(sys.argv[2])
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
dist.all_reduce(torch.ones(count))
culprit = size - 1


def fail():
    if fault == "kill":
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
        sys.exit(0)
    if fault == "message":
        os.kill(os.getpid(), signal.SIGKILL)


time.sleep(0.3)
if rank == culprit:
    print("TIME", time.time(), flush=True)
    try:
        fail()
    except dist.DistBackendError as error:
        print("SAID", str(error).replace("\n", " | "), flush=True)
        sys.exit(0)
try:
    if fault == "message":
        dist.recv(torch.ones(count), culprit)
    dist.all_reduce(torch.ones(count))
    print("SAID nothing", flush=True)
except dist.DistBackendError as error:
    print("TIME", time.time(), flush=True)
    print("SAID", str(error).replace("\n", " | "), flush=True)
    states = [each["state"] for each in dist.group.WORLD.recent_collectives()]
    print("STATES", *states, flush=True)
