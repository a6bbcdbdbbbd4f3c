"""`firn give-up`: an intent whose journal file is lost is decided by a statement that the table does not contradict."""

from __future__ import annotations

import pytest

from firn.coordinator.journal import decisions
from firn.coordinator.lanes import held_intents
from firn.model.intent import DropTable
from firn.model.limits import Limits
from firn.model.outcome import Committed, Rejected
from tests.unit.coordinator.cli.cli_bench import CliBench
from tests.unit.coordinator.journal.test_damaged_journals import OLD, Past, until
from tests.unit.coordinator.workbench import TABLE, append, decision, new_id

SAID = ("--reason", "ticket 4711", "--by", "ann")


class LostPast(Past):
    """A past with a `firn` command."""

    def __init__(self) -> None:
        super().__init__()
        self.bench: CliBench = CliBench(files=self.files, limits=Limits(dedupe_intents_max=8))


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "CHECKPOINT_SEGMENTS", 4)
    monkeypatch.setattr(held_intents, "LOOK_AGAIN_S", (0.05, 0.1))


async def test_one_that_was_never_committed_is_refused_for_good_when_somebody_states_it() -> None:
    past = LostPast()
    bench = past.bench
    async with bench.daemon() as daemon:
        await past.make()
        late = append("late", intent_id=past.id_of(5))
        location = await past.place_of(9, checkpoint=True)
        with past.files.without(location, "gone"):
            await bench.send(late)
            await until(lambda: TABLE in daemon.lanes.stalled)
            shown = await bench.firn("give-up", late.intent_id)
            assert (shown.err, shown.code) == ("", 0)
            assert f"there is no file {location}" in shown.out
            assert "its file is not in the table now" in shown.out
            assert f"firn give-up {late.intent_id} --never-committed --reason …" in shown.out
            assert await past.is_open(late), "looking decides nothing"

            contradicted = await bench.firn("give-up", late.intent_id, "--committed", "17", *SAID)
            assert contradicted.code == 1
            assert "nothing in db.events says that snapshot 17 is its" in contradicted.err

            said = await bench.firn("give-up", late.intent_id, "--never-committed", *SAID)
            assert (said.code, said.err) == (0, "")
            assert "past-lost" in said.out
            told = await bench.outcome(late)
            assert isinstance(told, Rejected)
            assert (told.rule, told.hint) == ("past-lost", "replan")
            assert "ann states that it never was committed: ticket 4711" in told.message
            await until(lambda: not daemon.lanes.stalled)

            past.forget_told()
            bench.redis.keys.pop(bench.names.outcome(late.intent_id))
            await bench.send(late)
            assert decision(await bench.outcome(late)) == decision(told), "the journal has it now"
        again = await bench.firn("give-up", late.intent_id, "--never-committed", *SAID)
        assert (again.code, "has its outcome" in again.err) == (1, True)
        (conflict,) = (await bench.firn("conflicts", "--rule", "past-lost", "--json")).lines
        assert (conflict["source"], conflict["outcome"]["intent-id"]) == ("journal", late.intent_id)
    assert await bench.live() == sorted(past.names)


async def test_one_whose_files_are_in_the_table_is_told_that_it_was_committed() -> None:
    past = LostPast()
    bench = past.bench
    async with bench.daemon() as daemon:
        await past.make()
        past.forget_told()
        late, first = past.intents[5], past.outcomes[5]
        with past.files.without(await past.place_of(5, checkpoint=False), "gone"):
            await bench.send(late)
            await until(lambda: TABLE in daemon.lanes.stalled)
            told = await bench.firn("give-up", late.intent_id, "--json")
            evidence = told.json["evidence"]
            assert (evidence["files"], evidence["live"]) == (1, 1)
            assert evidence["snapshot"]["snapshot-id"] == first.snapshot_id
            wrong = await bench.firn("give-up", late.intent_id, "--never-committed", *SAID)
            assert wrong.code == 1
            assert f"snapshot {first.snapshot_id} of " in wrong.err
            assert "names it in its summary; its file is in the table, added by snapshot" in wrong.err
            assert await past.is_open(late)
            said = await bench.firn("give-up", late.intent_id, "--committed", str(first.snapshot_id), *SAID)
            assert (said.code, said.err) == (0, "")
            outcome = await bench.outcome(late)
            assert isinstance(outcome, Committed)
            assert (outcome.snapshot_id, outcome.sequence_number, outcome.batch) == (
                first.snapshot_id, first.sequence_number, first.batch,
            )  # fmt: skip
            assert outcome.details["stated-by"] == "ann"
            assert outcome.details["reason"] == "ticket 4711"
            await until(lambda: not daemon.lanes.stalled and not daemon.lanes.all_under_way())
            await bench.send(late)  # its writer did not hear of it
            await bench.commit(append("behind"))
            await until(lambda: not daemon.lanes.stalled and not daemon.lanes.all_under_way())
    assert await bench.live() == sorted([*past.names, "behind"])
    assert len(past.names) == OLD


async def test_who_needs_no_statement_is_not_given_up() -> None:
    past = LostPast()
    bench = past.bench
    async with bench.daemon():
        await past.make()
        nobody = new_id()
        said = await bench.firn("give-up", nobody)
        assert (said.code, f"{nobody} waits in no stream" in said.err) == (1, True)
        said = await bench.firn("give-up", past.intents[3].intent_id)
        assert (said.code, "has its outcome" in said.err) == (1, True)
        assert (await bench.firn("give-up", "no-id")).code == 2
        both = await bench.firn("give-up", nobody, "--never-committed", "--committed", "1", *SAID)
        assert (both.code, "state one" in both.err) == (2, True)
        silent = await bench.firn("give-up", nobody, "--never-committed")
        assert (silent.code, "--reason" in silent.err) == (2, True)
    waiting = append("waiting")
    await bench.send(waiting)  # no daemon is there
    said = await bench.firn("give-up", waiting.intent_id, "--table", TABLE, "--never-committed", *SAID)
    assert (said.code, "can be read, and has no decision on it" in said.err) == (1, True)


async def test_a_statement_that_no_daemon_hears_is_withdrawn() -> None:
    past = LostPast()
    bench = past.bench
    async with bench.daemon() as daemon:
        await past.make()
        late = append("late", intent_id=past.id_of(5))
        damaged = past.files.without(await past.place_of(9, checkpoint=True), "cut")
        damaged.__enter__()
        await bench.send(late)
        await until(lambda: TABLE in daemon.lanes.stalled)
    said = await bench.firn("give-up", late.intent_id, "--never-committed", *SAID, "--timeout", "0.1")
    assert said.code == 3
    assert "so it is withdrawn" in said.err
    damaged.__exit__(None, None, None)
    async with bench.daemon("b"):
        assert isinstance(await bench.outcome(late), Committed), "nobody stands by the statement any more"


async def test_a_dropped_table_says_nothing_of_an_intent() -> None:
    past = LostPast()
    bench = past.bench
    async with bench.daemon():
        await past.make()
        await bench.commit(DropTable(intent_id=new_id(), table=TABLE))
    late = append("late", intent_id=past.id_of(5))
    await bench.send(late)
    said = await bench.firn("give-up", late.intent_id)
    assert (said.code, "was dropped" in said.err) == (1, True)
