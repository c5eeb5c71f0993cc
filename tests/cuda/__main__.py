"""``python -m tests.cuda [--compiled] [REGEX]``: see `tests.cuda.sweep`."""

from __future__ import annotations

import sys

import rushlight as rl
from tests.cuda.conftest import Machine, imagined
from tests.cuda.sweep import run

# Results are held against the host's: factors are not to be rounded.
with imagined(Machine()) as machine, rl.backends.cudnn.flags(True, allow_tf32=False):
    machine.start(memory=1 << 30)
    names = [word for word in sys.argv[1:] if word != "--compiled"]
    told = run(*names[:1], compiled="--compiled" in sys.argv)
for verdict, names in sorted(told.items(), key=lambda row: -len(row[1])):
    print(
        f"{len(names):4} {verdict}"
        + ("" if verdict == "same" else f": {' '.join(names)}")
    )
sys.exit(bool(set(told) - {"same", "absent"}))
