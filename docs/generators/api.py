"""The reference of the public interface: every name that the package and its public rooms give out."""

from __future__ import annotations

import ast
import inspect
import pkgutil
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import votestream
import votestream.compat
from generators.docstrings import escaped, to_rst
from generators.methods import learners, underlined

PACKAGE = Path(votestream.__file__).parent
BESIDE = ("voting",)  # a module that is no room


@cache
def rooms() -> tuple[str, ...]:
    """Parts of the package that give out names, in the order of the pages.

    Names that `votestream` gives out too are described once, as votestream.NAME.
    """
    packages = [each.name for each in pkgutil.iter_modules(votestream.__path__) if each.ispkg]
    public = [name for name in packages if hasattr(import_module(f"votestream.{name}"), "__all__")]
    inside = [room.removeprefix("votestream.") for room in votestream._ROOMS]
    return (*public, *(room for room in inside if room not in public), *BESIDE)


def public_names(module: Any) -> list[str]:
    """What a module gives out: its `__all__`, or what it defines without an underscore."""
    if hasattr(module, "__all__"):
        return [name for name in module.__all__ if name != "__version__"]
    own = vars(module).items()
    return [n for n, it in own if not n.startswith("_") and getattr(it, "__module__", "") == module.__name__]


def home(name: str) -> str:
    """The room whose page describes a name of `votestream`."""
    for room in rooms():
        if name in vars(import_module(f"votestream.{room}")):
            return room
    raise LookupError(f"votestream.{name} is given out by no room: give it an __all__, or add its module to BESIDE")


def described(room: str) -> list[str]:
    """Full names that the room's page describes."""
    top = [name for name in public_names(votestream) if home(name) == room]
    methods = {cls.__name__ for cls in learners().values()}  # which have pages of their own
    names = [f"votestream.{name}" for name in top if name not in methods]
    if "." in room:  # a module inside a room: the rest of it is the room's own
        return names
    module = import_module(f"votestream.{room}")
    here = [name for name in public_names(module) if name not in votestream.__all__ and not _elsewhere(module, name)]
    return [*names, *(f"votestream.{room}.{name}" for name in here)]


def _elsewhere(module: Any, name: str) -> bool:
    """Whether an earlier room gives out the same thing."""
    earlier = rooms()[: rooms().index(module.__name__.removeprefix("votestream."))]
    thing = getattr(module, name)
    return any(vars(import_module(f"votestream.{room}")).get(name) is thing for room in earlier)


def directive(full: str) -> list[str]:
    module, _, name = full.rpartition(".")
    thing = getattr(import_module(module), name)
    if inspect.isclass(thing):
        options = ["   :members:", "   :show-inheritance:"]
        return [f".. autoclass:: {full}", *options, ""]
    kind = "autofunction" if inspect.isroutine(thing) else "autodata"
    return [f".. {kind}:: {full}", *(["   :no-value:"] if kind == "autodata" else []), ""]


def page(title: str, about: str, names: list[str]) -> str:
    lines = [*underlined(title), about, ""]
    for full in names:
        lines += directive(full)
    return "\n".join(lines) + "\n"


def pages() -> dict[str, str]:
    """Text of every page, by its name."""
    made = {}
    for room in rooms():
        names = described(room)
        if names:
            about = (import_module(f"votestream.{room}").__doc__ or "").strip()
            made[room.replace(".", "_")] = page(f"votestream.{room}", about, names)
    made["compat"] = _compat()
    contents = [f"   {name}" for name in made]
    made["index"] = "\n".join(
        [
            *underlined("API reference"),
            "``import votestream as vs`` gives out what most programs need, listed here; rooms of the package give out",
            "the rest. Every learner has :doc:`a page of its own </methods/index>`.",
            *("", ".. list-table::", "   :widths: 32 68", ""),
            *(line for name in sorted(public_names(votestream), key=str.lower) for line in _listed(name)),
            *("", ".. toctree::", "   :hidden:", "", *contents),
        ]
    )
    return {name: text.rstrip() + "\n" for name, text in made.items()}


def _listed(name: str) -> list[str]:
    """A name, and the first line of what is said of it."""
    told = (inspect.getdoc(getattr(votestream, name)) or "").split("\n")[0]
    return [f"   * - :py:obj:`vs.{name} <votestream.{name}>`", f"     - {escaped(told)}"]


def _compat() -> str:
    """Modules for other libraries, read without importing them: those libraries need not be here."""
    lines = [*underlined("votestream.compat"), (votestream.compat.__doc__ or "").strip(), ""]
    lines += ["See :doc:`/integrations` and :doc:`/records`.", ""]
    for path in sorted((PACKAGE / "compat").glob("*.py")):
        module = ast.parse(path.read_text(encoding="utf-8"))
        found = [each for each in module.body if isinstance(each, (ast.ClassDef, ast.FunctionDef))]
        public = [each for each in found if not each.name.startswith("_")]
        if path.stem not in ("__init__", "versions") and public:
            lines += [*underlined(f"votestream.compat.{path.stem}", "-"), escaped(ast.get_docstring(module) or ""), ""]
            lines += [line for each in public for line in _read(f"votestream.compat.{path.stem}", each)]
    return "\n".join(lines) + "\n"


def _read(module: str, node: ast.ClassDef | ast.FunctionDef) -> list[str]:
    """A class or function as its source tells it."""
    maker = node
    if isinstance(node, ast.ClassDef):
        own = (each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__")
        maker = next(own, node)
    arguments = ast.unparse(maker.args).removeprefix("self").lstrip(", ") if isinstance(maker, ast.FunctionDef) else ""
    kind = "class" if isinstance(node, ast.ClassDef) else "function"
    told = [f"   {line}" if line else "" for line in to_rst(ast.get_docstring(node) or "")]
    return [f".. py:{kind}:: {module}.{node.name}({arguments})", "", *told, ""]


def write(folder: Path) -> None:
    folder.mkdir(parents=True)
    for name, text in pages().items():
        (folder / f"{name}.rst").write_text(text, encoding="utf-8")
