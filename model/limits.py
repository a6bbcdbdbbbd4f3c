"""Every limit that an intent or a table meets, in one place, each with its unit in its name.

Past a limit there is a clear rejection or back-pressure, never a crash. Deployments change them under ``[limits]``
in ``firn.toml`` or with ``FIRN_LIMITS_<NAME>``.
"""

from __future__ import annotations

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """The limits of one daemon."""

    intent_bytes_max: int = 16 * 1024 * 1024
    """Size of one stream entry's payload; refused before it is parsed."""
    intent_files_max: int = 100_000
    """Files that one intent may name, added and removed together."""
    json_depth_max: int = 64
    """How deep the JSON of an intent may be nested."""
    summary_entries_max: int = 100
    """Entries that a writer may add to a snapshot's summary."""
    summary_bytes_max: int = 16 * 1024
    """Size of these entries together, keys and values."""
    batch_intents_max: int = 2_000
    """Intents in one batch."""
    batch_bytes_max: int = 32 * 1024 * 1024
    """Payload bytes in one batch; it is closed at whichever of the two comes first."""
    maintenance_wait_ms_max: int = 5_000
    """How long an intent of priority maintenance yields to ingest; then places in every batch are kept for it."""
    buffered_bytes_max: int = 256 * 1024 * 1024
    """Payload bytes held by all lanes together; a lane may hold as much as is free, the rest waits in its stream."""
    lane_intents_max: int = 20_000
    """Intents of one table that are held in memory; the rest waits in its stream."""
    held_back_tables_max: int = 10_000
    """Tables of which intents wait in their stream at once; past it the daemon takes nothing until lanes drain."""
    reservation_ms_max: int = 3_600_000
    """How long a reservation may live without being renewed."""
    waiting_scan_entries_max: int = 200_000
    """Stream entries looked at for intents that wait, when an expiry must not take away what they were planned on."""
    transaction_members_max: int = 1_000
    """Operations in one transaction."""
    transaction_tables_max: int = 50
    """Tables of one transaction, those that are to be unchanged too: all of them are locked at once."""
    rejection_files_max: int = 100
    """File names listed in one rejection; `files-count` says how many there were."""
    metadata_bytes_max: int = 128 * 1024 * 1024
    """Size of a metadata file, decompressed, that is read: ten times as much as 10 000 snapshots take."""
    json_values_max: int = 1_500_000
    """Values in one table's or view's metadata: twice as many as 10 000 snapshots and 100 schemas of 1 000 columns
    have. More are refused before any is decoded."""
    intent_values_max: int = 4_000_000
    """JSON values in one intent; more are refused before any is decoded."""
    columns_max: int = 10_000
    """Columns of one schema, nested ones included, that a table or view may be given."""
    properties_max: int = 10_000
    """Properties that a table or view may be given."""
    layout_fields_max: int = 1_000
    """Fields that a partition spec or a sort order may be given."""
    replaced_metadata_ms: int = 120_000
    """How long a metadata file stays once the table's metadata log names it no longer, where the daemon removes it: a
    reader that has read the pointer opens the file by then."""
    manifest_list_bytes_max: int = 256 * 1024 * 1024
    """Size of a manifest list that is read."""
    manifest_bytes_max: int = 256 * 1024 * 1024
    """Size of a manifest that is read."""
    deletion_vector_bytes_max: int = 64 * 1024 * 1024
    """Size of a deletion vector or position delete file that is read to compare or merge it with another."""
    manifest_cache_bytes_max: int = 64 * 1024 * 1024
    """Manifests kept in memory, all tables of a daemon together."""
    table_states_bytes_max: int = 64 * 1024 * 1024
    """What is known of tables that are committed to, all of a daemon together, as Python's objects take it, about. Past
    it tables in no particular order are forgotten, and read again with their next batch; those with more than 50 000
    live files are not, and do not count. Tables for which nothing comes any more are kept while there is room for
    them, whole."""
    journal_bytes_max: int = 256 * 1024 * 1024
    """Size of a journal segment, decompressed, that is read."""
    dedupe_intents_max: int = 50_000
    """Decided intent ids kept in memory per table; older ones are looked up in the journal's checkpoints."""
    ids_ahead_bytes_max: int = 16 * 1024 * 1024
    """Memory per table for decided ids that say a later time than when they were queued, because a writer's clock is
    ahead: eight bytes each until that time has come. Past it some are read again then, from the journal's checkpoints.
    """
    dedupe_window_hours: int = 24
    """An intent whose id is older than this when it is queued is refused as too old."""
    clock_skew_minutes_max: int = 60
    """How far ahead of the queue's clock the time inside an intent id may be."""
    writers_max: int = 10_000
    """Streaming writers of a table; none is forgotten, and the first epoch of another is refused."""
    deliveries_max: int = 10
    """Deliveries of one entry that end in no decision (crashes) before it is set aside as poison."""
    swap_attempts_max: int = 100
    """Lost or unanswered swaps of one batch before its intents go back to the queue."""
    outcomes_kept_max: int = 4_000_000
    """Outcomes of one daemon that Redis keeps, about, at 450 bytes each: for a day, or as long as there is room for so
    many, but at least a quarter of an hour; 0: always for a day. The journal keeps them for good.
    """
    http_connections_max: int = 256
    """Connections to the HTTP side; past it the one that waits longest without a request is ended for a new one."""
    http_peer_connections_max: int = 192
    """Connections of one address; a proxy in front of the daemon is one."""
    event_bytes_max: int = 64 * 1024
    """Size of an event; a longer list of intents is cut, and says so."""
