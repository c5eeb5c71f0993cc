"""What every worker needs, imported once in the process that workers are forked from.

Nothing is computed here: a process that has threads cannot be forked.
"""

from importlib import import_module

from rushlight.jit import _schemas

for _name in ("export", "jit._execute", "onnx", "serve.loading"):
    import_module(f"rushlight.{_name}")
for _name in ("aten::add", "aten::linear", "aten::convolution"):
    _schemas.overloads(_name)
