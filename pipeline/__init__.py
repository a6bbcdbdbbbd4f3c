"""Iceberg through PySpark: the sink, the source, row-level operations, maintenance and reports on the journal.

Everything that changes a table goes through the client as an intent, like any other writer's.
"""
