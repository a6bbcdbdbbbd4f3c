"""The tables that Spark's Iceberg writes for firn to read, as SQL; ``{t}`` is the table."""

from __future__ import annotations

from typing import Final

CREATE: Final = "CREATE TABLE {t} ({columns}) USING iceberg {partitioned} TBLPROPERTIES ({properties})"

ALL_TYPES: Final = (
    "flag boolean, i int, l bigint, f float, d double, dec9 decimal(9,2), dec38 decimal(38,10), day date, "
    "ts timestamp, ntz timestamp_ntz, s string, b binary, st struct<x: int, y: struct<z: string>>, "
    "li array<string>, ma map<string, bigint>, lm array<struct<k: int, m: map<int, date>>>"
)
ALL_VALUES: Final = (
    (
        "(true, 1, 2, 1.5f, -0.0d, 1.25bd, 12345678901234567890.0123456789bd, DATE '2024-02-29', "
        "TIMESTAMP '1969-12-31 23:59:59.999999', TIMESTAMP_NTZ '2024-02-29 01:02:03.000004', 'héllo', X'00FF', "
        "named_struct('x', 1, 'y', named_struct('z', 'deep')), array('a', NULL), map('k', 1L, 'n', NULL), "
        "array(named_struct('k', 1, 'm', map(1, DATE '2020-01-01')), NULL))"
    ),
    (
        "(false, -2147483648, -9223372036854775808L, float('NaN'), double('-Infinity'), -0.01bd, -1bd, "
        "DATE '0001-01-01', TIMESTAMP '2038-01-19 03:14:07', TIMESTAMP_NTZ '9999-12-31 23:59:59.999999', '', X'', "
        "named_struct('x', NULL, 'y', NULL), array(), map(), array())"
    ),
    "(" + ", ".join(["NULL"] * 16) + ")",
)
EVENTS: Final = "id bigint, name string, region string, ts timestamp, amount decimal(9,2)"


def create(columns: str, *, version: int, partitioned: str = "", **properties: str) -> str:
    """A statement that creates a table; underscores in the names of properties stand for dots."""
    found = {"format-version": str(version)} | {name.replace("_", "."): value for name, value in properties.items()}
    text = ", ".join(f"'{name}'='{value}'" for name, value in found.items())
    by = f"PARTITIONED BY ({partitioned})" if partitioned else ""
    return CREATE.replace("{columns}", columns).replace("{partitioned}", by).replace("{properties}", text)


def events(start: int, count: int = 20) -> str:
    return (
        f"INSERT INTO {{t}} SELECT id, concat('n', id % 5), IF(id % 2 = 0, 'eu', NULL), "
        f"timestamp_seconds(id * 40000), CAST(id / 4 AS decimal(9,2)) FROM range({start}, {start + count})"
    )


MERGE: Final = (
    "MERGE INTO {t} AS t USING (SELECT id, 'merged' AS name FROM range(5, 30, 5)) AS s ON t.id = s.id "
    "WHEN MATCHED AND t.id = 10 THEN DELETE WHEN MATCHED THEN UPDATE SET name = s.name "
    "WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, s.name)"
)
CHANGES: Final = (
    events(0), events(20), "DELETE FROM {t} WHERE id % 7 = 3", "UPDATE {t} SET name = 'updated' WHERE id % 7 = 4",
    MERGE, events(100, 3), "DELETE FROM {t} WHERE region = 'eu' AND id < 12",
)  # fmt: skip
MERGE_ON_READ: Final = {
    "write_delete_mode": "merge-on-read", "write_update_mode": "merge-on-read", "write_merge_mode": "merge-on-read",
}  # fmt: skip


