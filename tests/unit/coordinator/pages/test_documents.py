"""The documentation that a daemon serves: every alert's runbook is a link that works without the internet."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from firn.coordinator.pages.dashboard_pages import runbook_of
from firn.coordinator.pages.documents import DOCS, document_at, rendered, runbook_address
from firn.coordinator.pages.prometheus import Alert
from firn.model.errors import NotFound
from tests.documents import page
from tests.unit.coordinator.pages.test_site import browsing, text_of
from tests.unit.coordinator.workbench import Workbench

ROOT = Path(__file__).parents[4]
RULES = yaml.safe_load((ROOT / "deploy" / "prometheus" / "rules" / "firn.yml").read_text())
RUNBOOKS = [rule["annotations"]["runbook"] for g in RULES["groups"] for rule in g["rules"] if "alert" in rule]
SHIPPED = sorted([*DOCS.glob("*.md"), *DOCS.glob("*/*.md")])


@pytest.mark.parametrize("runbook", RUNBOOKS)
def test_the_runbook_of_every_alert_is_a_link(runbook: str) -> None:
    assert runbook_address(runbook) == f"/{runbook}"
    assert runbook_of(Alert(name="A", state="firing", runbook=runbook, runbook_url="https://x/y")) == f"/{runbook}"


@pytest.mark.parametrize(
    ("runbook", "url", "link"),
    [
        ("", "", None),
        ("", "https://wiki.example/x", "https://wiki.example/x"),
        ("", "javascript:alert(1)", None),
        ("docs/runbooks/of-others.md#x", "http://wiki.example/x", "http://wiki.example/x"),
        ("docs/runbooks/commits.md#no-such-alert", "", "/docs/runbooks/commits.md"),
        ("docs/../pages/site.py", "", None),
    ],
)
def test_the_runbook_of_an_alert_by_other_rules(runbook: str, url: str, link: str | None) -> None:
    assert runbook_of(Alert(name="A", state="firing", runbook=runbook, runbook_url=url)) == link


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.name)
def test_headings_have_the_anchors_that_links_name(file: Path) -> None:
    document = document_at(file.relative_to(DOCS).as_posix())
    assert document.anchors == page(file.resolve()).anchors
    assert all(f'id="{anchor}"' in document.html for anchor in document.anchors)
    assert "<!--" not in document.html
    assert "<img" not in document.html


def test_markup_in_a_document_is_text() -> None:
    html = rendered("# A <script>x</script>\n\n<img src=x onerror=alert(1)>\n\n[l](javascript:alert(1))\n").html
    assert "<script" not in html
    assert "<img" not in html
    assert 'href="javascript' not in html


@pytest.mark.parametrize(
    "path", ["../site.py", "runbooks/../../site.py", "/etc/passwd", "no-such.md", "runbooks/", "a"]
)
def test_nothing_else_is_served(path: str) -> None:
    with pytest.raises(NotFound, match="carries no document"):
        document_at(path)


async def test_a_daemon_serves_its_runbooks() -> None:
    async with browsing(Workbench(http_port=0)) as browser:
        assert '<h2 id="firnlaggrows">' in await text_of(browser, "/docs/runbooks/commits.md")
        assert "operators.md" in await text_of(browser, "/docs/README.md")
        for path in ("/docs/no-such.md", "/docs/runbooks/images/well.png", "/docs/%2e%2e%2fsite.py"):
            assert "carries no document" in await text_of(browser, path, status=404)
