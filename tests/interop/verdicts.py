"""How the tests of another project ended, read from the reports that its runner left."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Self

import msgspec

REASON_CHARACTERS: Final = 400


class Verdicts(msgspec.Struct, frozen=True, kw_only=True):
    """Tests by their names; those that failed with the reason."""

    passed: list[str]
    failed: dict[str, str]
    skipped: list[str]

    @classmethod
    def read(cls, reports: Iterable[Path]) -> Self:
        """Read reports in JUnit's format."""
        verdicts = cls(passed=[], failed={}, skipped=[])
        for report in reports:
            for case in ET.parse(report).getroot().iter("testcase"):
                name = f"{case.attrib['classname'].rpartition('.')[2]}.{case.attrib['name']}"
                failures = [*case.findall("failure"), *case.findall("error")]
                if failures:
                    reason = failures[0].get("message") or failures[0].text or "no reason given"
                    verdicts.failed[name] = " ".join(reason.split())[:REASON_CHARACTERS]
                elif case.find("skipped") is not None:
                    verdicts.skipped.append(name)
                else:
                    verdicts.passed.append(name)
        return verdicts
