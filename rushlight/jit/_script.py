"""Classes of translated programs, where programs import them from."""

from rushlight.jit import (
    Attribute,
    CompilationUnit,
    RecursiveScriptModule,
    ScriptFunction,
    ScriptModule,
    script,
    script_method,
)

__all__ = [
    "Attribute",
    "CompilationUnit",
    "RecursiveScriptModule",
    "ScriptFunction",
    "ScriptModule",
    "ScriptWarning",
    "script",
    "script_method",
]


class ScriptWarning(Warning):
    """Something in a translated program may not mean what it seems to; nothing is said."""
