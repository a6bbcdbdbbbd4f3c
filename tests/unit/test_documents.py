"""The documentation hangs together: nothing is out of reach, no link is dead, no block is left out in silence."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import yaml

from tests.built_site import broken_links
from tests.documents import COMMANDS, DATA, DOCS, INDEX, ROOT, page, pages

PAGES = pytest.mark.parametrize("path", pages(), ids=lambda path: str(path.relative_to(ROOT)))
MARKDOWN = sorted({*pages(), *ROOT.glob("*.md"), *(ROOT / "deploy").rglob("*.md"), *(ROOT / "grafana").rglob("*.md")})
LINKING_PAGES = pytest.mark.parametrize("path", MARKDOWN, ids=lambda path: str(path.relative_to(ROOT)))
DECISIONS = DOCS / "decisions" / "README.md"
SITE_ADDRESS = re.compile(r"https://[a-z0-9-]+(\.[a-z0-9-]+)+(/[\w./~%+-]*)?(#[\w./-]+)?")
"""An address that a reader can open from anywhere, without a query."""
OUTSIDE = re.compile(r"[a-z]+:")
NAMED_FILE = re.compile(r"(?:deploy|docs|grafana|tests)/[\w./-]*\w")
"""A file of ours in a command."""
NAMED_IN_PROSE = re.compile(r"`((?:model|storage|coordinator|pipeline|tests|deploy|grafana|docs)/[\w./-]*)`")
"""A file or folder of ours in a sentence."""


def linked(path: Path) -> Iterator[tuple[int, str, Path, str]]:
    """Links of a page to files: line, text, the file, the anchor in it."""
    for line, target in page(path).links:
        if not OUTSIDE.match(target):
            name, _, anchor = unquote(target).partition("#")
            yield line, target, (path.parent / name).resolve() if name else path, anchor


@LINKING_PAGES
def test_no_link_is_dead(path: Path) -> None:
    for line, target, file, anchor in linked(path):
        where = f"{path.relative_to(ROOT)}:{line}: {target}"
        assert file.is_relative_to(ROOT), f"{where} leads out of the project"
        assert file.exists(), f"{where} leads to nothing"
        if anchor:
            assert anchor in page(file).anchors, f"{where}: no such heading; there are {sorted(page(file).anchors)}"


@LINKING_PAGES
def test_external_links_are_written_correctly(path: Path) -> None:
    """Only their syntax is checked: a test must not fail because another server is down."""
    for line, target in page(path).links:
        if OUTSIDE.match(target):
            assert SITE_ADDRESS.fullmatch(target), f"{path.relative_to(ROOT)}:{line}: {target}"


@pytest.mark.parametrize("path", sorted(DOCS.rglob("*.md")), ids=lambda path: str(path.relative_to(DOCS)))
def test_the_site_has_what_a_page_links_to(path: Path) -> None:
    """The site is made of docs/ only, and shows files, not folders."""
    for line, target, file, _ in linked(path):
        where = f"{path.relative_to(ROOT)}:{line}: {target}"
        assert file.is_relative_to(DOCS), f"{where} leads out of docs/: write the file's name in backticks instead"
        assert file.is_file(), f"{where}: link to a page of the folder"


@PAGES
def test_nested_lists_are_indented_by_four(path: Path) -> None:
    """A forge takes less for a list in a list; the site does not."""
    prose = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for indent in re.findall(r"^( +)(?:[-*+]|\d+\.) ", prose, re.MULTILINE):
        assert len(indent) % 4 == 0


def test_the_site_has_the_pages_of_the_index_in_its_order() -> None:
    site = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]
    (first, *rest) = navigation(site["nav"])
    assert first == INDEX
    assert rest == [file for _, _, file, _ in linked(INDEX) if file.suffix == ".md"]


def navigation(entry: Any) -> list[Path]:
    match entry:
        case str():
            return [DOCS / entry]
        case dict():
            return [path for inner in entry.values() for path in navigation(inner)]
    return [path for inner in entry for path in navigation(inner)]


def test_the_index_of_decisions_has_each_one_under_its_title() -> None:
    titles = {path.name: path.read_text(encoding="utf-8").splitlines()[0] for path in DECISIONS.parent.glob("0*.md")}
    listed = re.findall(r"^- \[(.*)\]\((.*)\)$", DECISIONS.read_text(encoding="utf-8"), re.MULTILINE)
    assert {name: f"# {title}" for title, name in listed} == titles
    assert len(listed) == len(titles)


def test_broken_links_of_a_built_site_are_found(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "404.html").write_text("<a href='/served-at-any-depth.html'>")
    (tmp_path / "index.html").write_text("<h1 id='top'></h1><a href='#top'><a href='a/b.html#c'><a href='https://x.y'>")
    (tmp_path / "a" / "b.html").write_text(
        "<p id='c'><a href='../index.html#no'><a href='..'>\n<img src='no.png'><a href='b.html#c'><a href='no.html'>"
    )
    assert list(broken_links(tmp_path)) == [
        "a/b.html:1: ../index.html#no: no such anchor",
        "a/b.html:1: ..: no such file",
        "a/b.html:2: no.png: no such file",
        "a/b.html:2: no.html: no such file",
    ]


def test_every_page_is_reached_from_the_index() -> None:
    """A link to a folder lists its pages."""
    reached, todo = {INDEX}, [INDEX]
    while todo:
        for _, _, target, _ in linked(todo.pop()):
            for file in target.glob("*.md") if target.is_dir() else [target]:
                if file.suffix == ".md" and file not in reached:
                    reached.add(file)
                    todo.append(file)
    assert {path for path in DOCS.rglob("*.md") if path not in reached} == set()


def test_the_readme_leads_to_the_index() -> None:
    assert INDEX in {file for _, _, file, _ in linked(ROOT / "README.md")}


@pytest.mark.parametrize("path", sorted(DOCS.glob("*.md")), ids=lambda path: path.name)
def test_the_index_lists_every_page(path: Path) -> None:
    """Those of a folder are listed by a page of their own, or by the folder's name."""
    assert path == INDEX or path in {file for _, _, file, _ in linked(INDEX)}


