"""Things by name: our own, what a decorator adds, and what other packages bring by entry points."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

T = TypeVar("T")


class Registry(Mapping[str, T]):
    """A dict that also knows the entry points of installed packages, in the group `votestream.KINDs`.

    An entry point is `NAME = "module:object"`. It is imported when its name is looked up and not here, or when all
    names are asked for; never before, so that nobody waits for plug-ins they do not use. One that cannot be imported,
    or is not what it should be, is told once, in a warning, and left out. `check` complains about what cannot be
    registered. `homes` are modules of this package whose import registers our own, done at the first lookup.

    >>> colours = Registry("colour", {"red": lambda: "#f00"})
    >>> colours.add("blue", lambda: "#00f")
    >>> list(colours), "green" in colours
    (['red', 'blue'], False)
    """

    def __init__(
        self,
        kind: str,
        built_in: Mapping[str, T] | None = None,
        check: Callable[[str, Any], None] | None = None,
        homes: tuple[str, ...] = (),
    ) -> None:
        self.kind = kind
        self.group = f"votestream.{kind.replace(' ', '_')}s"
        self._known: dict[str, T] = dict(built_in or {})
        self._check = check
        self._homes = homes
        self._tried: set[EntryPoint] = set()
        self._renew_lock()
        if hasattr(os, "register_at_fork"):  # Windows has no fork
            os.register_at_fork(after_in_child=self._renew_lock)  # whoever held it is not in that process

    def _renew_lock(self) -> None:
        self._lock = threading.RLock()

    def add(self, name: str, thing: T) -> None:
        """A name is taken once. The same thing defined again, as by a notebook's cell run twice, replaces itself."""
        taken = self._known.get(name)
        if taken is not None and _origin(taken) != _origin(thing):
            raise ValueError(f"a {self.kind} called {name!r} is registered already: {'.'.join(_origin(taken))}")
        if self._check is not None:
            self._check(name, thing)
        self._known[name] = thing

    def decorator(self, name: str) -> Callable[[Any], Any]:
        """What the public `register...` functions return."""

        def enter(thing: Any) -> Any:
            self.add(name, thing)
            return thing

        return enter

    def here(self) -> list[str]:
        """The names known so far; nothing is imported."""
        return list(self._known)

    def __getitem__(self, name: str) -> T:
        if name not in self._known:
            self._load(name)
        return self._known[name]

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False  # what users pass as a setting may be of any kind, even one without a hash
        if name not in self._known:
            self._load(name)
        return name in self._known

    def __iter__(self) -> Iterator[str]:
        self._load()
        return iter(self.here())

    def __len__(self) -> int:
        self._load()
        return len(self._known)

    def _load(self, asked: str | None = None) -> None:
        """Import the plug-ins of that name, or of its family: `timm:resnet50` belongs to `timm:NAME`. None: all."""
        with self._lock:  # of two threads that look a plug-in up, the second waits until it is here
            while self._homes:
                home, *rest = self._homes
                self._homes = tuple(rest)  # before the import, which may look something up itself
                import_module(home)
            if asked in self._known:
                return
            for entry in entry_points(group=self.group):
                if entry in self._tried or (asked is not None and _family(asked) != _family(entry.name)):
                    continue
                self._tried.add(entry)
                try:
                    thing = entry.load()
                    if not callable(thing):
                        raise TypeError(f"it must be a class or a function, got {thing!r:.60}")
                    self.add(entry.name, thing)
                except (Exception, SystemExit) as error:  # whatever another package's code may do
                    whose = f"the package {entry.dist.name}" if entry.dist else "a package"
                    warnings.warn(
                        f"{whose} brings a {self.kind} {entry.name!r} ({entry.value}) that cannot be used: "
                        f"{type(error).__name__}: {error}",
                        stacklevel=4,
                    )


def _family(name: str) -> str:
    return name.partition(":")[0]


def _origin(thing: Any) -> tuple[str, str]:
    """Where it was defined."""
    return thing.__module__, getattr(thing, "__qualname__", repr(thing))
