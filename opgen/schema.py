"""The signature parser of ``rushlight.dispatch.schema``, loaded on its own.

Tables are made before the package can be imported, so the file is run by its path.
"""

import importlib.util
import sys
from pathlib import Path

_FOLDER = Path(__file__).parents[1] / "rushlight" / "dispatch"


def _load(name):
    """A module of the package by its path, which may import those loaded before."""
    spec = importlib.util.spec_from_file_location(
        f"opgen._{name}", _FOLDER / f"{name}.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# What the parser imports is found under its own name, and then not through the package.
ENUMS = "rushlight.dispatch.enums"
sys.modules.setdefault(ENUMS, _load("enums"))
_MODULE = _load("schema")
LIST_KINDS = _MODULE.LIST_KINDS
NUMBER_KINDS = _load("declared").NUMBER_KINDS
TENSOR_KINDS = _MODULE.TENSOR_KINDS
Schema = _MODULE.Schema
SchemaError = _MODULE.SchemaError
argument_rows = _MODULE.argument_rows
parse = _MODULE.parse
return_rows = _MODULE.return_rows
varargs_index = _MODULE.varargs_index
