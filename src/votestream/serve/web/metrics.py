"""Metrics in the text format of Prometheus."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds
# The counters among the statistics of an engine; the others are gauges.
COUNTED = {"lessons", "undos", "renames", "forgets", "refused", "refused_by_disk", "too_busy", "predictions", "folds"}
COUNTED |= {"images_seen", "backbone_batches", "updates", "failed_updates", "writer_went_back"}
TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Counts:
    """Counts requests by method, route and status, and measures how long they take by route."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self.within: dict[str, list[int]] = {}
        self.seconds: Counter[str] = Counter()

    def add(self, method: str, route: str, status: int, seconds: float) -> None:
        with self._lock:
            self.requests[method, route, status] += 1
            self.seconds[route] += seconds  # type: ignore[assignment]
            within = self.within.setdefault(route, [0] * (len(BOUNDS) + 1))
            within[next((n for n, bound in enumerate(BOUNDS) if seconds <= bound), len(BOUNDS))] += 1

    def lines(self) -> Iterable[str]:
        with self._lock:
            requests, seconds = dict(self.requests), dict(self.seconds)
            within = {route: list(counts) for route, counts in self.within.items()}
        yield "# TYPE votestream_http_requests_total counter"
        for (method, route, status), count in sorted(requests.items()):
            yield f"votestream_http_requests_total{_of(method=method, route=route, status=status)} {count}"
        yield "# TYPE votestream_http_request_seconds histogram"
        for route, counts in sorted(within.items()):
            total = 0
            for bound, count in zip((*BOUNDS, "+Inf"), counts, strict=True):
                total += count
                yield f"votestream_http_request_seconds_bucket{_of(route=route, le=bound)} {total}"
            yield f"votestream_http_request_seconds_sum{_of(route=route)} {seconds[route]:.6f}"
            yield f"votestream_http_request_seconds_count{_of(route=route)} {total}"


def text(counts: Counts, of_models: Mapping[str, Mapping[str, float]]) -> str:
    """All metrics: of the requests, and of each model's engine."""
    lines = list(counts.lines())
    for key in sorted({key for numbers in of_models.values() for key in numbers}):
        name, kind = (f"votestream_{key}_total", "counter") if key in COUNTED else (f"votestream_{key}", "gauge")
        lines.append(f"# TYPE {name} {kind}")
        lines += [f"{name}{_of(model=model)} {numbers[key]}" for model, numbers in of_models.items() if key in numbers]
    return "\n".join(lines) + "\n"


def _of(**labels: object) -> str:
    """Labels as Prometheus writes them.

    >>> _of(model='my "shop"', le=0.5)
    '{model="my \\\\"shop\\\\"",le="0.5"}'
    """
    inside = ",".join(f'{key}="{_escaped(str(value))}"' for key, value in labels.items())
    return "{" + inside + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
