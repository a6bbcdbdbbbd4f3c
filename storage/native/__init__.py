"""What is compiled: each module does what one beside this package does without it."""
