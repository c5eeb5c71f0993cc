"""Names of the package that are imported when a program first asks for them."""

from __future__ import annotations

from importlib import import_module

MODULES = ("return_types", "torch_version")

# A module's path inside the package -> the names that the package has from it.
NAMES = {
    "_as_torch": ("install_as_torch",),
    "_explain": ("explain",),
    "lowrank": ("lobpcg", "pca_lowrank", "svd_lowrank"),
    "serialization": ("load", "save"),
}
_HOMES = {name: home for home, names in NAMES.items() for name in names}


def find(name):
    """The module, class or function of that name; None where there is none."""
    if name == "return_types":
        return import_module("rushlight.ops.return_types")
    if name in MODULES:
        return import_module(f"rushlight.{name}")
    home = _HOMES.get(name)
    return None if home is None else getattr(import_module(f"rushlight.{home}"), name)
