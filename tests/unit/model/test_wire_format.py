"""The documentation lists the members that the code accepts, all of them and no others."""

from __future__ import annotations

from pathlib import Path

from firn.model.wire_format import describe

DOCUMENT = Path(__file__).parents[3] / "docs" / "wire-format.md"


def test_the_document_describes_the_structs() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert text.endswith(describe()), "run: python -m tests.unit.model.test_wire_format"


def main() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    head = text[: text.index("## Operations")] + "## Operations\n\n"
    DOCUMENT.write_text(head + describe(), encoding="utf-8")


if __name__ == "__main__":
    main()
