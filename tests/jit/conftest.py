"""Both libraries call TorchScript deprecated, each time that it is used."""

import warnings

import pytest

OWN = (
    ("`torch.jit", DeprecationWarning),
    ("LSTM with projections", UserWarning),
    ("The TorchScript type system", UserWarning),
    ("enable_nested_tensor is True", UserWarning),
)


@pytest.fixture(autouse=True)
def deprecation_is_known():
    with warnings.catch_warnings():
        for words, category in OWN:
            warnings.filterwarnings("ignore", words, category)
        yield
