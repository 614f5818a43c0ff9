"""The Isoline server: one process a region in front of the database that replicates.

Data goes one way: ``proto -> api -> operations -> domain -> (back in operations) -> store``. Imports point inward only.
"""
