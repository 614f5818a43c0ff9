"""A store that fails as databases do: before the work, after the work, or because of the work."""

from collections import Counter, defaultdict, deque
from collections.abc import Callable
from typing import Any

from isoline_server.operations.ports import StoreRetryable

LOST = StoreRetryable("connection lost", ambiguous=True)
ABORTED = StoreRetryable("40001", ambiguous=False)
DEADLOCK = StoreRetryable("40P01", ambiguous=False)


class FaultyWriter:
    """Stands before a real ``LogWriter``. Each planned fault is used up by one call of its method; ``calls`` counts all of them."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self._faults: dict[str, deque[tuple[str, Exception]]] = defaultdict(deque)
        self.calls: Counter[str] = Counter()
        self.poison: Callable[[Any], bool] = lambda groups: False

    def fail_after(self, method: str, error: Exception = LOST, times: int = 1) -> None:
        """Do the work, then raise."""
        self._faults[method] += [("after", error)] * times

    def fail_before(self, method: str, error: Exception = ABORTED, times: int = 1) -> None:
        """Raise and do nothing."""
        self._faults[method] += [("before", error)] * times

    def heal(self) -> None:
        self._faults.clear()
        self.calls.clear()
        self.poison = lambda groups: False

    @property
    def is_healed(self) -> bool:
        """Whether every planned fault has happened."""
        return not any(self._faults.values())

    def __getattr__(self, method: str) -> Any:
        async def call(*args: Any, **kwargs: Any) -> Any:
            self.calls[method] += 1
            if method == "append" and any(self.poison(group) for group in args[1]):
                raise ValueError("the database refuses this statement")
            when, error = self._faults[method].popleft() if self._faults[method] else ("never", None)
            if when == "before":
                raise error
            answer = await getattr(self._real, method)(*args, **kwargs)
            if when == "after":
                raise error
            return answer

        return call
