"""A program for the launcher: adds over all ranks; rank 1 fails as often as is asked."""

import os
import sys

import rushlight as torch
import rushlight.distributed as dist
from rushlight.distributed.elastic.multiprocessing.errors import record

NAMES = "LOCAL_RANK RANK GROUP_RANK LOCAL_WORLD_SIZE WORLD_SIZE OMP_NUM_THREADS".split()


@record
def main(failures):
    dist.init_process_group()
    total = torch.ones(()) * (dist.get_rank() + 1)
    dist.all_reduce(total)
    attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    if dist.get_rank() == 1 and attempt < failures:
        raise ValueError(f"attempt {attempt} has failed")
    values = [os.environ.get(name, "-") for name in NAMES]
    sys.stdout.write(f"RESULT {int(total)} {attempt} {' '.join(values)}\n")
    sys.stdout.flush()
    dist.barrier()
    dist.destroy_process_group()


main(int(sys.argv[1]))
