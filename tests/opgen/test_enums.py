"""Numbers that Python and compiled modules share are the same on both sides."""

import re
import subprocess
import sys
from pathlib import Path

from opgen import enums
from opgen.sources import ROOT
from rushlight.dispatch.declared import FUNCTIONAL, INPLACE, OUT
from rushlight.dispatch.keys import DispatchKey

PACKAGE = Path(__file__).parents[2] / "rushlight"


def numbers(path):
    """The names of a declaration file's enumerations that are plain numbers."""
    rows = re.findall(r"(?m)^ +([A-Z]\w*) = (\d+)\b", (PACKAGE / path).read_text())
    return {name: int(number) for name, number in rows}


def test_the_enumerations_of_compiled_modules_are_those_of_python():
    assert enums.PLACE.read_text() == enums.declared(), "run: python -m opgen"


def test_dispatch_keys_have_one_number():
    kept = {re.sub(r"CPU$", "", k.name).upper(): k for k in DispatchKey if k}
    kept["CPU"] = DispatchKey.CPU
    found = {
        name.removeprefix("KEY_").replace("_", ""): number
        for name, number in numbers("core/keys.pxd").items()
        if name.startswith("KEY_") and number < 32
    }
    assert {name: kept.get(name) for name in found} == found
    assert set(kept) - set(found) == {"VALUETYPE"}, "no compiled module asks for it"


def test_forms_of_operators_have_one_number():
    found = numbers("dispatch/dispatcher.pxd")
    assert [found[n] for n in ("FUNCTIONAL", "INPLACE", "OUT")] == [
        FUNCTIONAL,
        INPLACE,
        OUT,
    ]


def test_tables_are_made_where_the_package_cannot_be_imported():
    program = "import sys; sys.modules['rushlight'] = None; import opgen.__main__"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True
    )
    assert done.returncode == 0, done.stderr
