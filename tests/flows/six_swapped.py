"""The third and the fourth step in the other order."""

from flows.six import six

WORKFLOWS = six(("s1", 1), ("s2", 2), ("s4", 4), ("s3", 3), ("s5", 5), ("s6", 6))
