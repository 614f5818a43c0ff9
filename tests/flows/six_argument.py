"""The third step gets another argument."""

from flows.six import six

WORKFLOWS = six(("s1", 1), ("s2", 2), ("s3", 33), ("s4", 4), ("s5", 5), ("s6", 6))
