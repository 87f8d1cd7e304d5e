"""What has to be true of a release: version, changelog and citation agree, and the files hold what they should."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import shutil
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from votestream import __version__

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def release():
    spec = importlib.util.spec_from_file_location("release", ROOT / ".ci" / "release.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def copied(tmp_path):
    """What is written about a version, in a folder of its own."""
    for name in ("CHANGELOG.md", "CITATION.cff", "src/votestream/_version.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "tests" / "golden" / __version__).mkdir(parents=True)
    return tmp_path


def changed(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_version_changelog_and_citation_agree(release):
    assert release.version(ROOT) == __version__
    waiting = ("Unreleased", "golden")  # what is only done when a version is released
    assert [fault for fault in release.wrong_words(ROOT) if not any(word in fault for word in waiting)] == []


def test_a_release_without_its_section_in_the_changelog_is_refused(release, copied):
    changed(copied / "CHANGELOG.md", f"## [{__version__}] - ", "## [9.9.9] - ")
    assert any(f"'## [{__version__}] - YYYY-MM-DD'" in fault for fault in release.wrong_words(copied))


def test_changes_left_under_unreleased_are_named(release, copied):
    changed(copied / "CHANGELOG.md", "## [Unreleased]\n", "## [Unreleased]\n\n- A change.\n")
    assert any("Unreleased" in fault for fault in release.wrong_words(copied))


@pytest.mark.parametrize("key", ["version", "date-released"])
def test_a_citation_of_another_version_or_date_is_named(release, copied, key):
    changed(copied / "CITATION.cff", f"\n{key}: ", f"\n{key}: 1")
    assert any(f"CITATION.cff must say {key}: " in fault for fault in release.wrong_words(copied))


def test_a_release_without_golden_files_of_its_own_is_refused(release, copied):
    (copied / "tests" / "golden" / __version__).rmdir()
    assert any("golden_files.py" in fault for fault in release.wrong_words(copied))


def test_a_version_that_is_none_is_refused(release, copied):
    changed(copied / "src" / "votestream" / "_version.py", __version__, "soon")
    with pytest.raises(ValueError, match="three numbers, got"):
        release.version(copied)


def test_a_wheel_that_lacks_a_file_of_the_page_or_holds_a_stray_one_is_refused(release):
    tracked = {"src/votestream/a.py", "src/votestream/serve/page/main.js", "tests/test_a.py"}
    right = {"votestream/a.py", "votestream/serve/page/main.js", "votestream-1.dist-info/METADATA"}
    right |= {f"votestream-1.dist-info/licenses/{name}" for name in ("LICENSE", "NOTICE")}
    assert release.wrong_wheel(right, tracked) == []
    assert release.wrong_wheel(right - {"votestream/serve/page/main.js"} | {"tests/test_a.py"}, tracked) == [
        "The wheel lacks votestream/serve/page/main.js.",
        "The wheel holds tests/test_a.py, which is not in the package.",
    ]


def test_a_wheel_without_the_notice_is_refused(release):
    held = {"votestream-1.dist-info/METADATA", "votestream-1.dist-info/licenses/LICENSE"}
    assert release.wrong_wheel(held, set()) == ["The wheel lacks NOTICE."]


def test_the_notice_goes_out_and_names_all_data_and_weights_in_the_package_and_the_weights_it_installs():
    assert set(PROJECT["license-files"]) == {"LICENSE", "NOTICE"}
    assert "LICENSE NOTICE" in (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    package = ROOT / "src" / "votestream"
    held = [path for end in ("webp", "safetensors", "npy", "npz", "pth") for path in package.rglob(f"*.{end}")]
    assert len(held) == 3
    assert [path.name for path in held if path.name not in notice] == []
    weights = [each.name for each in map(Requirement, PROJECT["dependencies"]) if each.name.endswith("_model")]
    assert [name for name in weights if name not in notice] == []
    assert weights


def test_an_sdist_that_lacks_results_or_holds_a_stray_file_is_refused(release):
    tracked = {"conftest.py", "results/accuracy/online.csv"}
    rows = "votestream-1/results/accuracy/online.csv"
    right = {"votestream-1/PKG-INFO", "votestream-1/conftest.py", rows}
    assert release.wrong_sdist(right, tracked) == []
    assert release.wrong_sdist(right - {rows} | {"votestream-1/.env"}, tracked) == [
        "The sdist lacks results/accuracy/online.csv.",
        "The sdist holds .env, which is not in the repository.",
    ]


OLDEST = PROJECT["requires-python"].removeprefix(">=")


def test_every_pin_can_be_installed_on_the_oldest_python():
    asked, refused = 0, []
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        if not line.partition("#")[0].strip():
            continue
        pin = Requirement(line.partition("#")[0])
        assert pin.marker is None, f"{line}: one pin for every Python"
        try:
            about = importlib.metadata.metadata(pin.name)
        except importlib.metadata.PackageNotFoundError:
            continue  # of a part that has an environment of its own
        asked += 1
        for needs in about.get_all("Requires-Python") or []:
            if f"{OLDEST}.0" not in SpecifierSet(needs):
                refused.append(f"{pin.name} needs Python {needs}")
    assert asked > 10
    assert refused == []


REQUIREMENTS = [
    Requirement(line)
    for lines in (PROJECT["dependencies"], *PROJECT["optional-dependencies"].values())
    for line in lines
]


def test_every_pin_is_a_version_that_the_package_allows():
    lines = (line.partition("#")[0].strip() for line in (ROOT / "constraints.txt").read_text().splitlines())
    pins = {pin.name: next(iter(pin.specifier)).version for pin in map(Requirement, filter(None, lines))}
    assert {"starlette", "h11"} <= set(pins)
    pinned = [each for each in REQUIREMENTS if each.name in pins]
    assert len(pinned) > 20
    assert [str(each) for each in pinned if pins[each.name] not in each.specifier] == []


@pytest.mark.parametrize(
    ("name", "last"),
    [
        ("torch", "2.5.1"),  # CVE-2025-32434: torch.load with weights_only runs code
        ("pillow", "12.3.0"),  # CVE-2026-96639 and others: memory errors in decoders
        ("filelock", "3.20.2"),  # CVE-2025-68146, CVE-2026-22701: links in place of lock files
        (
            "starlette",
            "1.3.0",
        ),  # CVE-2024-47874, CVE-2025-62727, CVE-2026-48710, CVE-2026-54283: bodies, ranges, hosts, forms
        ("h11", "0.15.0"),  # CVE-2025-43859: smuggled requests
        ("python-multipart", "0.0.31"),  # CVE-2024-53981, CVE-2026-40347, CVE-2026-42561 and others: slow forms
        ("ray", "2.51.2"),  # CVE-2025-62593: a page of a stranger runs code by the dashboard
    ],
)
def test_no_version_with_a_known_hole_is_allowed(name, last):
    allowed = [each for each in REQUIREMENTS if each.name == name]
    assert allowed
    assert [str(each) for each in allowed if last in each.specifier] == []


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("README.md", r"Python (3\.\d+) or newer"),
        ("CONTRIBUTING.md", r"Python (3\.\d+) or newer"),
        ("docs/start.md", r"Python (3\.\d+) or newer"),
        ("docs/policy.md", r"Python (3\.\d+) and newer"),
        ("Makefile", r"Python (3\.\d+) or newer"),
        ("Makefile", r"version_info < \((3, \d+)\)"),
        ("pyproject.toml", r'target-version = "py(3\d+)"'),
        ("pyproject.toml", r'python_version = "(3\.\d+)"'),
        ("pyproject.toml", r'"Programming Language :: Python :: (3\.\d+)"'),
        ("tests/mypy.ini", r"python_version = (3\.\d+)"),
        (".github/workflows/tests.yml", r'python: \["(3\.\d+)"'),
    ],
)
def test_every_place_that_names_the_oldest_python_names_the_same(name, pattern):
    found = re.search(pattern, (ROOT / name).read_text(encoding="utf-8"))
    assert found, f"{name} does not match {pattern}"
    assert re.findall(r"\d", found[1]) == re.findall(r"\d", OLDEST)
