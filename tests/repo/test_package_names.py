"""Whether a thing is the package's own is asked at one place."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2] / "rushlight"
ASKS = re.compile(r"startswith\(\(?\"rushlight|== \"rushlight\"|in \(\"rushlight\"")
ALLOWED = {
    "core/naming.py",  # the place that asks
    "front/_explain_rules.py",  # rooms whose modules have one name only
    "front/inspection/_comparison.py",  # the libraries of a comparison
    "torch_compat/relabel.py",  # gives the other name
}


def test_nobody_asks_for_the_packages_name_but_one():
    # Under `rushlight.run` public modules are named as PyTorch's: a comparison with
    # "rushlight" is false there.
    found = set()
    for path in ROOT.rglob("*.py"):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith("_generated/") and ASKS.search(path.read_text()):
            found.add(name)
    assert found == ALLOWED
