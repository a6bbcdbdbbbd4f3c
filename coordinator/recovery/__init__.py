"""Recovery: the pointers of all tables, rebuilt from what is in table storage alone.

`journals` finds and reads what there is, `heads` decides up to where each journal was committed, `pointers` makes the
pointers. See docs/decisions/0013-pause-and-recovery.md.
"""
