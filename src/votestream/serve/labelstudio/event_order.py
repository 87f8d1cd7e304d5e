"""The order of events: those about the same annotation take effect in the order in which they arrive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager


class EventOrder:
    """Keeps the order of events by key. Events may fetch their images at the same time.

    >>> order, done = EventOrder(), []
    >>> async def event(name, seconds):
    ...     async with order.turn(["annotation 17"]) as earlier_ones:
    ...         await asyncio.sleep(seconds)
    ...         await earlier_ones()
    ...         done.append(name)
    >>> async def both():
    ...     await asyncio.gather(event("created", 0.1), event("deleted", 0))
    >>> asyncio.run(both())
    >>> done
    ['created', 'deleted']
    """

    def __init__(self) -> None:
        self._newest: dict[str, asyncio.Future[None]] = {}

    def pending(self, prefix: str) -> list[str]:
        """The keys of current events that start with the prefix."""
        return [key for key in self._newest if key.startswith(prefix)]

    @asynccontextmanager
    async def turn(self, keys: Iterable[str]) -> AsyncIterator[Callable[[], Awaitable[None]]]:
        """Join the queues of these keys. Yields a function that waits for the events that came before."""
        keys = set(keys)
        earlier = {self._newest[key] for key in keys if key in self._newest}
        mine = asyncio.get_running_loop().create_future()
        self._newest |= dict.fromkeys(keys, mine)

        async def wait() -> None:
            if earlier:
                await asyncio.wait(earlier)

        try:
            yield wait
        finally:
            try:
                await wait()  # even after a failure, the next event must not overtake earlier ones
            finally:
                mine.set_result(None)
                for key in keys:
                    if self._newest[key] is mine:
                        del self._newest[key]
