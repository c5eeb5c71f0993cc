"""Events and numbers gathered over windows, beside PyTorch's."""

from datetime import datetime, timedelta

import pytest

import rushlight as rl

torch = pytest.importorskip("torch", reason="the oracle is not installed")
KINDS = ["MEAN", "COUNT", "SUM", "MAX", "MIN"]
HOUR = timedelta(hours=1)


@pytest.fixture
def heard():
    """What handlers of both libraries have been told."""
    told: dict = {rl: [], torch: []}
    handles = [
        (library.monitor, library.monitor.register_event_handler(events.append))
        for library, events in told.items()
    ]
    yield told
    for monitor, handle in handles:
        monitor.unregister_event_handler(handle)


def both(make):
    return {library: make(library.monitor) for library in (rl, torch)}


def plain(answer):
    return {kind.name: value for kind, value in answer.items()}


def test_a_window_of_numbers_comes_to_what_pytorchs_does(heard):
    stats = both(
        lambda m: m.Stat("loss", [getattr(m.Aggregation, k) for k in KINDS], HOUR, 3)
    )
    answers: dict = {rl: [], torch: []}
    for library, stat in stats.items():
        for value in [None, 1, 2.5, -3, 10]:
            if value is not None:
                stat.add(value)
            answers[library].append((stat.name, stat.count, plain(stat.get())))
    assert answers[rl] == answers[torch]
    assert [(e.name, e.data) for e in heard[rl]] == [
        (e.name, e.data) for e in heard[torch]
    ]


def test_numbers_left_over_are_told_of_at_the_end(heard):
    for library in heard:
        monitor = library.monitor
        stat = monitor.Stat("x", [monitor.MEAN], HOUR)
        stat.add(4)
        del stat
        monitor.Stat("nothing", [monitor.MEAN], HOUR)
    assert (
        [e.data for e in heard[rl]] == [e.data for e in heard[torch]] == [{"x.mean": 4}]
    )


def test_events_reach_handlers_until_they_are_taken_away(heard):
    data = {"a": 1, "b": "x", "c": True, "d": 2.5}
    for library, events in heard.items():
        event = library.monitor.Event("n", datetime(2026, 1, 1), data)
        library.monitor.log_event(event)
        assert [(e.name, e.data) for e in events] == [("n", data)]
    told: list = []
    handle = rl.monitor.register_event_handler(told.append)
    rl.monitor.unregister_event_handler(handle)
    rl.monitor.unregister_event_handler(handle)
    rl.monitor.log_event(event)
    assert told == []


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.Event("n", datetime.now(), {"a": [1]}),
        lambda m: m.Event("n", 5, {}),
        lambda m: m.Stat("x", [m.MEAN], 5),
        lambda m: m.EventHandlerHandle(),
        lambda m: m.data_value_t(),
    ],
    ids=["data", "time", "window", "handle", "value"],
)
def test_arguments_of_another_type_are_refused(call):
    for library in rl, torch:
        with pytest.raises(TypeError):
            call(library.monitor)


def test_windows_are_written_as_scalars():
    written = []

    class Writer:
        def add_scalar(self, *args, **options):
            written.append((args, sorted(options)))

    handle = rl.monitor.register_event_handler(
        rl.monitor.TensorboardEventHandler(Writer())
    )
    stat = rl.monitor.Stat("x", [rl.monitor.SUM], HOUR, 1)
    stat.add(2)
    rl.monitor.unregister_event_handler(handle)
    assert written == [(("x.sum", 2.0), ["walltime"])]
