"""What programs of a dialect have to be."""

from rushlight.export._verifier import (
    SpecViolationError,
    TrainingIRVerifier,
    Verifier,
    load_verifier,
)

__all__ = ["SpecViolationError", "TrainingIRVerifier", "Verifier", "load_verifier"]
