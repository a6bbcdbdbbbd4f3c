"""Iceberg's own facts on skipping files by their metrics."""

import pytest

from firn.model.expressions.binding import bind
from firn.model.expressions.metrics_inclusive import file_may_match
from tests.conformance.expression_cases import expression_of, file_of, load, schema_of

CASES = load("metrics_inclusive.json")


@pytest.mark.parametrize("case", CASES["cases"], ids=lambda case: case["id"])
def test_a_file_is_skipped_exactly_where_iceberg_skips_it(case):
    schema = schema_of(CASES["schemas"][case["schema"]])
    bound = bind(expression_of(case["expr"]), schema, case_sensitive=case["case_sensitive"])
    assert file_may_match(bound, file_of(CASES["files"][case["file"]])) is case["expected"]
