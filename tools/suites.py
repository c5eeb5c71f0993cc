"""Other people's test suites, run on Rushlight under PyTorch's name.

    python -m tools.suites [--quick] [NAME ...]

Each package's source archive is fetched from the package index and unpacked under
``build/suites``; its own tests run there by ``python -m rushlight.run -m pytest``. A test
that fails and is not listed here is a fault, and the command's status says so. The quick
ones take a few minutes together.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOM = ROOT / "build" / "suites"
NEEDS = (
    *("llvmlite>=0.50,<0.51", "numpy>=1.26", "scipy-openblas32", "safetensors"),
    *("pytest", "pytest-timeout", "parameterized", "scipy", "scikit-learn", "mpmath"),
    *(
        "sympy",
        "networkx",
        "opt_einsum",
        "jaxtyping",
        "matplotlib",
        "tqdm",
        "typeguard",
    ),
)


@dataclass(frozen=True)
class Suite:
    """A package whose tests are run.

    Args:
        package, version: what is fetched.
        tests: the folder of tests in the archive.
        beside: other packages of this table that its tests import.
        needs: packages that are installed without their dependencies.
        settings: environment variables.
        differ: tests that fail, and why.
        quick: whether its tests take two minutes at most.
    """

    package: str
    version: str
    tests: str
    beside: tuple = ()
    needs: tuple = ()
    settings: tuple = ()
    differ: tuple = ()
    quick: bool = False


DEGENERATE = "equal singular values: which vectors they get is rounding's choice"
UNSEEDED = "draws without a seed, and its bound is met or not, on PyTorch as here"
REMOVED = "calls torch.solve, which PyTorch removed: fails there, too"
EXACT = (
    "a minimum met to the last bit is refused: rounding's choice, on PyTorch as well"
)
OTHER_THREAD = "fails on PyTorch, too: other packages have changed since"
SUITES = {
    "linear_operator": Suite(
        "linear_operator",
        "0.6.1",
        "test",
        differ=(
            ("TestBatchRepeatLinearOperatorBatch::test_svd", DEGENERATE),
            ("TestBatchRepeatLinearOperatorMultiBatch::test_svd", DEGENERATE),
        ),
    ),
    "gpytorch": Suite("gpytorch", "1.15.2", "test", beside=("linear_operator",)),
    "tensorly": Suite(
        "tensorly", "0.10.0", "tensorly", settings=(("TENSORLY_BACKEND", "pytorch"),)
    ),
    "nflows": Suite(
        "nflows",
        "0.14",
        "tests",
        needs=("torchtestcase",),
        differ=(
            ("NaiveLinearTest::test_forward_inverse_are_consistent", REMOVED),
            ("NaiveLinearTest::test_inverse_no_cache", REMOVED),
            ("TestPiecewiseCDF::test_forward_inverse_are_consistent", UNSEEDED),
            ("LinearSplineTest::test_forward_inverse_are_consistent", UNSEEDED),
        ),
        quick=True,
    ),
    "normflows": Suite("normflows", "1.7.3", ".", quick=True),
    "xitorch": Suite(
        "xitorch",
        "0.5.1",
        "xitorch",
        differ=(
            ("test_minimize::broyden1", EXACT),
            ("test_solve_A_methods::scipy_gmres", OTHER_THREAD),
        ),
        quick=True,
    ),
    "entmax": Suite("entmax", "1.0", "entmax", quick=True),
    "tltorch": Suite(
        "tensorly-torch",
        "0.5.0",
        "tltorch",
        beside=("tensorly",),
        differ=(
            ("test_single_conv::Tucker", OTHER_THREAD),
            ("test_trl[", OTHER_THREAD),
            ("test_TuckerTRL", UNSEEDED),
        ),
        quick=True,
    ),
}


def main(arguments=None):
    """Runs the suites that are named, or all; the status says whether one is worse."""
    parser = argparse.ArgumentParser(prog="tools.suites", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SUITES))
    parser.add_argument("--quick", action="store_true", help="the short ones only")
    asked = parser.parse_args(arguments)
    every = [name for name in SUITES if SUITES[name].quick or not asked.quick]
    names = asked.names or every
    unknown = [name for name in names if name not in SUITES]
    if unknown:
        parser.error(f"no such suite: {', '.join(unknown)}")
    python = environment()
    worse = [name for name in names if not run(SUITES[name], python)]
    if worse:
        print(f"worse than it was: {', '.join(worse)}", file=sys.stderr)
    return 1 if worse else 0


def environment():
    """An environment with what the suites need, and no PyTorch."""
    home = ROOM / "environment"
    python = home / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", home], check=True)
    subprocess.run([python, "-m", "pip", "install", "-q", *NEEDS], check=True)
    return python


def fetched(suite, python):
    """The folder of a package's sources."""
    folder = ROOM / f"{suite.package}-{suite.version}"
    if not folder.exists():
        fetch = [
            python,
            "-m",
            "pip",
            "download",
            "-q",
            "--no-deps",
            "--no-binary",
            ":all:",
        ]
        wanted = f"{suite.package}=={suite.version}"
        subprocess.run([*fetch, "-d", ROOM, wanted], check=True)
        archive = next(ROOM.glob(f"{suite.package}-{suite.version}.tar.gz"))
        with tarfile.open(archive) as opened:
            opened.extractall(ROOM, filter="data")
    if suite.needs:
        install = [python, "-m", "pip", "install", "-q", "--no-deps", *suite.needs]
        subprocess.run(install, check=True)
    return folder


def run(suite, python):
    """Whether a suite fails nowhere but where it is known to."""
    folder = fetched(suite, python)
    lent = ROOM / "lent"  # a folder with the package alone: not this project's tests
    lent.mkdir(exist_ok=True)
    if not (lent / "rushlight").exists():
        (lent / "rushlight").symlink_to(ROOT / "rushlight")
    beside = [fetched(SUITES[name], python) for name in suite.beside]
    paths = [*beside, folder, lent]
    variables = {**os.environ, **dict(suite.settings)}
    variables["PYTHONPATH"] = os.pathsep.join(map(str, paths))
    leave = ["-k", " and ".join(f"not {_words(test)}" for test, _ in suite.differ)]
    command = [python, "-m", "rushlight.run", "-m", "pytest", "-q", "--tb=short"]
    command += ["-p", "no:cacheprovider", "--timeout=600", suite.tests]
    command += leave if suite.differ else []
    print(f"{suite.package} {suite.version}", flush=True)
    done = subprocess.run(command, cwd=folder, env=variables, check=False)
    return done.returncode == 0


def _words(test):
    """A test's class and name, as pytest's ``-k`` takes them."""
    return "(" + " and ".join(test.split("::")) + ")"


if __name__ == "__main__":
    sys.exit(main())
