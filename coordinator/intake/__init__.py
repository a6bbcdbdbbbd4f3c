"""Intake: entries of the owned shards on their way to lanes, in the order in which they came.

`ownership` says which shards are this daemon's, `intake` reads them, `backlog` keeps what no lane can take yet.
`page_size` says how many are read at once, `quarantine` when those may go on that daemons may have died over, and
`intent_reader` has many intents at once read by a process of its own (by what `read_appends` says).
"""
