"""Runs the examples in docstrings, the README and the guides; fails if one does."""

import doctest
import importlib
import pkgutil
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def documented_modules():
    """Every module of the package that has an example in its source."""
    import rushlight

    for module in pkgutil.walk_packages(rushlight.__path__, "rushlight."):
        path = ROOT.joinpath(*module.name.split("."))
        source = path / "__init__.py" if module.ispkg else path.with_suffix(".py")
        if source.exists() and ">>>" in source.read_text():
            yield importlib.import_module(module.name)


def main():
    sys.path.insert(0, str(ROOT))
    import rushlight

    names = {"torch": rushlight, "rl": rushlight, "rushlight": rushlight}
    failed = tried = 0
    for module in documented_modules():
        result = doctest.testmod(module, extraglobs=names, optionflags=OPTIONS)
        failed, tried = failed + result.failed, tried + result.attempted
    for page in [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]:
        result = doctest.testfile(
            str(page), module_relative=False, globs=dict(names), optionflags=OPTIONS
        )
        failed, tried = failed + result.failed, tried + result.attempted
    print(f"examples: {tried} run, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
