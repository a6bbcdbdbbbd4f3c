"""What only computes, in a process beside the daemon: pages of intents are read there, large merged manifests laid out.

`calculator` is the daemon's side, for whoever has work; `program` is the process; `messages` is what both say.
"""
