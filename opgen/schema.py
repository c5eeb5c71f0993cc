"""The signature parser of ``rushlight.dispatch.schema``, loaded on its own.

Tables are made before the package can be imported, so the file is run by its path.
"""

import importlib.util
from pathlib import Path

_PATH = Path(__file__).parents[1] / "rushlight" / "dispatch" / "schema.py"
_SPEC = importlib.util.spec_from_file_location("opgen._schema", _PATH)
_MODULE = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(_MODULE)

LIST_KINDS = _MODULE.LIST_KINDS
NUMBER_KINDS = _MODULE.NUMBER_KINDS
TENSOR_KINDS = _MODULE.TENSOR_KINDS
Schema = _MODULE.Schema
SchemaError = _MODULE.SchemaError
argument_rows = _MODULE.argument_rows
parse = _MODULE.parse
return_rows = _MODULE.return_rows
varargs_index = _MODULE.varargs_index
