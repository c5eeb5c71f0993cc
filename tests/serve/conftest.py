"""Recordings and translations say each time that newer programs exist; not here."""

import warnings

import pytest


@pytest.fixture(autouse=True, scope="module")
def quiet_about_age():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`torch.jit", DeprecationWarning)
        yield
