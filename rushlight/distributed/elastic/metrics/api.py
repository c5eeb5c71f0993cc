"""Numbers that programs publish of themselves: how long, how often, how often in vain."""

import abc
import functools
import time
import warnings
from typing import NamedTuple

__all__ = [
    "ConsoleMetricHandler",
    "MetricData",
    "MetricHandler",
    "MetricStream",
    "MetricsConfig",
    "NullMetricHandler",
    "configure",
    "getStream",
    "get_elapsed_time_ms",
    "initialize_metrics",
    "prof",
    "profile",
    "publish_metric",
    "put_metric",
]


class MetricData(NamedTuple):
    """One number: when, of which group, what, how much."""

    timestamp: float
    group_name: str
    name: str
    value: int


class MetricsConfig:
    """Settings of handlers.

    Args:
        params: texts by name.
    """

    __slots__ = ["params"]

    def __init__(self, params=None):
        self.params = {} if params is None else params


class MetricHandler(abc.ABC):
    """Takes the numbers of a group."""

    @abc.abstractmethod
    def emit(self, metric_data):
        """Take one.

        Args:
            metric_data: a `MetricData`.
        """


class ConsoleMetricHandler(MetricHandler):
    """Prints each number."""

    def emit(self, metric_data):
        """Print one.

        Args:
            metric_data: a `MetricData`.
        """
        when, group, name, value = metric_data
        print(f"[{when}][{group}]: {name}={value}")


class NullMetricHandler(MetricHandler):
    """Drops each number."""

    def emit(self, metric_data):
        """Drop one.

        Args:
            metric_data: a `MetricData`.
        """


class MetricStream:
    """The way of a group's numbers to its handler.

    Args:
        group_name: the group.
        handler: a `MetricHandler`.
    """

    def __init__(self, group_name, handler):
        self.group_name, self.handler = group_name, handler

    def add_value(self, metric_name, metric_value):
        """Publish a number.

        Args:
            metric_name: what it is.
            metric_value: how much.
        """
        data = MetricData(time.time(), self.group_name, metric_name, metric_value)
        self.handler.emit(data)


_handlers: dict = {None: NullMetricHandler()}  # by group; None is for all others


def configure(handler, group=None):
    """Say where the numbers of a group go.

    Args:
        handler: a `MetricHandler`.
        group: the group; all that have none of their own without it.
    """
    _handlers[group] = handler


def initialize_metrics(cfg=None):
    """Nothing: `configure` says where numbers go.

    Args:
        cfg: without effect.
    """


def getStream(group):
    """The way of a group's numbers.

    Args:
        group: the group.
    """
    return MetricStream(group, _handlers.get(group, _handlers[None]))


def put_metric(metric_name, metric_value, metric_group="torchelastic"):
    """Publish a number.

    Args:
        metric_name: what it is.
        metric_value: how much.
        metric_group: the group.
    """
    getStream(metric_group).add_value(metric_name, metric_value)


def publish_metric(metric_group, metric_name, metric_value):
    """Publish a number; deprecated for `put_metric`.

    Args:
        metric_group: the group.
        metric_name: what it is.
        metric_value: how much.
    """
    warnings.warn(
        "Deprecated, use `put_metric(metric_group)(metric_name, metric_value)` instead",
        FutureWarning,
        stacklevel=2,
    )
    put_metric(metric_name, metric_value, metric_group)


def get_elapsed_time_ms(start_time_in_seconds):
    """Milliseconds since a time of ``time.time()``.

    Args:
        start_time_in_seconds: that time.
    """
    return int((time.time() - start_time_in_seconds) * 1000)


def _metric_name(function):
    """A method's class and name; a function's module, without its packages, and name."""
    name, module = function.__qualname__, function.__module__
    if "." in name or not module:
        return name
    return f"{module.rpartition('.')[2]}.{name}"


def _measured(function, key, group):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        began, outcome = time.time(), "failure"
        try:
            found = function(*args, **kwargs)
            outcome = "success"
            return found
        finally:
            put_metric(f"{key}.{outcome}", 1, group)
            put_metric(f"{key}.duration.ms", get_elapsed_time_ms(began), group)

    return wrapper


def prof(fn=None, group="torchelastic"):
    """A decorator that publishes how long a function takes, and how it ends.

    Args:
        fn: the function.
        group: the group of the numbers.
    """
    if fn is None:
        return lambda function: _measured(function, _metric_name(function), group)
    return _measured(fn, _metric_name(fn), group)


def profile(group=None):
    """The same by the function's name alone; deprecated for `prof`.

    Args:
        group: the group of the numbers.
    """
    warnings.warn("Deprecated, use `@prof` instead", FutureWarning, stacklevel=2)
    return lambda function: _measured(function, function.__name__, group)
