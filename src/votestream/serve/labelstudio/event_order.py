"""Events that concern the same annotation take effect in the order in which they came in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager


class InOrder:
    """Keeps the order of events by key. No event waits for another one while it fetches its image.

    >>> order, done = InOrder(), []
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
        """The keys of events under way that begin so."""
        return [key for key in self._newest if key.startswith(prefix)]

    @asynccontextmanager
    async def turn(self, keys: Iterable[str]) -> AsyncIterator[Callable[[], Awaitable[None]]]:
        """Join the queues of these keys; the function that is given waits for the events that came before."""
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
                await wait()  # an event that failed must not let the next one overtake those before it
            finally:
                mine.set_result(None)
                for key in keys:
                    if self._newest[key] is mine:
                        del self._newest[key]