def _tables() -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    by_all = "bucket(4, id), truncate(1, name), region, days(ts)"
    for v in (1, 2, 3):
        found[f"ctas_v{v}"] = (
            (
                f"CREATE TABLE {{t}} USING iceberg TBLPROPERTIES ('format-version'='{v}') AS SELECT id, id * 2 AS n "
                "FROM range(100)"
            ),
        )
        for data_format in ("parquet", "avro", "orc") if v == 2 else ("parquet",):
            found[f"types_{data_format}_v{v}"] = (
                create(ALL_TYPES, version=v, write_format_default=data_format),
                "INSERT INTO {t} VALUES " + ", ".join(ALL_VALUES),
            )
        found[f"partitioned_v{v}"] = (create(EVENTS, version=v, partitioned=by_all), events(0), events(20))
        found[f"copy_on_write_v{v}"] = (create(EVENTS, version=v, partitioned="region"), *CHANGES)
        found[f"evolved_schema_v{v}"] = (
            create("id int, gone string, price float, dec decimal(9,2), st struct<x: int>", version=v),
            "INSERT INTO {t} VALUES (1, 'gone', 1.5f, 1.25, named_struct('x', 1))",
            "ALTER TABLE {t} DROP COLUMN gone",
            "ALTER TABLE {t} RENAME COLUMN price TO cost",
            "ALTER TABLE {t} ADD COLUMNS (added string COMMENT 'later', st.y bigint)",
            "ALTER TABLE {t} ALTER COLUMN id TYPE bigint",
            "ALTER TABLE {t} ALTER COLUMN cost TYPE double",
            "ALTER TABLE {t} ALTER COLUMN dec TYPE decimal(18,2)",
            "ALTER TABLE {t} ALTER COLUMN added FIRST",
            "ALTER TABLE {t} ADD COLUMN gone string",
            "ALTER TABLE {t} WRITE ORDERED BY bucket(4, id), added DESC NULLS LAST",
            "INSERT INTO {t} VALUES ('a', 1099511627776, 0.1, 12345678901234.25, named_struct('x', 2, 'y', 3), 'new')",
        )
        found[f"evolved_spec_v{v}"] = (
            create(EVENTS, version=v),
            events(0, 5),
            "ALTER TABLE {t} ADD PARTITION FIELD days(ts)",
            events(10, 5),
            "ALTER TABLE {t} DROP PARTITION FIELD days(ts)",
            "ALTER TABLE {t} ADD PARTITION FIELD bucket(4, id) AS b",
            events(20, 5),
            "ALTER TABLE {t} REPLACE PARTITION FIELD b WITH truncate(2, name)",
            events(30, 5),
            "DELETE FROM {t} WHERE id = 12",
        )
        found[f"references_v{v}"] = (
            create(EVENTS, version=v),
            events(0, 5),
            "ALTER TABLE {t} CREATE TAG first RETAIN 365 DAYS",
            "ALTER TABLE {t} CREATE BRANCH audit RETAIN 7 DAYS WITH SNAPSHOT RETENTION 2 SNAPSHOTS 3 DAYS",
            "INSERT INTO {t}.branch_audit (id) VALUES (1000), (1001)",
            events(10, 5),
            "ALTER TABLE {t} ADD COLUMN extra string",
            "ALTER TABLE {t} CREATE BRANCH other",
            events(20, 5).replace("FROM range", ", 'x' FROM range"),
        )
    for v in (2, 3):
        found[f"merge_on_read_v{v}"] = (create(EVENTS, version=v, partitioned="region", **MERGE_ON_READ), *CHANGES)
        data_format = "avro" if v == 2 else "orc"
        found[f"merge_on_read_{data_format}_v{v}"] = (
            create(EVENTS, version=v, write_format_default=data_format, **MERGE_ON_READ), *CHANGES,
        )  # fmt: skip
        found[f"maintained_v{v}"] = (
            create(EVENTS, version=v, partitioned="bucket(2, id)", **MERGE_ON_READ),
            *CHANGES,
            "CALL wh.system.rewrite_manifests('{n}')",
            "CALL wh.system.rewrite_data_files(table => '{n}', options => map('rewrite-all', 'true'))",
            "DELETE FROM {t} WHERE id = 24",
            "CALL wh.system.rewrite_position_delete_files(table => '{n}', options => map('rewrite-all', 'true'))",
            "CALL wh.system.expire_snapshots(table => '{n}', retain_last => 2)",
        )
        found[f"write_audit_publish_v{v}"] = (
            create(EVENTS, version=v)[:-1] + ", 'write.wap.enabled'='true')",
            events(0, 5),
            "SET spark.wap.id = audit-1",
            events(10, 5),
            "RESET spark.wap.id",
            "CALL wh.system.publish_changes('{n}', 'audit-1')",
            "SET spark.wap.id = audit-2",
            events(20, 5),
            "RESET spark.wap.id",
        )
    found["overwritten"] = (
        create(EVENTS, version=2, partitioned="region"),
        events(0),
        "INSERT OVERWRITE {t} SELECT * FROM {t} WHERE id < 10",
        events(20),
        "DELETE FROM {t} WHERE region IS NULL",
    )
    found["compressed"] = (
        create(EVENTS, version=2)[:-1] + ", 'write.metadata.compression-codec'='gzip')",
        events(0, 3),
    )
    found["upgraded"] = (
        create(EVENTS, version=1, partitioned="region"),
        events(0),
        "ALTER TABLE {t} SET TBLPROPERTIES ('format-version'='2', 'write.delete.mode'='merge-on-read')",
        events(20),
        "DELETE FROM {t} WHERE id % 7 = 3",
        "ALTER TABLE {t} SET TBLPROPERTIES ('format-version'='3')",
        "DELETE FROM {t} WHERE id % 7 = 4",
        events(40),
        "DELETE FROM {t} WHERE id % 5 = 4",
    )
    found["variant"] = (
        create("id bigint, v variant", version=3),
        """INSERT INTO {t} VALUES (1, parse_json('{"a": 1}')), (2, parse_json('"hi"')), (3, NULL)""",
    )
    found["statistics"] = (
        create(EVENTS, version=2, partitioned="region"),
        events(0),
        events(10),
        "CALL wh.system.compute_table_stats('{n}')",
        "CALL wh.system.compute_partition_stats('{n}')",
    )
    return found


SPARK_TABLES: Final = _tables()
