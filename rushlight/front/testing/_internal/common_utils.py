"""What tests of others import: a test case that compares tensors, and tests with parameters."""

import contextlib
import functools
import os
import random
import sys
import tempfile
import unittest
import warnings
from collections.abc import Mapping, Sequence
from numbers import Number

import numpy

import rushlight as rl
from rushlight.core.dtype import DType
from rushlight.testing import assert_close, make_tensor

__all__ = [
    "IS_LINUX", "IS_MACOS", "IS_WINDOWS", "SEED", "TEST_CUDA", "TEST_NUMPY", "TestCase",
    "TemporaryFileName", "freeze_rng_state", "instantiate_parametrized_tests",
    "make_tensor", "parametrize", "run_tests", "set_default_dtype", "set_rng_seed",
    "slowTest", "subtest", "suppress_warnings",
]  # fmt: skip

SEED = 1234
IS_WINDOWS, IS_MACOS = sys.platform == "win32", sys.platform == "darwin"
IS_LINUX = sys.platform == "linux"
TEST_NUMPY, TEST_CUDA = True, rl.cuda.is_available()


def set_rng_seed(seed=SEED):
    """Begins all streams of random numbers anew.

    Args:
        seed: where they begin.
    """
    rl.manual_seed(seed)
    random.seed(seed)
    numpy.random.seed(seed)


@contextlib.contextmanager
def freeze_rng_state():
    """What is drawn inside leaves no trace in the stream."""
    state = rl.get_rng_state()
    try:
        yield
    finally:
        rl.set_rng_state(state)


@contextlib.contextmanager
def set_default_dtype(dtype):
    """Floats are of another type inside."""
    before = rl.get_default_dtype()
    try:
        rl.set_default_dtype(dtype)
        yield
    finally:
        rl.set_default_dtype(before)


@contextlib.contextmanager
def TemporaryFileName(*args, **kwargs):
    """The name of a file that others may open, and that is gone afterwards."""
    with tempfile.NamedTemporaryFile(*args, **{**kwargs, "delete": False}) as file:
        pass
    try:
        yield file.name
    finally:
        os.unlink(file.name)


def suppress_warnings(fn):
    """A function whose warnings are not shown."""

    @functools.wraps(fn)
    def quietly(*args, **kwargs):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return fn(*args, **kwargs)

    return quietly


def slowTest(fn):
    """A test that runs where ``PYTORCH_TEST_WITH_SLOW=1``."""
    slow = os.environ.get("PYTORCH_TEST_WITH_SLOW") == "1"
    return unittest.skipUnless(slow, "test is slow; PYTORCH_TEST_WITH_SLOW=1")(fn)


class subtest:
    """One set of values for ``parametrize``, with a name and decorators of its own."""

    def __init__(self, arg_values, name=None, decorators=None):
        self.arg_values, self.name = arg_values, name
        self.decorators = decorators or []


class parametrize:
    """A test for each of some values, in classes that are instantiated.

    Args:
        arg_str: the parameters' names, with commas between them.
        arg_values: what they are: one value, a tuple of several, or a ``subtest``, each.
        name_fn: gives the end of a test's name for its values.
    """

    def __init__(self, arg_str, arg_values, name_fn=None):
        self.names = [name.strip() for name in arg_str.split(",")]
        self.values, self.name_fn = list(arg_values), name_fn

    def __call__(self, fn):
        fn.parametrizations = [*getattr(fn, "parametrizations", []), self]
        return fn

    def cases(self):
        """The ends of names, arguments and decorators of the tests."""
        for index, value in enumerate(self.values):
            given = value if isinstance(value, subtest) else subtest(value)
            values = given.arg_values
            values = [values] if len(self.names) == 1 else list(values)
            name = given.name
            if name is None and self.name_fn is not None:
                name = self.name_fn(*values)
            if name is None:
                pairs = zip(self.names, values)
                name = "_".join(_named(one, value, index) for one, value in pairs)
            yield (
                name.replace(".", "_"),
                dict(zip(self.names, values)),
                given.decorators,
            )


def _named(name, value, index):
    if isinstance(value, DType):
        return repr(value).rpartition(".")[2]
    plain = isinstance(value, (bool, int, float, str))
    return f"{name}_{value}" if plain else f"{name}{index}"


