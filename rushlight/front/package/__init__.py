"""Names of programs in archives. The archives themselves are refused, with the reason.

Such an archive holds the source of Python modules, and reading it means running it.
Models travel as ``state_dict`` with ``save`` here, and programs as Python packages.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from abc import ABC, abstractmethod
from pickle import whichmodule as _whichmodule

__all__ = [
    "Directory",
    "EmptyMatchError",
    "GlobGroup",
    "Importer",
    "ObjMismatchError",
    "ObjNotFoundError",
    "OrderedImporter",
    "PackageExporter",
    "PackageImporter",
    "PackagingError",
    "is_from_package",
    "sys_importer",
]


class PackagingError(Exception):
    """A package cannot be made."""


class EmptyMatchError(Exception):
    """A pattern that must match some module matches none."""


class ObjNotFoundError(Exception):
    """An object cannot be found where its name says."""


class ObjMismatchError(Exception):
    """An object's name leads to another object."""


# -- patterns ------------------------------------------------------------------------


class GlobGroup:
    """Names of modules or files that patterns choose.

    ``*`` stands for anything inside one part of a name, ``**`` for any number of parts.

    Args:
        include: a pattern, or several.
        exclude: patterns of what is left out again.
        separator: what stands between the parts of a name.

    Raises:
        ValueError: ``**`` is not a part by itself.

    >>> group = GlobGroup("models.**", exclude=["models.old"])
    >>> group.matches("models.vision.resnet"), group.matches("models.old")
    (True, False)
    """

    def __init__(self, include, *, exclude=(), separator="."):
        self._shown = f"GlobGroup(include={include}, exclude={exclude})"
        self.separator = separator
        self.include = self._patterns(include)
        self.exclude = self._patterns(exclude)

    def _patterns(self, texts):
        texts = [texts] if isinstance(texts, str) else texts
        return [_pattern(text, self.separator) for text in texts]

    def matches(self, candidate: str) -> bool:
        """Whether a name is chosen."""
        name = self.separator + candidate
        return any(p.fullmatch(name) for p in self.include) and not any(
            p.fullmatch(name) for p in self.exclude
        )

    def __str__(self):
        return self._shown

    __repr__ = __str__


def _pattern(text, separator):
    mark = re.escape(separator)
    parts = []
    for part in text.split(separator):
        if part == "**":
            parts.append(f"(?:{mark}[^{mark}]+)*")
        elif "**" in part:
            raise ValueError("** can only appear as an entire path segment")
        else:
            inside = f"[^{mark}]*".join(map(re.escape, part.split("*")))
            parts.append(mark + inside)
    return re.compile("".join(parts))


class Directory:
    """Files of an archive as a tree.

    Args:
        name: of the folder or file.
        is_dir: whether it is a folder.
    """

    def __init__(self, name: str, is_dir: bool):
        self.name = name
        self.is_dir = is_dir
        self.children: dict[str, Directory] = {}

    def _add_file(self, path):
        place = self
        *folders, name = path.split("/")
        for folder in folders:
            place = place.children.setdefault(folder, Directory(folder, True))
        place.children[name] = Directory(name, False)

    def has_file(self, filename: str) -> bool:
        """Whether a file of that path is in the folder."""
        place = self
        for part in filename.split("/"):
            if part not in place.children:
                return False
            place = place.children[part]
        return True

    def __str__(self):
        return "\n".join(self._lines("")) + "\n"

    def _lines(self, before):
        yield self.name
        ordered = sorted(
            self.children.values(), key=lambda child: (child.is_dir, child.name)
        )
        for i, child in enumerate(ordered):
            last = i == len(ordered) - 1
            first, *rest = child._lines("")
            yield f"{before}{'└── ' if last else '├── '}{first}"
            for line in rest:
                yield f"{'    ' if last else '│   '}{line}"


# -- where modules come from ---------------------------------------------------------


class Importer(ABC):
    """A place that modules come from."""

    @abstractmethod
    def import_module(self, module_name: str):
        """The module of that name."""

    def whichmodule(self, obj, name: str) -> str:
        """The name of the module that an object is from."""
        return _whichmodule(obj, name)

    def get_name(self, obj, name: str | None = None) -> tuple[str, str]:
        """The module's name and the object's name in it.

        Raises:
            ObjNotFoundError: it is not there under that name.
            ObjMismatchError: the name leads to another object.
        """
        if name is None:
            name = getattr(obj, "__qualname__", None) or obj.__name__
        module_name = self.whichmodule(obj, name)
        try:
            found = self.import_module(module_name)
            for part in name.split("."):
                found = getattr(found, part)
        except (ImportError, KeyError, AttributeError):
            raise ObjNotFoundError(
                f"{obj} was not found as {module_name}.{name}"
            ) from None
        if found is not obj:
            raise ObjMismatchError(
                f"The object provided by looking up {name} in {module_name} is not the "
                f"same object: {found} and {obj}"
            )
        return module_name, name


class _SysImporter(Importer):
    """Python's own way to modules."""

    def import_module(self, module_name):
        return importlib.import_module(module_name)


sys_importer = _SysImporter()


class OrderedImporter(Importer):
    """Several places, asked in turn.

    Args:
        args: the places.
    """

    def __init__(self, *args):
        self._importers = list(args)

    def import_module(self, module_name):
        """The module of that name from the first place that has it.

        Raises:
            ModuleNotFoundError: none has it.
        """
        for importer in self._importers:
            if not isinstance(importer, Importer):
                raise TypeError(
                    f"{importer} is not a Importer. All importers in OrderedImporter "
                    "must inherit from Importer."
                )
            try:
                return importer.import_module(module_name)
            except ModuleNotFoundError:
                continue
        raise ModuleNotFoundError(module_name)

    def whichmodule(self, obj, name):
        """The module's name by the first place that knows the object."""
        for importer in self._importers:
            found = importer.whichmodule(obj, name)
            if found != "__main__":
                return found
        return "__main__"


def is_from_package(obj) -> bool:
    """Whether a module or an object came out of a package: none does here."""
    name = obj.__name__ if isinstance(obj, type(sys)) else type(obj).__module__
    return name.startswith("<torch_package_")


# -- the archives --------------------------------------------------------------------


class PackageExporter:
    """Refuses to write a package.

    Args:
        f: the file.
        importer: where modules come from.
        debug: kept for programs that pass it.

    Raises:
        NotImplementedError: always, with what to do in its place.
    """

    def __init__(self, f, importer=sys_importer, debug=False):
        raise NotImplementedError(
            "PackageExporter: archives that hold the source of modules are not written\n"
            "  remedy: save(model.state_dict(), path) for the numbers, and a Python "
            "package for the program"
        )


class PackageImporter(Importer):
    """Refuses to read a package.

    Args:
        file_or_buffer: the file.
        module_allowed: kept for programs that pass it.

    Raises:
        NotImplementedError: always, with the reason.
    """

    def __init__(self, file_or_buffer, module_allowed=lambda name: True):
        where = getattr(file_or_buffer, "name", file_or_buffer)
        shown = where if isinstance(where, (str, bytes, os.PathLike)) else "the file"
        raise NotImplementedError(
            f"PackageImporter: {shown} holds the source of Python modules, "
            "and reading it would run them\n"
            "  remedy: where it was written, save the state_dict() of its model with save"
        )

    def import_module(self, name, package=None):
        """Never reached: there is no such object."""
        raise NotImplementedError(name)
