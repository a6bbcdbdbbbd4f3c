"""`firn explain` and the metrics tell how a request of a REST client was answered: who sent it, and by which rule."""

from __future__ import annotations

from firn.model.operations.rest import RestCommit
from tests.unit.coordinator.cli.cli_bench import CliBench
from tests.unit.coordinator.replay.real_rows import RealRows
from tests.unit.coordinator.rest_writer import RestWriter, request
from tests.unit.coordinator.transactions.ledger import transaction
from tests.unit.coordinator.workbench import TABLE, create


async def test_explain_names_client_engine_how_and_rule() -> None:
    bench = CliBench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        client = RestWriter(bench.files, await table.metadata())
        planned = client.append(table.data((1, "eu")))
        intent = client.commit(planned)
        await bench.commit(intent)
        committed = await bench.firn("explain", intent.intent_id)
        stale = request(requirements=[{"type": "assert-default-spec-id", "default-spec-id": 7}])
        await bench.refuse(stale)
        refused = await bench.firn("explain", stale.intent_id)
        snapshot = await bench.firn("explain", "--snapshot", str(planned.snapshot.snapshot_id), "--table", TABLE)
    for line in ("how: exact", "engine: spark 4.1", "client: test-client/1"):
        assert line in committed.out
    assert f"rest-commit on {TABLE} (main)" in committed.out
    assert f"committed in snapshot {planned.snapshot.snapshot_id}" in committed.out
    for line in ("requirement-failed", "engine: spark 4.1", "client: test-client/1"):
        assert line in refused.out
    assert intent.intent_id in snapshot.out


async def test_requests_are_counted_by_how_and_rule() -> None:
    bench = CliBench()
    async with bench.daemon() as daemon:
        await bench.commit(create())
        await bench.commit(create("db.other"))
        wrong = [{"type": "assert-default-spec-id", "default-spec-id": 7}]
        await bench.commit(change())
        await bench.refuse(change(requirements=wrong))
        await bench.commit(transaction(change(), change(table="db.other")))
        await bench.refuse(transaction(change(), change(table="db.other", requirements=wrong)))
        await bench.refuse(change(table="db.none"))
        counted = {
            (sample.labels["how"], sample.labels["rule"]): sample.value
            for family in daemon.metrics.registry.collect()
            for sample in family.samples
            if sample.name == "firn_rest_commits_total"
        }
    assert counted == {("exact", "none"): 3, ("refused", "requirement-failed"): 2, ("refused", "unknown-table"): 1}


def change(**members: object) -> RestCommit:
    return request({"action": "set-properties", "updates": {"owner": "me"}}, **members)  # type: ignore[arg-type]
