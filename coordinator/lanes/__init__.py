"""Lanes: one for each table with something to do, which decides its intents in order, one batch after the other.

`lanes` finds or makes the lane of an intent, `lane_queue` says what the next batch is, `lane` begins it, `lane_lock`
holds the table meanwhile, and `table_commits` sees it through until it has been decided; `held_intents` keeps those
whose past cannot be read. `workshop` is what they share.
"""
