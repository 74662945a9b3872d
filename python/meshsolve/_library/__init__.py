"""The compiled library: its calls, its routines as data, its messages."""
