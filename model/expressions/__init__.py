"""Expressions: filters over rows, their JSON and text forms, and what they say of partitions, manifests and files.

A filter is built (`predicates`, `expression_json`, `filter_text`), bound to a schema (`binding`) and then asked
questions: of a row, a partition tuple, a file's metrics or a manifest's summaries. See Iceberg's "Expressions Spec".
"""