def test_the_operators_guide_lists_every_alert() -> None:
    groups = yaml.safe_load((ROOT / "deploy" / "prometheus" / "rules" / "firn.yml").read_text())["groups"]
    alerts = {rule["alert"].lower() for group in groups for rule in group["rules"] if "alert" in rule}
    assert alerts == {anchor for _, _, _, anchor in linked(DOCS / "operators.md") if anchor.startswith("firn")}


@PAGES
def test_every_block_is_run_or_read_or_says_why_not(path: Path) -> None:
    for block in page(path).blocks:
        assert block.language in COMMANDS | DATA, f"{block}: no test knows what to do with {block.language!r}"
        marked = block.not_run is not None or block.exit_code or block.sample
        assert block.language in COMMANDS or not marked, f"{block}: the comment is for blocks of commands"
        assert block.not_run is None or len(block.not_run) > len("no server"), f"{block}: say why it is not run"
        assert not block.sample or block.language == "console", f"{block}: only a console block has output"


@PAGES
def test_blocks_parse(path: Path) -> None:
    for block in page(path).blocks:
        if block.language == "python":
            ast.parse(block.text, filename=str(block))
        elif block.language in COMMANDS:
            checked = subprocess.run(
                ["bash", "-n"], input=block.script, capture_output=True, text=True, timeout=30, check=False
            )
            assert checked.returncode == 0, f"{block}: {checked.stderr}"


@PAGES
def test_commands_that_are_not_run_name_files_that_exist(path: Path) -> None:
    for block in page(path).blocks:
        if block.not_run is not None and block.language != "python":
            for name in NAMED_FILE.findall(block.script):
                assert (ROOT / name).exists(), f"{block}: there is no {name}"


@PAGES
def test_files_that_are_named_exist(path: Path) -> None:
    for name in NAMED_IN_PROSE.findall(path.read_text(encoding="utf-8")):
        assert (ROOT / name).exists(), f"there is no {name}"


def test_the_design_says_what_each_folder_is_for() -> None:
    design = (DOCS / "design.md").read_text(encoding="utf-8")
    folders = [path.parent.name for path in (ROOT / "coordinator").glob("*/__init__.py")]
    assert [name for name in folders if f"`{name}/`" not in design] == []


def test_blocks_headings_and_links_of_a_page_are_found(tmp_path: Path) -> None:
    source = tmp_path / "page.md"
    prose = "[a\nb](c.md) `[d](e.md)`\n[f]: g.md\n# A b\n\n<!-- test: exits with 1 -->\n"
    source.write_text(prose + "```console\n$ one \\\n  two\nout\n$ three\n```\n# A b\n")
    (block,) = page(source).blocks
    assert block.steps == [("one \\\n  two", ["out"]), ("three", [])]
    assert (block.exit_code, block.is_run) == (1, True)
    assert page(source).anchors == {"a-b", "a-b-1"}
    assert page(source).links == ((2, "c.md"), (3, "g.md"))


@pytest.mark.parametrize(
    "text", ["```sh\nopen\n", "<!-- test: maybe -->\n```sh\n```\n", "<!-- test: exits with 1 -->\nprose\n"]
)
def test_what_cannot_be_understood_is_no_page(tmp_path: Path, text: str) -> None:
    source = tmp_path / "page.md"
    source.write_text(text)
    with pytest.raises(AssertionError):
        page(source)
