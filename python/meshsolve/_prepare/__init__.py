"""What turns the operands of a user into a request: checks, dtypes, padding, leading axes."""
