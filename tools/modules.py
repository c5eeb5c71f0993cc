"""Which module a file of the package is, and which file a module.

Most files are what their folders say. Those of `FOLDERS` are found as the package's own:
``rushlight/front/linalg.py`` is ``rushlight.linalg``; see ``rushlight/__init__.py``.
"""

from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "rushlight"
FOLDERS = (PACKAGE / "front", PACKAGE / "torch_compat" / "mirrors")


def module_name(path, root=ROOT):
    """A file's name as a module: a package's is its folder's.

    >>> module_name(PACKAGE / "front" / "linalg.py"), module_name(PACKAGE / "__init__.py")
    ('rushlight.linalg', 'rushlight')
    """
    parts = path.relative_to(root).with_suffix("").parts
    for folder in FOLDERS:
        inside = folder.relative_to(ROOT).parts
        if parts[: len(inside)] == inside and parts[len(inside) :] != ("__init__",):
            parts = (inside[0], *parts[len(inside) :])
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def source_of(name):
    """The file of a module; None where there is none.

    >>> source_of("rushlight.linalg").relative_to(ROOT).as_posix()
    'rushlight/front/linalg.py'
    """
    package, *inside = name.split(".")
    for folder in (ROOT / package, *FOLDERS):
        path = folder.joinpath(*inside)
        for found in (path / "__init__.py", path.with_suffix(".py")):
            if found.exists():
                return found
    return None
