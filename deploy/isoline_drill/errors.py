"""What can go wrong with a drill itself. What goes wrong with the service under it is a finding, not an error."""


class DrillError(Exception):
    """The drill could not be carried out; the message says what was missing, for people."""
