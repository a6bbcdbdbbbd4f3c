"""What `pyproject.toml` cannot say: the commit that a build is of, and the README as a package index shows it.

Whoever publishes a build sets `PROJECT_URL` to the address of the repository: package metadata then names it, and the
README's links lead there. A build without it has neither.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

ROOT = Path(__file__).resolve().parent
PROJECT_URL = os.environ.get("PROJECT_URL", "").rstrip("/")
COMMIT_FILE = "commit.txt"
"""Beside `firn/__init__.py`, in what is built only."""


def commit() -> str:
    """Return the commit of this source tree: given to the build, kept in an sdist, or asked of git."""
    if given := os.environ.get("BUILD_COMMIT"):
        return given
    kept = ROOT / "firn" / COMMIT_FILE
    if kept.exists():
        return kept.read_text(encoding="ascii").strip()
    if not (ROOT / ".git").exists():
        return "unknown"
    try:
        return _git("rev-parse", "--short=12", "HEAD") + ("+" if _git("status", "--porcelain", "-uno") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S607
    return done.stdout.strip()


def description(project_url: str) -> str:
    """Return the README for readers without the repository.

    Comments for its tests go. Links to files lead to `project_url`, or become plain text where that is empty.
    """
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    text = re.sub(r"<!--.*?-->\n?", "", text, flags=re.DOTALL)
    link = rf"[\1]({project_url}/blob/{reference()}/\2)" if project_url else r"\1"
    return re.sub(r"\[([^\]]+)\]\((?!https?:)([^)\s]+)\)", link, text)


def reference() -> str:
    """Return the commit for links; HEAD where it is not known, or not what was built."""
    built = commit()
    return "HEAD" if built == "unknown" or built.endswith("+") else built


def project_urls(project_url: str) -> dict[str, str]:
    """Return the addresses that package metadata names."""
    if not project_url:
        return {}
    files = f"{project_url}/blob/{reference()}"
    return {
        "Source": project_url,
        "Documentation": f"{files}/docs/README.md",
        "Changelog": f"{files}/CHANGELOG.md",
        "Issues": f"{project_url}/issues",
    }


class BuildWithCommit(build_py):
    """Write the commit into what is built; an editable installation asks git when it is used."""

    def run(self) -> None:
        """Build, then write."""
        super().run()
        if not self.editable_mode:
            Path(self.build_lib, "firn", COMMIT_FILE).write_text(commit() + "\n", encoding="ascii")


class SourcesWithCommit(sdist):
    """Write the commit into the source distribution, which has no git."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        """Collect the files, then write."""
        super().make_release_tree(base_dir, files)
        Path(base_dir, "firn", COMMIT_FILE).write_text(commit() + "\n", encoding="ascii")


setup(
    cmdclass={"build_py": BuildWithCommit, "sdist": SourcesWithCommit},
    long_description=description(PROJECT_URL),
    long_description_content_type="text/markdown",
    project_urls=project_urls(PROJECT_URL),
)
