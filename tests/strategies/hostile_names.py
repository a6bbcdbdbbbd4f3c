"""Names that programs stumble over: one table for columns, tables, branches, tags and whatever else has a name."""

from __future__ import annotations

from typing import Final

RESERVED_COLUMNS: Final = (
    "_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number",
    "_change_type", "_change_ordinal", "_commit_snapshot_id",
)  # fmt: skip
"""Names of metadata columns (table specification, "Reserved Field IDs", and the change log's)."""

CONTROLS: Final = ("a\0b", "a\nb", "a\rb", "a\tb", "a\x1b[31mb", "a\x7fb", "a\x85b", "\u2028", "a\u2029b")
"""Control characters and line breaks."""

BIDI: Final = ("a\u202eb", "a\u202ab\u202c", "\u2066ab\u2069")
"""Names whose letters are shown in another order."""

SPACED: Final = (" a", "a ", " ")

PLAIN: Final = (
    "a.b", "a b", "a`b", 'a"b', "a'b", "a/b", "a\\b", "a=b", "a%b", "a%2Fb", "a*b", "a;b", "a,b", "a:b", "a?b#c", "(a)",
    ".", "..", "...", "a.", ".a", "-a", "--", "1", "null", "NULL", "select", "group", "__firn_action", "__firn_z",
    "__firn_in_table", "__firn_clause", "__firn_file", "<script>alert(1)</script>", "${a}", "{a}", "[a]", "$a", "@a",
    "&amp;", "\U0001f600", "\U0001f469\u200d\U0001f680", "été", "e\u0301te\u0301", "日本", "\u0627", "a" * 300,
)  # fmt: skip
"""Unusual names without anything that cannot be shown."""
