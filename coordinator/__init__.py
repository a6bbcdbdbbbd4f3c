"""What decides: intake, lanes, replay, the commit protocol and recovery; the daemon, its command line and the client.

Follow one intent from intake to outcome and the modules come in that order.
"""
