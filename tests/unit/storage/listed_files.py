"""Lists of files, spelled by hand: at the limits of what compiled code reads, and beyond them."""

from __future__ import annotations

from typing import Final


def bare(*, path: str = "b", spec: str = "0", partition: str = "", rows: str = "0", more: str = "") -> str:
    """A file's text; `partition` and `more` are members."""
    return (
        f'{{"file-path":"{path}","file-format":"orc","spec-id":{spec},{partition}"record-count":{rows},'
        f'"file-size-in-bytes":0{more}}}'
    )


def in_partition(*values: object) -> str:
    """A file with these values as they are spelled."""
    return bare(partition=f'"partition":[{",".join(map(str, values))}],')


def counts(keys: object, values: object) -> str:
    """A file with a map of counts."""
    return bare(more=f',"column-sizes":{{"keys":{keys},"values":{values}}}'.replace(" ", ""))


def bounds(*values: str) -> str:
    """A file with a map of bounds."""
    keys = ",".join(map(str, range(len(values))))
    return bare(more=f',"lower-bounds":{{"keys":[{keys}],"values":[{",".join(values)}]}}')


def encoded(text: str) -> str:
    """A file with encoded metrics in base64."""
    return bare(more=f',"encoded":"{text}"')


NOTHING: Final = "A" * 12 + "AA=="
"""Ten bytes, each of which says that there is nothing."""

TAKEN: Final = {
    "greatest spec": bare(spec="2147483647"),
    "greatest count": bare(rows="9223372036854775807"),
    "longest path": bare(path="p" * 4096),
    "all that is printed": bare(path=bytes(set(range(0x20, 0x7F)) - set(b'"\\')).decode()),
    "least number": in_partition("-9223372036854775807"),
    "most values": in_partition(*range(64)),
    "other values": in_partition("null", "true", "false", '""', '"x"'),
    "long text": in_partition(f'"{"x" * 100_000}"'),
    "most columns": counts(list(range(4096)), [0] * 4096),
    "greatest column": counts([2**31 - 1], [2**63 - 1]),
    "longest bound": bounds(f'"{"0f" * 255}"'),
    "upper case": bounds('"ABCDEF"', '""', '"abcdef"', '"0123456789"'),
    "offsets": bare(more=',"split-offsets":[9,0,9223372036854775807],"sort-order-id":2147483647'),
    "many offsets": bare(more=f',"split-offsets":{list(range(70))}'.replace(" ", "")),
    "encoded": encoded(NOTHING),
    "two": bare() + "," + bare(path="c"),
    "two alike": bare() + "," + bare(),
}
"""Lists of files, brackets aside, that compiled code reads, up to where it goes."""

LEFT: Final = {
    "spec too great": bare(spec="2147483648"),
    "negative spec": bare(spec="-1"),
    "count too great": bare(rows="9223372036854775808"),
    "twenty digits": bare(rows="18446744073709551616"),
    "hundred digits": bare(rows="1" * 100),
    "leading zero": bare(rows="01"),
    "negative zero": bare(rows="-0"),
    "plus": bare(rows="+1"),
    "fraction": bare(rows="1.0"),
    "exponent": bare(rows="1e2"),
    "no number": bare(rows=""),
    "null": bare(rows="null"),
    "no path": bare(path=""),
    "path too long": bare(path="p" * 4097),
    "long path": bare(path="p" * 5000),
    "escape": bare(path="\\u0061"),
    "delete": bare(path="\x7f"),
    "control": bare(path="\x01"),
    "zero byte": bare(path="\0"),
    "other letters": bare(path="é"),
    "no list of values": bare(partition='"partition":],'),
    "no values": in_partition(),
    "no value behind a comma": in_partition("1", ""),
    "none behind the most": in_partition(*range(64), ""),
    "too many values": in_partition(*range(65)),
    "list in a partition": in_partition("[1]"),
    "object in a partition": in_partition("{}"),
    "number beyond the least": in_partition("-9223372036854775808"),
    "number beyond the greatest": in_partition("9223372036854775808"),
    "number beyond all": in_partition("-9223372036854775809"),
    "negative zero in a partition": in_partition("-0"),
    "minus alone": in_partition("-"),
    "float": in_partition("1.5"),
    "half a word": in_partition("tru"),
    "no end": in_partition('"x'),
    "partition twice": bare(partition='"partition":[1],"partition":[1],'),
    "empty map": counts([], []),
    "too many columns": counts(list(range(4097)), [0] * 4097),
    "column too great": counts([2**31], [0]),
    "column twice": counts([1, 1], [0, 0]),
    "falling columns": counts([2, 1], [0, 0]),
    "column behind a comma": counts("[1,]", [0]),
    "value behind a comma": counts([1], "[0,]"),
    "too few values": counts([1, 2], [0]),
    "too many of them": counts([1, 2], [0, 0, 0]),
    "negative count": counts([1], [-1]),
    "null map": bare(more=',"column-sizes":null'),
    "map turned round": bare(more=',"column-sizes":{"values":[1],"keys":[1]}'),
    "member in a map": bare(more=',"column-sizes":{"keys":[1],"values":[1],"x":1}'),
    "bound too long": bounds(f'"{"0f" * 256}"'),
    "endless bound": bounds(f'"{"0f" * (64 * 1024 + 1)}"'),
    "half a byte": bounds('"0"'),
    "two halves": bounds('"0"', '"1"'),
    "no digits": bounds('"0g"'),
    "spaced": bounds('"00 11"'),
    "count for a bound": bounds("1"),
    "no offsets": bare(more=',"split-offsets":[]'),
    "offset behind a comma": bare(more=',"split-offsets":[1,]'),
    "offset too great": bare(more=',"split-offsets":[9223372036854775808]'),
    "offsets that do not end": bare(more=',"split-offsets":[' + "1," * 1000),
    "order too great": bare(more=',"sort-order-id":2147483648'),
    "another order of members": bare(more=',"sort-order-id":1,"split-offsets":[1]'),
    "member twice": bare(more=',"sort-order-id":1,"sort-order-id":1'),
    "member that nobody knows": bare(more=',"x":1'),
    "comma behind the last": bare(more=","),
    "default": bare(more=',"content":"data"'),
    "deletes": bare(more=',"content":"position-deletes"'),
    "of deletes": bare(more=',"equality-ids":[1]'),
    "key": bare(more=',"key-metadata":"00"'),
    "encoded empty": encoded(""),
    "encoded without padding": encoded(NOTHING.rstrip("=")),
    "encoded padding alone": encoded("===="),
    "encoded padding within": encoded("AA==" + NOTHING),
    "encoded too much padding": encoded(NOTHING + "===="),
    "encoded with bits to spare": encoded("A" * 12 + "AB=="),
    "encoded in another alphabet": encoded("-" + NOTHING[1:]),
    "encoded with more behind": encoded("A" * 16),
    "encoded too short": encoded("A" * 12),
    "encoded twice": bare(more=f',"encoded":"{NOTHING}","encoded":"{NOTHING}"'),
    "encoded beside metrics": bare(more=f',"sort-order-id":1,"encoded":"{NOTHING}"'),
    "encoded before metrics": bare(more=f',"encoded":"{NOTHING}","sort-order-id":1'),
    "nothing": "",
    "number": "1",
    "comma": bare() + ",",
    "two commas": bare() + ",," + bare(path="c"),
    "space": bare() + " ",
    "one list more": bare() + "],[",
    "the list twice": bare() + '],"data-files":[' + bare(path="c"),
    "the list again": bare() + '],"data-files":[',
}
"""Lists that it leaves to Python, which reads some of them and says what is wrong with the others."""
