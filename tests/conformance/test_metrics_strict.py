"""Iceberg's own facts on files whose every row matches by their metrics."""

import pytest

from firn.model.expressions.binding import bind
from firn.model.expressions.metrics_strict import file_must_match
from tests.conformance.expression_cases import expression_of, file_of, load, schema_of

CASES = load("metrics_strict.json")


@pytest.mark.parametrize("case", CASES["cases"], ids=lambda case: case["id"])
def test_a_file_is_wholly_inside_a_filter_exactly_where_iceberg_says_so(case):
    schema = schema_of(CASES["schemas"][case["schema"]])
    bound = bind(expression_of(case["expr"]), schema, case_sensitive=case["case_sensitive"])
    assert file_must_match(bound, file_of(CASES["files"][case["file"]])) is case["expected"]
