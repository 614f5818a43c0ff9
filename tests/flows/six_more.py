"""A step more at the end."""

from flows.six import six

WORKFLOWS = six(("s1", 1), ("s2", 2), ("s3", 3), ("s4", 4), ("s5", 5), ("s6", 6), ("s7", 7))
