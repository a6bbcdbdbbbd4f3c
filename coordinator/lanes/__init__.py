"""Lanes: one for each table with something to do, which decides its intents in order, one batch after the other.

`lanes` finds or makes the lane of an intent, `lane_queue` says what the next batch is, `lane` begins it, `lane_lock`
holds the table meanwhile, and `table_commits` sees it through until it has been decided. `first_outcomes` tells again
what was decided before, and `held_intents` keeps those whose past cannot be read. `looks` is for looking at tables
beside the commits, `workshop` is what lanes share.
"""
