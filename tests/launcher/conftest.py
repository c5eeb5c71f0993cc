"""Programs run in processes of their own, for the mapping of names is for good."""

import subprocess
import sys

import pytest


@pytest.fixture
def launched():
    """Runs a program's text, or a command line, under the launcher."""

    def run(text=None, *arguments, command=None, launcher=True, **options):
        how = ("-c", text, *arguments) if command is None else command
        start = [sys.executable, *(("-m", "rushlight.run") if launcher else ())]
        return subprocess.run(
            [*start, *map(str, how)], capture_output=True, text=True, **options
        )

    return run


@pytest.fixture
def printed(launched):
    """What a program prints; it must end well."""

    def run(text, *arguments, **options):
        done = launched(text, *arguments, **options)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run
