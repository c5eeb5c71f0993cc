"""``python -m tests.cuda [REGEX]``: see `tests.cuda.sweep`."""

from __future__ import annotations

import sys

import rushlight as rl
from tests.cuda.conftest import Machine, imagined
from tests.cuda.sweep import run

# Results are held against the host's: factors are not to be rounded.
with imagined(Machine()) as machine, rl.backends.cudnn.flags(True, allow_tf32=False):
    machine.start(memory=1 << 30)
    told = run(*sys.argv[1:2])
for verdict, names in sorted(told.items(), key=lambda row: -len(row[1])):
    print(
        f"{len(names):4} {verdict}"
        + ("" if verdict == "same" else f": {' '.join(names)}")
    )
sys.exit(bool(set(told) - {"same", "absent"}))
