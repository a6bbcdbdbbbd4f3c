"""Every rule has a status, and every status of 400 to 499 is a promise."""

import pytest

from firn.coordinator.catalog.refusals import Subject, refusal_of
from firn.coordinator.catalog.statuses import (
    ALREADY_EXISTS,
    BAD_REQUEST,
    BY_NAME,
    COMMIT_FAILED,
    CONFLICTS,
    MISTAKES,
    NO_SUCH_TABLE,
    NO_SUCH_VIEW,
    status_of,
)
from firn.coordinator.replay.rules import RULES
from firn.model.outcome import Rejected

ID = "01890000-0000-7000-8000-000000000000"

create_table = Subject(table="ns.t", creates=True)
change_table = Subject(table="ns.t")
finish_table = Subject(table="ns.t", creates=True, asserted=True)
rename_table = Subject(table="ns.t", new_name="ns.u")
create_view = Subject(table="ns.t", kind="view", creates=True)
change_view = Subject(table="ns.t", kind="view")
finish_view = Subject(table="ns.t", kind="view", creates=True, asserted=True)
rename_view = Subject(table="ns.t", kind="view", new_name="ns.u")


def rejected(rule, message="m", *, hint=None, **more):
    hint = hint or (RULES[rule].hint if rule in RULES else "fix")
    return Rejected(intent_id=ID, table="ns.t", rule=rule, message=message, hint=hint, **more)


def test_every_rule_is_mapped_once():
    named = [*MISTAKES, *CONFLICTS, *BY_NAME]
    assert len(named) == len(set(named))
    assert RULES.keys() - set(named) == set()


@pytest.mark.parametrize("rule", sorted(RULES))
def test_a_refusal_is_a_promise_never_a_failure_of_the_server(rule):
    for subject in (create_table, change_table, finish_table, rename_table, create_view, change_view, finish_view):
        status, message = refusal_of(subject, rejected(rule), there=None)
        assert status.code in {400, 404, 409}
        assert message


@pytest.mark.parametrize("rule", sorted(rule.name for rule in RULES.values() if rule.hint in {"replan", "retry"}))
def test_what_may_come_off_another_time_is_a_conflict(rule):
    assert status_of(rejected(rule)) == COMMIT_FAILED


@pytest.mark.parametrize(
    ("hint", "status"),
    [("replan", COMMIT_FAILED), ("retry", COMMIT_FAILED), ("narrow-filter", COMMIT_FAILED), ("fix", BAD_REQUEST)],
)
def test_a_rule_of_a_newer_daemon_is_judged_by_its_hint(hint, status):
    assert status_of(rejected("rule-of-tomorrow", hint=hint)) == status


@pytest.mark.parametrize(
    ("subject", "rule", "there", "expected", "text"),
    [
        (create_table, "table-exists", "table", ALREADY_EXISTS, "Table already exists: ns.t"),
        (create_table, "table-exists", None, ALREADY_EXISTS, "Table already exists: ns.t"),
        (create_table, "table-exists", "view", ALREADY_EXISTS, "View with same name already exists: ns.t"),
        (finish_table, "table-exists", "table", ALREADY_EXISTS, "Requirement failed: table already exists"),
        (finish_table, "requirement-failed", "table", COMMIT_FAILED, "said"),
        (finish_table, "requirement-failed", "view", ALREADY_EXISTS, "View with same name already exists: ns.t"),
        (finish_table, "wrong-kind", "view", ALREADY_EXISTS, "View with same name already exists: ns.t"),
        (change_table, "requirement-failed", "table", COMMIT_FAILED, "said"),
        (change_table, "unknown-table", None, NO_SUCH_TABLE, "Table does not exist: ns.t"),
        (change_table, "wrong-kind", "view", NO_SUCH_TABLE, "Table does not exist: ns.t"),
        (change_table, "invalid-field", "table", BAD_REQUEST, "invalid-field: said"),
        (change_table, "new-data", "table", COMMIT_FAILED, "new-data: said"),
        (rename_table, "unknown-table", None, NO_SUCH_TABLE, "Table does not exist: ns.t"),
        (rename_table, "table-exists", "table", ALREADY_EXISTS, "Cannot rename ns.t to ns.u. Table already exists"),
        (rename_table, "table-exists", "view", ALREADY_EXISTS, "Cannot rename ns.t to ns.u. View already exists"),
        (create_view, "table-exists", "view", ALREADY_EXISTS, "View already exists: ns.t"),
        (create_view, "table-exists", "table", ALREADY_EXISTS, "Table with same name already exists: ns.t"),
        (finish_view, "requirement-failed", "view", ALREADY_EXISTS, "View already exists: ns.t"),
        (change_view, "requirement-failed", "view", COMMIT_FAILED, "said"),
        (change_view, "unknown-table", None, NO_SUCH_VIEW, "View does not exist: ns.t"),
        (change_view, "wrong-kind", "table", NO_SUCH_VIEW, "View does not exist: ns.t"),
        (rename_view, "table-exists", "view", ALREADY_EXISTS, "Cannot rename ns.t to ns.u. View already exists"),
        (rename_view, "table-exists", "table", ALREADY_EXISTS, "Cannot rename ns.t to ns.u. Table already exists"),
    ],
)  # fmt: skip
def test_texts_are_those_of_the_reference(subject, rule, there, expected, text):
    status, message = refusal_of(subject, rejected(rule, "said"), there=there)
    assert (status, message) == (expected, text)


def test_a_refused_member_of_a_transaction_is_named_by_its_table():
    status, message = refusal_of(
        change_table, rejected("unknown-table", details={"member": 0, "table": "ns.other"}), there=None
    )
    assert (status.code, message) == (404, "Table does not exist: ns.other")
