"""What goes wrong in an export to ONNX, and in reading ONNX."""

__all__ = [
    "OnnxExporterError",
    "OnnxExporterWarning",
    "OnnxLoadError",
    "SymbolicValueError",
    "UnsupportedOperatorError",
]


class OnnxExporterWarning(UserWarning):
    """Something about an export is not as one may expect."""


class OnnxExporterError(RuntimeError):
    """Something about an export is wrong."""


class UnsupportedOperatorError(OnnxExporterError):
    """Operators of a program that have no form in ONNX.

    Args:
        text: the whole message, or the operator's name.
        version: with a name, the version of ONNX's operators.
        supported_version: with a name, the version that has the operator, if any.
    """

    def __init__(self, text, version=None, supported_version=None):
        if version is not None and supported_version is not None:
            text = (
                f"Exporting the operator '{text}' to ONNX opset version {version} is not "
                f"supported. Support for this operator was added in version "
                f"{supported_version}, try exporting with this version"
            )
        elif version is not None:
            text = (
                f"Exporting the operator '{text}' to ONNX opset version {version} is not "
                "supported"
            )
        super().__init__(text)


class SymbolicValueError(OnnxExporterError):
    """A value cannot be written.

    Args:
        msg: what is wrong.
        value: the value.
    """

    def __init__(self, msg, value=None):
        super().__init__(
            msg if value is None else f"{msg}  [Caused by the value '{value}']"
        )


class OnnxLoadError(RuntimeError):
    """A file is no model that can be run here; it says where, and what helps."""
