"""firn installed as users install it: the wheel, in environments that have what its metadata asks for and nothing else.

What an extra needs is taken from the environment of the tests, file by file, so it is of the locked versions and needs
no package index.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Sequence
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, PathDistribution, distribution
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement

ROOT: Final = Path(__file__).parents[1]
SOURCES: Final = ("firn", "model", "storage", "coordinator", "pipeline", "grafana", "docs")
BUILD: Final = "import sys, setuptools.build_meta as b; to = sys.argv[1]; b.build_sdist(to); b.build_wheel(to)"
BUILD_S: Final = 180.0
BUILT_COMMIT: Final = "0123456789ab"
"""What builds of `Built` are of: there is no git where they are built."""

PROJECT_URL: Final = "https://example.org/firn"
"""Where they are published, as far as they know."""

OLDER: Final = "db7e13b05892a0577f315acb1e9a3171a9d250d0"
"""The version to upgrade from, as no release is tagged yet. Its journal is in another folder."""

INDEX_S: Final = 900.0


class Built:
    """The wheel and the source distribution of the files as they are now."""

    def __init__(self, folder: Path, *, commit: str = BUILT_COMMIT) -> None:
        source = folder / "source"
        source.mkdir()
        for file in (
            *ROOT.glob("*.toml"),
            *ROOT.glob("*.md"),
            *ROOT.glob("*.py"),
            *ROOT.glob("MANIFEST.in"),
            ROOT / "LICENSE",
        ):
            if file.exists():
                shutil.copy2(file, source)
        unwanted = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info")
        for name in SOURCES:
            shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=unwanted)
        self.folder = folder / "dist"
        build_in(source, self.folder, BUILD_COMMIT=commit, PROJECT_URL=PROJECT_URL)

    @property
    def wheel(self) -> Path:
        (found,) = self.folder.glob("*.whl")
        return found

    @property
    def sdist(self) -> Path:
        (found,) = self.folder.glob("*.tar.gz")
        return found

    def wheel_of_sdist(self, folder: Path) -> Path:
        """The wheel that is built from the source distribution alone."""
        with tarfile.open(self.sdist) as packed:
            packed.extractall(folder, filter="data")
        (source,) = folder.iterdir()
        build_in(source, folder / "dist", PROJECT_URL=PROJECT_URL)
        (found,) = (folder / "dist").glob("*.whl")
        return found


def described(**environment: str) -> str:
    """Return the description that a build of these files would have."""
    done = subprocess.run(
        [sys.executable, "setup.py", "--quiet", "--long-description"], cwd=ROOT, env=os.environ | environment,
        capture_output=True, text=True, timeout=BUILD_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def wheel_of_commit(commit: str, folder: Path) -> Path:
    """Build the wheel of what a commit has. Raises LookupError where the history that has it is not."""
    source = folder / "source"
    packed = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=False)
    if packed.returncode:
        raise LookupError(f"the history that has {commit[:7]} is not here: {packed.stderr.decode().strip()}")
    source.mkdir(parents=True)
    subprocess.run(["tar", "-x", "-C", source], input=packed.stdout, check=True)
    build_in(source, folder / "dist", BUILD_COMMIT=commit[:12])
    (wheel,) = (folder / "dist").glob("*.whl")
    return wheel


def build_in(source: Path, target: Path, **environment: str) -> None:
    """Build what a source tree describes, with the setuptools that is here."""
    target.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", BUILD, str(target)], cwd=source, env=os.environ | environment,
        capture_output=True, text=True, timeout=BUILD_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]


class Installation:
    """A virtual environment with firn's wheel (none: without firn), what some extras need, and packages `beside` them.

    They are those that are installed here, or, if told so, what a package index has.
    """

    def __init__(
        self, folder: Path, wheel: Path | None, extras: Sequence[str] = (), *, beside: Sequence[str] = (),
        from_index: bool = False,
    ) -> None:  # fmt: skip
        venv.create(folder, with_pip=False, symlinks=True)
        self.bin = folder / "bin"
        (self.site,) = folder.glob("lib/python*/site-packages")
        firn = [] if wheel is None else [f"firn[{','.join(extras)}] @ {wheel.as_uri()}"]
        if from_index:
            self._install(*firn, *beside, timeout_s=INDEX_S)
            return
        for name in sorted(needed_by([*firn, *beside], wheel=wheel)):
            link_distribution(distribution(name), self.site)
        if firn:
            self._install("--no-index", "--no-deps", "--no-compile", *firn, timeout_s=BUILD_S)

    def _install(self, *arguments: str, timeout_s: float) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "pip", "--python", str(self.bin / "python"), "install", "--quiet", *arguments],
            capture_output=True, text=True, timeout=timeout_s, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables of a shell in which it is active; without those that would bring in other code."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("FIRN_", "PYTHON"))}
        return kept | {"PATH": os.pathsep.join([str(self.bin), kept["PATH"]]), "COLUMNS": "200"}

    @property
    def packages(self) -> int:
        """How many packages it has, firn among them."""
        return len(list(self.site.glob("*.dist-info")))

    @property
    def size_bytes(self) -> int:
        """What all files take, firn's with them."""
        return sum(path.stat().st_size for path in self.site.rglob("*") if path.is_file())

    def runs(self, *command: str, folder: Path, timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Run a command of the environment to its end; its output and errors are one text."""
        return subprocess.run(
            [str(self.bin / command[0]), *command[1:]], cwd=folder, env=self.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout_s, check=False,
        )  # fmt: skip


def needed_by(wanted: Sequence[str], *, wheel: Path | None) -> set[str]:
    """Return the distributions that requirements name, and what those ask for in turn, but for firn's own `wheel`."""
    found: set[str] = set()
    todo = [Requirement(one) for one in wanted]
    seen = set()
    for requirement in todo:
        if str(requirement) in seen:
            continue
        seen.add(str(requirement))
        if requirement.name == "firn":
            assert wheel is not None, f"{requirement} needs a wheel"
            about = metadata_of(wheel)
        else:
            found.add(requirement.name)
            about = installed(requirement.name)
        todo += [one for extra in ("", *requirement.extras) for one in requirements(about, extra)]
    return found


def requirements(about: Distribution, extra: str) -> list[Requirement]:
    """What a distribution requires with one extra, beyond what it requires without."""
    every = [Requirement(line) for line in about.requires or ()]
    if not extra:
        return [one for one in every if one.marker is None or one.marker.evaluate({"extra": ""})]
    return [one for one in every if one.marker is not None and one.marker.evaluate({"extra": extra})]


@cache
def metadata_of(wheel: Path) -> Distribution:
    """Return what a wheel says of itself."""
    (about,) = (one for one in zipfile.Path(wheel).iterdir() if one.name.endswith(".dist-info"))
    return PathDistribution(about)


@cache
def installed(name: str) -> Distribution:
    try:
        return distribution(name)
    except PackageNotFoundError:
        raise AssertionError(f"{name} is needed and not installed: make .venv from requirements.lock anew") from None


def link_distribution(package: Distribution, site: Path) -> None:
    """Give an environment the files of a package that is installed here, other than its programs."""
    for file in package.files or ():
        if file.parts[0] == ".." or "__pycache__" in file.parts:
            continue
        source, target = Path(str(package.locate_file(file))), site / file
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.exists() and not target.exists():
            try:
                os.link(source, target)
            except OSError:  # on another disk
                target.symlink_to(source)
