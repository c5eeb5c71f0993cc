"""Prints the packages that one use of the repository needs, as ``pyproject.toml`` says.

python -m tools.requirements build | pip install -r /dev/stdin
"""

import sys
import tomllib
from pathlib import Path


def requirements(use: str) -> list[str]:
    """The requirements of an extra, or of the build and of ``rushlight`` itself."""
    with open(Path(__file__).parents[1] / "pyproject.toml", "rb") as file:
        settings = tomllib.load(file)
    if use == "build":
        return (
            settings["build-system"]["requires"] + settings["project"]["dependencies"]
        )
    return settings["project"]["optional-dependencies"][use]


if __name__ == "__main__":
    print("\n".join(requirements(sys.argv[1])))
