"""What a machine needs for the drills that not every machine can do, and the naming of those that were left out."""

import pytest

from isoline_drill.errors import DrillError
from isoline_drill.patroni import find_programs
from isoline_drill.wan import namespaces_work

_left_out: list[str] = []


@pytest.fixture(scope="session")
def patroni_works() -> None:
    """Patroni and etcd are installed, and there is a network for them; or a skip that the summary names."""
    missing = namespaces_work()
    try:
        find_programs()
    except DrillError as error:
        missing = str(error)
    if missing is not None:
        reason = f"failover by Patroni and etcd: {missing}"
        _left_out.append(reason)
        pytest.skip(reason)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name what this machine could not run."""
    for line in dict.fromkeys(_left_out):
        terminalreporter.write_line(f"NOT RUN HERE: {line}", yellow=True)
