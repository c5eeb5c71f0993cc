"""Numbers about the server in Prometheus's text form."""

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


def _quoted(value):
    return str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def labelled(labels):
    """Labels as the text form writes them.

    >>> labelled({"model": "net"})
    '{model="net"}'
    """
    inner = ",".join(f'{key}="{_quoted(value)}"' for key, value in labels.items())
    return f"{{{inner}}}" if inner else ""


class Metric:
    """One metric with its labels' values: a counter, a gauge or a histogram."""

    kind = "counter"

    def __init__(self, name, says):
        self.name, self.says, self.values = name, says, {}

    def add(self, amount=1, **labels):
        """Counts something."""
        key = tuple(labels.items())
        self.values[key] = self.values.get(key, 0) + amount

    def lines(self):
        """The metric's lines."""
        yield f"# HELP {self.name} {self.says}"
        yield f"# TYPE {self.name} {self.kind}"
        for key, value in self.values.items():
            yield from self.sample(dict(key), value)

    def sample(self, labels, value):
        yield f"{self.name}{labelled(labels)} {value:g}"


class Gauge(Metric):
    """What goes up and down: asked for when it is read."""

    kind = "gauge"

    def __init__(self, name, says, read):
        super().__init__(name, says)
        self.read = read

    def lines(self):
        """The metric's lines, as things are."""
        self.values = {tuple(labels.items()): value for labels, value in self.read()}
        return super().lines()


class Histogram(Metric):
    """How often something was within each bound."""

    kind = "histogram"

    def __init__(self, name, says, bounds):
        super().__init__(name, says)
        self.bounds = bounds

    def observe(self, value, **labels):
        """Takes in one more."""
        key = tuple(labels.items())
        counts = self.values.get(key)
        if counts is None:
            counts = self.values[key] = [0] * len(self.bounds) + [0, 0.0]
        for at, bound in enumerate(self.bounds):
            counts[at] += value <= bound
        counts[-2] += 1
        counts[-1] += value

    def sample(self, labels, counts):
        for bound, count in zip((*self.bounds, "+Inf"), counts):
            text = bound if bound == "+Inf" else f"{bound:g}"
            yield f"{self.name}_bucket{labelled({**labels, 'le': text})} {count}"
        yield f"{self.name}_sum{labelled(labels)} {counts[-1]:g}"
        yield f"{self.name}_count{labelled(labels)} {counts[-2]}"


class Metrics:
    """All that the server counts; ``models`` gives those that are registered."""

    def __init__(self, models):
        self.requests = Metric(
            "rushlight_requests_total", "Requests that were answered, by status"
        )
        self.latency = Histogram(
            "rushlight_request_seconds",
            "From a request's arrival to its answer",
            SECONDS,
        )
        self.waiting = Histogram(
            "rushlight_queue_seconds", "How long requests waited for a worker", SECONDS
        )
        self.batches = Histogram(
            "rushlight_batch_size", "Requests that ran together", SIZES
        )
        self.restarts = Metric(
            "rushlight_worker_restarts_total", "Workers that ended and were replaced"
        )
        self.retries = Metric(
            "rushlight_requests_retried_total",
            "Requests that went to another worker since theirs ended",
        )
        self.queue = Gauge(
            "rushlight_queue_length",
            "Requests that wait for a worker",
            lambda: [(m.labels, len(m.queue)) for m in models()],
        )
        self.workers = Gauge(
            "rushlight_workers",
            "Workers that are ready",
            lambda: [(m.labels, m.ready) for m in models()],
        )

    def text(self):
        """Everything, in the text form."""
        lines = [line for metric in vars(self).values() for line in metric.lines()]
        return "\n".join(lines) + "\n"
