"""Trains until it is told to stop, from the last checkpoint, in however many processes."""

import os
import sys

import rushlight as torch
import rushlight.distributed as dist
import rushlight.distributed.checkpoint as dcp
from rushlight.distributed.elastic.multiprocessing.errors import record


@record
def main(folder):
    dist.init_process_group()
    rank, size = dist.get_rank(), dist.get_world_size()
    path = os.path.join(folder, "checkpoint")
    state = {"total": torch.zeros(3), "step": 0}
    if os.path.exists(os.path.join(path, ".metadata")):
        dcp.load(state, checkpoint_id=path)
    first = state["step"]
    attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
    is_over = False
    while not is_over:
        share = torch.full((3,), 1.0 / size)
        dist.all_reduce(share)
        state = {"total": state["total"] + share, "step": state["step"] + 1}
        dcp.save(state, checkpoint_id=path)
        if rank == 0 and state["step"] == first + 2:  # it has learned something
            words = f"RESULT {size} {attempt} {first} {state['step']}"
            with open(os.path.join(folder, "rounds"), "a", encoding="utf-8") as file:
                file.write(words + "\n")
        stop = torch.tensor(float(os.path.exists(os.path.join(folder, "stop"))))
        dist.all_reduce(stop)
        is_over = bool(stop)
    if rank == 0:
        with open(os.path.join(folder, "rounds"), "a", encoding="utf-8") as file:
            file.write(f"END {state['total'][0]:.4f} {state['step']}\n")
    dist.destroy_process_group()


main(sys.argv[1])
