"""What must be true of a release before it goes out; `make release` calls this after the wheel and the sdist are built.

    python .ci/release.py DIST

Prints every fault as a sentence and ends with exit code 1 if there is one.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = "src/votestream/"


def version(root: Path) -> str:
    text = (root / PACKAGE / "_version.py").read_text(encoding="utf-8")
    found = re.search(r'__version__ = "(\d+\.\d+\.\d+)"', text)
    if not found:
        raise ValueError(f"{PACKAGE}_version.py must hold a version of three numbers, got {text.strip()!r}")
    return found[1]


def wrong_words(root: Path) -> list[str]:
    """Faults of what is written about this version."""
    number = version(root)
    changes = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    section = re.search(rf"^## \[{re.escape(number)}\] - (\d{{4}}-\d{{2}}-\d{{2}})$", changes, re.M)
    faults = []
    if not section:
        faults.append(f"CHANGELOG.md must have a section '## [{number}] - YYYY-MM-DD' for this version.")
    citation = (root / "CITATION.cff").read_text(encoding="utf-8")
    for key, value in {"version": number, "date-released": section[1] if section else None}.items():
        told = re.search(rf"^{key}: \"?([^\"\n]*)\"?$", citation, re.M)
        if value and (not told or told[1] != value):
            faults.append(f"CITATION.cff must say {key}: {value}, got {told[1] if told else 'nothing'}.")
    unreleased = changes.partition("## [Unreleased]")[2].partition("\n## ")[0].strip()
    if unreleased:
        faults.append("CHANGELOG.md still has lines under [Unreleased]: move them into this version's section.")
    if not (root / "tests" / "golden" / number).exists():
        faults.append(f"tests/golden/{number} must hold model files of this version: python tests/golden_files.py.")
    return faults


def wrong_wheel(names: set[str], tracked: set[str]) -> list[str]:
    """Faults of a wheel with these files: it holds the package, page, weights and sample included, and nothing else."""
    wanted = {name.removeprefix("src/") for name in tracked if name.startswith(PACKAGE)}
    held = {name for name in names if ".dist-info/" not in name}
    licences = {name.partition(".dist-info/licenses/")[2] for name in names}
    lacking = [name for name in ("LICENSE", "NOTICE") if name not in licences]
    return [f"The wheel lacks {name}." for name in [*sorted(wanted - held), *lacking]] + [
        f"The wheel holds {name}, which is not in the package." for name in sorted(held - wanted)
    ]


def wrong_sdist(names: set[str], tracked: set[str]) -> list[str]:
    """Faults of an sdist with these files: it holds all of the repository, so that the tests run in it."""
    held = {name.partition("/")[2] for name in names} - {"PKG-INFO"}
    return [f"The sdist lacks {name}." for name in sorted(tracked - held)] + [
        f"The sdist holds {name}, which is not in the repository." for name in sorted(held - tracked)
    ]


def main(dist: Path) -> int:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, encoding="utf-8")
    tracked = {name for name in listed.stdout.splitlines() if (ROOT / name).exists()}
    number = version(ROOT)
    faults = wrong_words(ROOT)
    with zipfile.ZipFile(dist / f"votestream-{number}-py3-none-any.whl") as wheel:
        faults += wrong_wheel(set(wheel.namelist()), tracked)
    with tarfile.open(dist / f"votestream-{number}.tar.gz") as sdist:
        faults += wrong_sdist({member.name for member in sdist if member.isfile()}, tracked)
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
