"""Groups over MPI, where mpi4py and an MPI are installed: ``mpiexec python train.py``."""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec

import pytest

from rushlight import distributed as dist
from tests.distributed.launching import PROGRAMS, ROOT

MPIEXEC = shutil.which("mpiexec", path=os.path.dirname(sys.executable)) or shutil.which(
    "mpiexec"
)


@pytest.mark.skipif(not (find_spec("mpi4py") and MPIEXEC), reason="no MPI is installed")
@pytest.mark.parametrize("size", [2, 3])
def test_programs_that_mpiexec_starts_exchange_what_they_should(size):
    found = subprocess.run(
        [MPIEXEC, "-n", str(size), sys.executable, "-W", "ignore"]
        + [str(PROGRAMS / "over_mpi.py")],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert found.returncode == 0, found.stderr
    lines = sorted(line for line in found.stdout.splitlines() if "DONE" in line)
    assert lines == [f"DONE {rank} {size}" for rank in range(size)]


@pytest.mark.skipif(find_spec("mpi4py") is not None, reason="mpi4py is installed")
def test_without_mpi_its_groups_are_refused_with_the_remedy():
    assert not dist.is_mpi_available()
    with pytest.raises(
        RuntimeError, match=r"doesn't have MPI built in\n.*rushlight\[mpi"
    ):
        dist.init_process_group("mpi")
