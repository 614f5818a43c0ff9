"""What Isoline is about, as pure functions and frozen values.

Nothing here does I/O, reads a clock, draws randomness, or knows protobuf, SQL or asyncio. Time and ids come in as values.
"""
