"""The ops page: a fleet, its tables and its conflicts as they are now, served by every daemon. It changes nothing."""
