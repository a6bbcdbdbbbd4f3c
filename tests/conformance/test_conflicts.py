"""Concurrent commits of Iceberg's own tests: what it refuses is refused here; what differs has its reason beside it.

The operation is planned on the setup's last snapshot; then the others commit, then it does.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from firn.model.errors import InvalidIntent
from firn.model.intent import encode_intent
from firn.model.intent_codec import decode_intent
from firn.model.limits import Limits
from firn.model.outcome import Rejected
from tests.conformance.conflict_tables import ConflictTable, committed
from tests.unit.coordinator.workbench import Workbench

DATA = json.loads((Path(__file__).parent / "data" / "conflicts.json").read_text(encoding="utf-8"))


def expected_of(case: dict[str, Any], version: int) -> dict[str, Any]:
    """What firn does in a table of this format version."""
    own = case.get("firn", {})
    own = own.get(str(version), {}) if own.keys() <= {"1", "2", "3"} else own
    found = {**case["expected"], **own}
    rule = found.get("rule")
    if isinstance(rule, dict):
        found["rule"] = rule[str(version)]
    return found


CASES = [
    pytest.param(case, version, id=f"{case['name']} v{version}")
    for case in DATA["cases"]
    for version in case["versions"]
    if expected_of(case, version)["outcome"] != "skip"
]


@pytest.mark.parametrize(("case", "version"), CASES)
async def test_concurrent_commits(case: dict[str, Any], version: int) -> None:
    expected = expected_of(case, version)
    bench = Workbench()
    async with bench.daemon():
        table = ConflictTable(bench, case["table"], version)
        await table.create()
        for step in expected.get("setup", case["setup"]):
            if expected.get("setup_refused"):
                with pytest.raises(InvalidIntent, match="twice"):
                    decode_intent(encode_intent(table.intent(step, base=None)), limits=Limits())
                return
            assert committed(await table.do(step)), step
        table.base = await table.head()
        intent = table.intent(case["op"], base=table.base)
        if member := expected.get("door"):
            refuse_at_the_door(intent, member, rule=expected["rule"])
            return
        for step in case["concurrent"]:
            await table.do(step)
        before = await table.head()
        (outcome,) = await bench.settle(intent)
        if expected["outcome"] == "fail":
            assert isinstance(outcome, Rejected)
            assert outcome.rule == expected["rule"]
            assert await table.head() == before
            return
        assert committed(outcome), outcome
        await _check(table, expected)


def refuse_at_the_door(intent: Any, member: str, *, rule: str) -> None:
    """An intent whose delete files have a member that there is not."""
    payload = json.loads(encode_intent(intent))
    for number, file in enumerate(payload["delete-files"], start=1):
        file[member] = number
    with pytest.raises(InvalidIntent, match=member) as refused:
        decode_intent(json.dumps(payload).encode(), limits=Limits())
    assert refused.value.rule == rule


async def _check(table: ConflictTable, expected: dict[str, Any]) -> None:
    if "live_files_after" in expected:
        assert await table.live() == sorted(expected["live_files_after"])
    snapshot = (await table.bench.metadata()).current_snapshot
    assert snapshot is not None
    summary = snapshot.summary or {}
    if "snapshot_operation" in expected:
        assert summary["operation"] == expected["snapshot_operation"]
    if "manifests" in expected:
        assert await table.manifests() == [[tuple(entry) for entry in manifest] for manifest in expected["manifests"]]
    for name, value in expected.get("summary", {}).items():
        assert summary[name] == value


def test_every_difference_has_its_reason() -> None:
    for case in DATA["cases"]:
        for version in case["versions"]:
            expected = expected_of(case, version)
            differs = expected["outcome"] != case["expected"]["outcome"] or "setup" in expected
            assert not differs or expected["why"], case["name"]
