"""Resolve every link of the built documentation: `make docs`.

Zensical validates links between pages. This resolves the rest, too: images, other files, folders, the navigation, and
anchors as they were rendered.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LINKS = {"a": "href", "img": "src", "link": "href", "script": "src"}


class BuiltPage(HTMLParser):
    """The links and ids of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[tuple[int, str]] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect."""
        values = dict(attrs)
        if identifier := values.get("id"):
            self.ids.add(identifier)
        if target := values.get(LINKS.get(tag, "")):
            self.links.append((self.getpos()[0], target))


def broken_links(site: Path) -> Iterator[str]:
    """Yield a sentence for each link inside `site` that leads nowhere."""
    # 404.html is served at every depth, so its links begin with the address of the site.
    pages = {path: BuiltPage(path) for path in sorted(site.resolve().rglob("*.html")) if path.name != "404.html"}
    for path, page in pages.items():
        for line, target in page.links:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            where = f"{path.relative_to(site.resolve())}:{line}: {target}"
            if not file.is_file():
                yield f"{where}: no such file"
            elif parts.fragment and file in pages and unquote(parts.fragment) not in pages[file].ids:
                yield f"{where}: no such anchor"


def main(site: Path) -> int:
    """Print the broken links of a site, and return the exit code."""
    if not (site / "index.html").is_file():
        print(f"{site} has no index.html")
        return 1
    broken = list(broken_links(site))
    print(*broken, f"{len(broken)} broken links in {site}", sep="\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
