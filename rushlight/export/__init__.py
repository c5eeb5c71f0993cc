"""Programs that stand by themselves: recorded, saved, and taken elsewhere."""

from rushlight.export import dynamic_shapes, exported_program, graph_signature
from rushlight.export._compile import aot_compile
from rushlight.export._archive import load, save
from rushlight.export._loading import load_library
from rushlight.export._registering import register_dataclass
from rushlight.export._draft_export import draft_export
from rushlight.export._trace import export
from rushlight.export.decomp_utils import CustomDecompTable
from rushlight.export.dynamic_shapes import (
    AdditionalInputs,
    Constraint,
    Dim,
    ShapesCollection,
    dims,
)
from rushlight.export.exported_program import (
    ExportedProgram,
    ModuleCallEntry,
    ModuleCallSignature,
    default_decompositions,
)
from rushlight.export.graph_signature import (
    ExportBackwardSignature,
    ExportGraphSignature,
)
from rushlight.export.unflatten import FlatArgsAdapter, UnflattenedModule, unflatten

__all__ = [
    "AdditionalInputs",
    "Constraint",
    "CustomDecompTable",
    "Dim",
    "ExportBackwardSignature",
    "ExportGraphSignature",
    "ExportedProgram",
    "FlatArgsAdapter",
    "ModuleCallEntry",
    "ModuleCallSignature",
    "ShapesCollection",
    "UnflattenedModule",
    "aot_compile",
    "default_decompositions",
    "dims",
    "draft_export",
    "export",
    "load",
    "load_library",
    "register_dataclass",
    "save",
    "unflatten",
]
