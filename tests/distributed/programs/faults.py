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
from rushlight.distributed.collectives import remote

remote.LEAST_BYTES = 1 << 20
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
    if fault == "nan":
        dist.all_reduce(torch.tensor([torch.nan] + [1.0] * (count - 1)))
    if fault == "diverge":
        learn(count, [1.0, 1.0, torch.nan])
    if fault == "shape":
        dist.all_reduce(torch.ones(count + 1))
    if fault == "operator":
        dist.broadcast(torch.ones(count), 0)
    if fault == "dtype":
        dist.all_reduce(torch.ones(count, dtype=torch.float64))
    if fault == "leave":
        dist.destroy_process_group()
        os._exit(0)
    if fault == "ahead":  # one collective more than the others have
        dist.all_reduce(torch.ones(count))


def learn(count, targets):
    """A backward pass for each target of a network on all ranks."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(count, 2), torch.nn.Linear(2, 1))
    model = torch.nn.parallel.DistributedDataParallel(model)
    for target in targets:
        (model(torch.ones(count)) * target).sum().backward()


def watch(fault, count, say):
    try:
        if fault == "diverge":
            learn(count, [1.0, 1.0, 1.0])
        if fault == "message":
            dist.recv(torch.ones(count), culprit)
        if fault == "ahead":
            dist.destroy_process_group()
            os._exit(0)
        dist.all_reduce(torch.ones(count))
        say(said="nothing")
    except dist.DistBackendError as error:
        states = [each["state"] for each in dist.group.WORLD.recent_collectives()]
        say(said=str(error).replace("\n", " | "), states=states)


def lose_the_store(say):
    """The process that serves the store is killed; then a group is asked for."""
    place = os.path.join(folder, f"port-{os.environ['MASTER_PORT']}")
    server = 0
    if rank == culprit:
        server = os.fork()
        if server == 0:
            store = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
            with open(place + ".new", "w", encoding="utf-8") as file:
                file.write(str(store.port))
            os.rename(place + ".new", place)
            signal.pause()
    while not os.path.exists(place):
        time.sleep(0.01)
    with open(place, encoding="utf-8") as file:
        port = int(file.read())
    store = dist.TCPStore("127.0.0.1", port, None, False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
    dist.barrier()
    if server:
        say(began=True)
        os.kill(server, signal.SIGKILL)
        os.waitpid(server, 0)
    dist.barrier()  # what is connected needs no store
    try:
        dist.new_group([0, 1, 2])
        say(said="nothing")
    except dist.DistNetworkError as error:
        say(said=str(error).replace("\n", " | "), port=port)


def run(fault, count, say):
    if fault == "store":
        return lose_the_store(say)
    where = f"file://{folder}/{fault}-{count}-{os.environ['MASTER_PORT']}"
    dist.init_process_group("gloo", where, rank=rank, world_size=size)
    dist.all_reduce(torch.ones(count))
    time.sleep(0.3)
    if rank != culprit:
        return watch(fault, count, say)
    if fault == "ahead":
        time.sleep(0.3)  # the others are gone
    say(began=True)
    try:
        fail(fault, count)
    except dist.DistBackendError as error:
        say(said=str(error).replace("\n", " | "))
    return None


def child(case):
    fault, count, shared = case.split(":")
    os.environ["RUSHLIGHT_DISTRIBUTED_SHARED_MEMORY"] = shared
    os.environ["MASTER_PORT"] = shared
    os.environ["TORCH_NCCL_NAN_CHECK"] = str(int(fault in ("nan", "diverge")))
    os.environ["TORCH_FR_DUMP_TEMP_FILE"] = f"{folder}/{fault}-{count}-{shared}-rank"

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
