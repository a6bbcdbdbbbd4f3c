"""The benchmarks tell the truth about what they measured, and about what they could not."""

from __future__ import annotations

import msgspec
import pytest

from firn.model.intent import added_files
from firn.model.intent_codec import decode_intent
from firn.model.limits import Limits
from tests.bench import __main__ as bench
from tests.bench.measurement import Measurement, measured, percentile
from tests.bench.options import Options
from tests.bench.soak import soak
from tests.bench.wire import VARIETY, AppendTemplate


def _row(**changes):
    members = {"value": 10.0, "unit": "commits/s", "peer": 5.0, "peer_name": "peer", "target": 2.0, "n": 100}
    return measured("row", **{**members, **changes})


def test_a_ratio_above_one_is_better_whichever_way_the_unit_runs():
    assert _row().ratio == 2
    assert _row(unit="ms").ratio == 0.5


def test_a_target_holds_from_the_ratio_on_and_never_with_failures():
    assert _row().holds is True
    assert _row(target=2.1).holds is False
    assert _row(failures=1).holds is False
    assert _row(target=None).holds is None


@pytest.mark.parametrize(("percent", "expected"), [(50, 50), (99, 99), (100, 100), (0.1, 1)])
def test_a_percentile_is_a_measured_value_that_so_many_do_not_exceed(percent, expected):
    assert percentile(range(100, 0, -1), percent) == expected


def test_a_row_that_fails_is_said_in_its_place_and_does_not_stop_the_others(monkeypatch, capsys):
    def fails(_options):
        raise OSError("no disk")

    monkeypatch.setattr(bench, "ROWS", {"first": fails, "second": lambda _options: [_row()]})
    assert bench.main([]) == 1
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    first, second = (msgspec.json.decode(line, type=Measurement) for line in lines)
    assert (first.name, first.holds, first.error) == ("first", False, "OSError: no disk")
    assert (second.name, second.holds, second.error) == ("row", True, "")


def test_a_row_alone_as_json_is_one_line_with_every_member(monkeypatch, capsys):
    monkeypatch.setattr(bench, "ROWS", {"second": lambda _options: [_row()]})
    assert bench.main(["second", "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert {"name", "value", "unit", "peer", "ratio", "target", "holds", "n", "commit"} <= set(
        msgspec.json.decode(line)
    )


def test_a_row_that_does_not_exist_is_refused_with_those_that_do(capsys):
    with pytest.raises(SystemExit, match="2"):
        bench.main(["one-writr"])
    assert "there are one-writer, writers-16" in capsys.readouterr().err


def test_templates_make_intents_that_the_daemon_takes_each_of_another_file():
    template = AppendTemplate("bench.t", folder="/w", reply_to="firn:replies:a", seed=0)
    made = [template.next() for _ in range(VARIETY + 1)]
    intents = [decode_intent(payload, limits=Limits()).intent for _, payload in made]
    assert [intent.intent_id for intent in intents] == [intent_id for intent_id, _ in made]
    files = [file for intent in intents for file in added_files(intent)]
    assert len({file.file_path for file in files}) == len(made)
    assert all(file.lower_bounds is not None and len(file.lower_bounds.keys) == 20 for file in files)


@pytest.mark.long
def test_a_daemon_under_load_ends_with_the_memory_that_it_had_after_a_minute():
    memory, metadata = soak(Options(minutes=3))
    assert memory.holds, memory
    assert metadata.holds, metadata
