"""Patterns, trees and names of packages as PyTorch's; the archives are refused."""

import collections
import os

import pytest

import rushlight as rl
from rushlight import package

torch = pytest.importorskip("torch", reason="the oracle is not installed")
NAMES = ["a", "a.b", "a.b.c", "torch.nn", "torchvision.models", "ab", "a/b", "", "b.a"]
PATTERNS = ["a", "a.*", "a.**", "**", "**.b", "*", "a*", "torch*.**", "*.b.*", "a.**.c"]


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize(
    "options", [{}, {"exclude": "a.b"}, {"separator": "/"}], ids=str
)
def test_patterns_choose_the_names_that_pytorchs_do(pattern, options):
    if "separator" in options:
        pattern = pattern.replace(".", "/")
    ours = package.GlobGroup(pattern, **options)
    theirs = torch.package.GlobGroup(pattern, **options)
    for name in NAMES:
        assert ours.matches(name) == theirs.matches(name), name


def test_two_stars_are_a_part_by_themselves():
    for library in package, torch.package:
        with pytest.raises(ValueError, match="entire path segment"):
            library.GlobGroup("a.b**")


@pytest.mark.parametrize("thing", [collections.OrderedDict, os.path.join], ids=str)
def test_objects_are_named_by_their_module(thing):
    theirs = torch.package.sys_importer.get_name(thing)
    assert package.sys_importer.get_name(thing) == theirs
    ordered = package.OrderedImporter(package.sys_importer)
    assert ordered.get_name(thing) == theirs
    assert not package.is_from_package(thing)


def test_objects_that_are_elsewhere_are_refused():
    class Local:
        pass

    with pytest.raises(package.ObjNotFoundError):
        package.sys_importer.get_name(Local)
    Local.__module__ = "collections"
    with pytest.raises(package.ObjMismatchError):
        package.sys_importer.get_name(Local, "OrderedDict")
    with pytest.raises(ModuleNotFoundError):
        package.OrderedImporter(package.sys_importer).import_module("no_such_module")


def test_a_tree_of_files_is_drawn_and_searched():
    trees = []
    for library in package, torch.package:
        tree = library.Directory("top", True)
        for path in "b.py", "a/x.py", "a/deep/y.py", "c.txt":
            tree._add_file(path)
        assert tree.has_file("a/deep/y.py") and not tree.has_file("a/z")
        trees.append({word for word in str(tree).split() if word.isascii()})
    assert trees[0] == trees[1]


def test_archives_of_programs_are_refused_with_the_reason(tmp_path):
    with pytest.raises(NotImplementedError, match="source of Python modules"):
        package.PackageImporter(tmp_path / "x.pt")
    with pytest.raises(NotImplementedError, match="state_dict"):
        rl.package.PackageExporter(tmp_path / "x.pt")
