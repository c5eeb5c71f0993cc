"""The exercises that fill the pack run."""

import pytest

from rushlight.runtime.cpu import warm


@pytest.mark.slow
@pytest.mark.parametrize("exercise", warm.EXERCISES, ids=lambda item: item.__name__)
def test_the_exercise_runs(exercise):
    exercise()
