"""What goes wrong in an export to ONNX."""

__all__ = ["OnnxExporterError", "SymbolicValueError", "UnsupportedOperatorError"]


class OnnxExporterError(RuntimeError):
    """Something about an export is wrong."""


class UnsupportedOperatorError(OnnxExporterError):
    """ONNX lacks an operator."""


class SymbolicValueError(OnnxExporterError):
    """A value cannot be written."""
