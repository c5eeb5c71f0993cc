"""Trains, saves each step, and is killed once in the midst; started again, it goes on."""

import os
import signal
import sys

import rushlight as torch
import rushlight.distributed as dist
import rushlight.distributed.checkpoint as dcp
from rushlight.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from rushlight.distributed.elastic.multiprocessing.errors import record
from rushlight.nn.parallel import DistributedDataParallel

STEPS, KILLED_AT = 6, 3


@record
def main(folder, is_killed):
    dist.init_process_group()
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(4, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    path, first = os.path.join(folder, "checkpoint"), 0
    model_state, optimizer_state = get_state_dict(model, optimizer)
    state = {"model": model_state, "optimizer": optimizer_state, "step": 0}
    if os.path.exists(os.path.join(path, ".metadata")):
        dcp.load(state, checkpoint_id=path)
        set_state_dict(
            model,
            optimizer,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizer"],
        )
        first = state["step"]
    attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    for step in range(first, STEPS):
        torch.manual_seed(100 * step + rank)
        optimizer.zero_grad()
        model(torch.randn(3, 4)).square().mean().backward()
        optimizer.step()
        if is_killed and step == KILLED_AT and rank == 1 and attempt == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        model_state, optimizer_state = get_state_dict(model, optimizer)
        state = {"model": model_state, "optimizer": optimizer_state, "step": step + 1}
        dcp.save(state, checkpoint_id=path)
    numbers = model.module.weight.flatten().tolist()
    sys.stdout.write(f"RESULT {first} {attempt} {rank} {numbers}\n")
    sys.stdout.flush()
    dist.barrier()
    dist.destroy_process_group()


main(sys.argv[1], sys.argv[2] == "killed")
