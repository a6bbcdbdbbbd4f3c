"""Whether Spark can run is found out before Spark fails, and said so that somebody can do something about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from firn.model.errors import Misconfigured
from firn.pipeline.java import require_java

GOOD = "java.base@17.0.15\njdk.incubator.vector@17.0.15\n"


def a_java(folder: Path, modules: str, *, code: int = 0) -> Path:
    """A program called java that lists these modules."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\nprintf '{modules}'\nexit {code}\n")
    java.chmod(0o755)
    return java


@pytest.fixture(autouse=True)
def _no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))


def test_a_java_of_17_or_newer_with_the_vector_module_will_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = a_java(tmp_path / "jdk", GOOD)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    assert require_java() == str(java)
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(java.parent))
    assert require_java() == str(java)


def test_no_java_at_all_is_told() -> None:
    with pytest.raises(Misconfigured, match="none on PATH: install a Java of version 17 or newer"):
        require_java()


@pytest.mark.parametrize(
    ("modules", "said"),
    [
        ("java.base@11.0.2\\njdk.incubator.vector@11.0.2\\n", "is Java 11"),
        ("java.base@25\\n", "module jdk.incubator.vector"),
        ("Unrecognized option: --list-modules\\n", "older, or no Java"),
    ],
)
def test_a_java_that_will_not_do_is_told_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, modules: str, said: str
) -> None:
    a_java(tmp_path / "jdk", modules)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    with pytest.raises(Misconfigured, match=said):
        require_java()


def test_a_java_home_without_a_java_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    with pytest.raises(Misconfigured, match="does not run"):
        require_java()
