"""The journal as the daemon knows it: what was decided on a table, and who made it what it is.

`decisions` folds segments as they come, and keeps ids in `decided_ids`, `ids_ahead` and `looked_back`, epochs in
`writers`, who made what without a snapshot in `landmarks`; `old_segments` reads what is asked for again, and `lookups`
finds one decision without reading all of them.
"""
