"""When what all classes share is computed anew: at fixed places of the stream, whatever was asked in between."""

from __future__ import annotations

from bisect import bisect_right


def _points(most: int) -> list[int]:
    points = [1]
    while points[-1] < most:
        points.append(points[-1] + max(1, points[-1] // 100))
    return points


POINTS = _points(10**15)  # every sample up to 200, then after one in a hundred more


def last_refresh(samples: int) -> int:
    """The last place of the stream, counted in samples, at which shared statistics are brought up to date.

    At most 1 % of the samples are behind. It follows from the count alone, so answers depend on what was learned and
    not on when they were asked for, and a model that was saved and loaded goes on with the same.

    >>> [last_refresh(n) for n in (1, 150, 1000, 1005, 50_000)]
    [1, 150, 996, 1005, 49750]
    """
    return POINTS[bisect_right(POINTS, samples) - 1]


def held_samples(merged: int, waiting: int) -> tuple[int, int]:
    """Of a memory that has merged so many samples and lets others wait: these, and those up to the refresh.

    What has been merged cannot be taken apart again, so a merge is a refresh too.

    >>> held_samples(512, 100), held_samples(49_920, 40)
    ((512, 608), (49920, 49920))
    """
    return merged, max(merged, last_refresh(merged + waiting))
