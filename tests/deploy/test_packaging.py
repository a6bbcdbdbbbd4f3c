"""What is installed from a checkout, with a C compiler and without one: both work, the first has compiled code."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "deploy" / "docker" / "Dockerfile").read_text()
BUILD_STAGE, FINAL_STAGE = re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)[1:]

SOURCE = "storage/native/wire_files.c"
COMPILED = "firn/storage/native/wire_files.abi3.so"
NO_COMPILER = "/bin/false"

READING = (
    "tests/unit/coordinator/intake/test_intent_reader.py",
    "tests/unit/coordinator/intake/test_intents_that_break_reading.py",
    "tests/unit/storage/test_wire_files.py",
)
"""Tests of reading intents; all of the last file are skipped where nothing is compiled."""

SERVED = (
    "templates/base.html",
    "static/live.js",
    "dashboards/fleet.json",
    "docs/README.md",
    "docs/runbooks/commits.md",
)
"""Of each kind of file that pages are made of."""

CC = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
HEADERS = Path(sysconfig.get_path("include"))


def lacking() -> str | None:
    """What this machine lacks to compile."""
    if shutil.which(CC[0]) is None:
        return f"there is no C compiler ({CC[0]})"
    if not (HEADERS / "Python.h").exists():
        return f"there are no header files of Python ({HEADERS})"
    return None


needs_compiler = pytest.mark.skipif(lacking() is not None, reason=lacking() or "")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the image is built from, and nothing else: no compiled code, nothing that was built before."""
    folder = tmp_path_factory.mktemp("source")
    for what in re.findall(r"^COPY (.*)", BUILD_STAGE, re.MULTILINE):
        *names, target = what.split()
        for name in names:
            to = folder / target / (name.rpartition("/")[2] if target.endswith("/") else "")
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, to, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
            else:
                shutil.copy(ROOT / name, to)
    return folder


def wheel(source: Path, target: Path, **environment: str) -> Path:
    """The wheel that pip builds of a folder or an sdist; it asks no index for anything."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"),
            *("--disable-pip-version-check", "--wheel-dir", str(target), str(source)),
        ],
        env={**os.environ, **environment}, cwd=target.parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (built,) = target.glob("*.whl")
    return built


def installed(built: Path, target: Path) -> Path:
    """The wheel's files, where Python finds them before those of the checkout."""
    with zipfile.ZipFile(built) as archive:
        archive.extractall(target)
    return target


def versions(folder: Path) -> dict[str, Any]:
    """`firn version` of what is installed there."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "firn", "version", "--json"],
        env={**os.environ, "PYTHONPATH": str(folder)}, cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@pytest.fixture(scope="module")
def sdist(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("sdist")
    program = "import sys, setuptools.build_meta as build; build.build_sdist(sys.argv[1])"
    subprocess.run([sys.executable, "-P", "-c", program, str(target)], cwd=source, capture_output=True, check=True)
    (built,) = target.glob("*.tar.gz")
    return built


@pytest.fixture(scope="module")
def pure(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel that was built where there is no compiler that works."""
    return wheel(source, tmp_path_factory.mktemp("pure") / "wheels", CC=NO_COMPILER)


def names_in(built: Path) -> set[str]:
    with zipfile.ZipFile(built) as archive:
        return set(archive.namelist())


def modules(folder: Path) -> set[str]:
    """All that a wheel has to have of firn."""
    return {
        f"firn/{path.relative_to(folder).as_posix()}"
        for layer in ("model", "storage", "coordinator", "pipeline")
        for path in (folder / layer).rglob("*.py")
    }


@needs_compiler
def test_a_wheel_from_the_sdist_is_compiled_for_every_python(source: Path, sdist: Path, tmp_path: Path) -> None:
    with tarfile.open(sdist) as archive:
        assert SOURCE in {name.partition("/")[2] for name in archive.getnames()}
    built = wheel(sdist, tmp_path / "wheels")
    assert built.name.split("-")[2:4] == ["cp311", "abi3"]
    names = names_in(built)
    assert {name for name in names if name.endswith((".so", ".c"))} == {COMPILED}
    assert modules(source) <= names
    assert versions(installed(built, tmp_path / "site"))["compiled"] is True


def test_without_a_compiler_a_wheel_is_built_and_works(source: Path, pure: Path, tmp_path: Path) -> None:
    """Its name says that it is compiled: what is to be built is known before, and that it failed only after."""
    names = names_in(pure)
    assert {name for name in names if name.endswith((".so", ".c"))} == set()
    assert modules(source) <= names
    assert {f"firn/coordinator/pages/{name}" for name in SERVED} <= names
    assert not [name for name in names if name.endswith(".png")]
    assert versions(installed(pure, tmp_path / "site"))["compiled"] is False


def test_intents_are_read_without_compiled_code(pure: Path, tmp_path: Path) -> None:
    site = installed(pure, tmp_path / "site")
    done = subprocess.run(
        [
            *(sys.executable, "-P", "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "-o", "pythonpath="),
            *("-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), "--basetemp", str(tmp_path / "tests")),
            *(str(ROOT / name) for name in READING),
        ],
        env={**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{ROOT}"},  # for the processes that they start, too
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert re.search(r"\d+ passed, \d+ skipped", done.stdout), done.stdout
    assert "installed without a C compiler" in done.stdout, done.stdout


@needs_compiler
def test_what_is_compiled_gives_no_warning(tmp_path: Path) -> None:
    """With the compiler and the header files that build it here. Optimised, as some mistakes are seen only then."""
    done = subprocess.run(
        [
            *(*CC, "-O2", "-fPIC", "-Wall", "-Wextra", "-Wshadow", "-Werror", f"-I{HEADERS}"),
            *("-c", str(ROOT / SOURCE), "-o", str(tmp_path / "wire_files.o")),
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_every_source_is_built_and_for_no_newer_python_than_firn_needs() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extensions = settings["tool"]["setuptools"]["ext-modules"]
    native = sorted((ROOT / "storage" / "native").glob("*.c"))
    assert sorted(ROOT / name for extension in extensions for name in extension["sources"]) == native
    assert all(extension["optional"] and extension["py-limited-api"] for extension in extensions)
    major, minor = settings["project"]["requires-python"].removeprefix(">=").split(".")
    assert settings["tool"]["distutils"]["bdist_wheel"]["py-limited-api"] == f"cp{major}{minor}"
    for path in native:
        assert f"#define Py_LIMITED_API 0x{int(major):02X}{int(minor):02X}0000" in path.read_text(), path.name


def test_the_image_is_built_with_a_compiler_and_has_none() -> None:
    assert re.search(r"apt-get install .*\bgcc=\S+ .*\blibc6-dev=", BUILD_STAGE)
    assert "import firn.storage.native.wire_files" in BUILD_STAGE, "an image without compiled code would be built, too"
    assert not re.search(r"apt-get|gcc", FINAL_STAGE)
