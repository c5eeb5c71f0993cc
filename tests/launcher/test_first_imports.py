"""Any module can be the first that is imported of its room.

A circle through a package's ``__init__`` shows in some orders of imports only.
"""

import importlib
import multiprocessing
import pkgutil
import warnings

import pytest

import rushlight as rl

ROOMS = ("graph", "codegen", "dispatch", "autograd", "export")


def fault_of(name):
    warnings.simplefilter("ignore")
    try:
        importlib.import_module(name)
    except Exception as error:
        return f"{name}: {error!r}"
    return None


@pytest.mark.parametrize("room", ROOMS)
def test_any_module_of_a_room_can_be_imported_first(room):
    package = importlib.import_module(f"{rl.__name__}.{room}")
    names = [
        m.name for m in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    ]
    assert len(names) > 10
    # a process that has imported nothing, from which each child is a copy
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([rl.__name__])
    with context.Pool(1, maxtasksperchild=1) as pool:
        faults = pool.map(fault_of, names, chunksize=1)
    assert not [fault for fault in faults if fault]