def instantiate_parametrized_tests(generic_cls):
    """Puts the tests that ``parametrize`` stands for into a class.

    Args:
        generic_cls: the class.
    """
    for name, fn in list(vars(generic_cls).items()):
        if not hasattr(fn, "parametrizations"):
            continue
        delattr(generic_cls, name)
        tests = [(name, {}, [])]
        for one in reversed(fn.parametrizations):
            tests = [
                (f"{begun}_{end}", {**args, **more}, [*marks, *others])
                for begun, args, marks in tests
                for end, more, others in one.cases()
            ]
        for made, args, marks in tests:
            test = _with_arguments(fn, args, made)
            for mark in marks:
                test = mark(test)
            setattr(generic_cls, made, test)
    return generic_cls


def _with_arguments(fn, args, name):
    @functools.wraps(fn)
    def test(self):
        return fn(self, **args)

    test.__name__ = name
    del test.parametrizations, test.__wrapped__
    return test


def run_tests(argv=None):
    """Runs the tests of the main module.

    Args:
        argv: the command line; that of the process by default.
    """
    unittest.main(argv=argv)


class TestCase(unittest.TestCase):
    """Test cases whose ``assertEqual`` compares tensors, and what holds them."""

    longMessage = True

    def setUp(self):
        set_rng_seed()

    def assertEqual(
        self, x, y, msg=None, *, atol=None, rtol=None, equal_nan=True, exact_dtype=True,
        **exact,
    ):  # fmt: skip
        """Both are the same, numbers within what their types are exact to.

        Args:
            x, y: tensors, arrays, numbers, what holds them, or anything else.
            msg: words of the error, or a function of them.
            atol, rtol: what numbers may differ by; both or none.
            equal_nan: whether NaN is like NaN.
            exact_dtype: whether types of tensors are compared.
            exact: ``exact_device``, ``exact_layout``, ``exact_stride``: the same of those.

        Raises:
            AssertionError: they differ.
        """
        assert (atol is None) == (rtol is None), "atol and rtol go together"
        how = {"atol": atol, "rtol": rtol, "equal_nan": equal_nan}
        for name in ("device", "layout", "stride"):
            how[f"check_{name}"] = exact.pop(f"exact_{name}", False)
        exact.pop("exact_is_coalesced", None)
        if exact:
            raise TypeError(f"assertEqual() got an unexpected argument {min(exact)!r}")
        try:
            _compare(x, y, exact_dtype, how)
        except AssertionError as error:
            text = (
                msg(str(error))
                if callable(msg)
                else self._formatMessage(msg, str(error))
            )
            raise self.failureException(text) from None

    assertEquals = assertEqual

    def assertNotEqual(self, x, y, msg=None, *, atol=None, rtol=None, **kwargs):
        """The contrary of ``assertEqual``.

        Args:
            x, y: what is compared.
            msg: words of the error.
            atol, rtol: what numbers may differ by.
            kwargs: as for ``assertEqual``.

        Raises:
            AssertionError: they do not differ.
        """
        with self.assertRaises(AssertionError, msg=msg):
            self.assertEqual(x, y, msg, atol=atol, rtol=rtol, **kwargs)

    def assertExpectedInline(self, actual, expect, skip=0):
        """A text is the one that is written in the test."""
        self.assertMultiLineEqual(expect, actual)


def _compare(x, y, exact_dtype, how):
    arrays = (rl.Tensor, numpy.ndarray)
    if isinstance(x, rl.Tensor) and isinstance(y, (list, tuple)):
        y = rl.as_tensor(y, dtype=x.dtype, device=x.device)
    elif isinstance(y, rl.Tensor) and isinstance(x, (list, tuple)):
        x = rl.as_tensor(x, dtype=y.dtype, device=y.device)
    if isinstance(x, arrays) and isinstance(y, arrays):
        pair = (rl.as_tensor(x), rl.as_tensor(y))
        assert_close(*pair, check_dtype=exact_dtype, **how)
    elif isinstance(x, (*arrays, Number)) and isinstance(y, (*arrays, Number)):
        plain = [
            value.item() if isinstance(value, arrays) else value for value in (x, y)
        ]
        assert_close(*plain, check_dtype=False, **how)
    elif isinstance(x, Mapping) and isinstance(y, Mapping):
        assert x.keys() == y.keys(), f"The keys differ: {list(x)} and {list(y)}"
        for key in x:
            _compare(x[key], y[key], exact_dtype, how)
    elif _is_list(x) and _is_list(y):
        assert len(x) == len(y), f"The lengths differ: {len(x)} and {len(y)}"
        for one, other in zip(x, y):
            _compare(one, other, exact_dtype, how)
    else:
        assert x == y, f"Object comparison failed: {x!r} != {y!r}"


def _is_list(value):
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))
