"""Every fact that can stop a call, one class each, carrying its values. No status codes here: ``api/status.py`` maps them.

::

    IsolineError
    ├── Refused                 the caller asked for something that cannot be; repeating it does not help
    │   ├── InvalidField            a value breaks its rule (field, rule, got)
    │   ├── TooLarge                a size is over its limit (field, size, limit)
    │   ├── TenantMismatch          the id belongs to another tenant
    │   ├── ScopeMissing            the credential lacks a scope
    │   ├── Unauthenticated         no credential, or an unknown one
    │   ├── RunNotFound             no such run in the caller's tenant (said only after a fresh read)
    │   ├── LeaseLost               the lease has ended, or its epoch is not the run's: it was claimed anew, or never given
    │   ├── EffectNotFound          no such effect in the run
    │   ├── EffectIdentityReused    an effect's id came before with another request
    │   ├── EffectTransitionRefused an effect may not go there from where it is
    │   ├── RunTerminal             the run has ended; this event type may not follow
    │   ├── SeqOutOfRange           the asked range is not in the log
    │   ├── PrefixMismatch          the caller's (seq, digest) is not this run's
    │   ├── RequestIdReused         the same request id came with another body
    │   ├── EngineGap               an engine's counter skips a number
    │   ├── EngineCounterReused     an engine's counter was used before for other events
    │   ├── ForkPointInvalid        from_seq is not a place where a fork may begin
    │   ├── MemoryUnavailable       the source's log does not tell its memory as of from_seq
    │   ├── SummaryUnavailable      the source's log does not tell a summary that it uses as of from_seq
    │   ├── ReplayDivergedAtRefusal the model refused in the replay or in its source only; the replay has failed
    │   ├── OverlayNotAllowed       a replay takes no overlay
    │   ├── LineageTooDeep          the fork would have more ancestor ranges than the limit
    │   ├── PageTokenInvalid        the page token is not one of ours for this call
    │   └── StateTooLarge           the folded state is over its limit
    ├── Raced                   another writer was faster; read again, then decide
    │   ├── SeqConflict             the head is not where the caller expected it (expected, actual)
    │   └── HeadContended           too many writers: the append lost the race for the head too often (run, losses)
    ├── Busy                    come back later
    │   ├── TooManyWaiting          a queue or a number of streams is full
    │   ├── Draining                this server is shutting down
    │   ├── StoreUnavailable        the database does not answer, or the retries are used up
    │   └── OutcomeUnknown          the deadline passed while the write was under way: it may or may not have landed
    ├── Untranslatable          an event of a v1 host has no v2 form; nothing is left out, nothing made up
    │   ├── EventTypeUnmapped       no v2 name for its type (type, seq)
    │   └── PayloadUnprojectable    its v2 definition has no seat for members of its payload (type, keys, event id, seq)
    └── Damaged                 stored bytes do not fit together
        └── ChainBroken             a record does not extend the digest before it (run, seq, source)
"""

from dataclasses import dataclass


class IsolineError(Exception):
    """Base of every error of the service. ``details()`` gives the values for machines, ``str()`` the sentence for people."""

    def details(self) -> dict[str, str]:
        """The values of the error, as text."""
        names = getattr(self, "__dataclass_fields__", {})
        return {name: str(getattr(self, name)) for name in names if getattr(self, name) is not None}


class Refused(IsolineError):
    """The call cannot be carried out as asked; repeating it gives the same answer."""


class Raced(IsolineError):
    """Another writer was faster."""


class Busy(IsolineError):
    """The call may be repeated later, with the same request id."""


class Untranslatable(IsolineError):
    """An event that a v1 host wrote has no v2 form. It stays so: a repeat gives the same answer."""


class Damaged(IsolineError):
    """Stored bytes do not fit together."""


@dataclass
class InvalidField(Refused):
    field: str
    rule: str
    got: str | None = None

    def __str__(self) -> str:
        tail = "" if self.got is None else f" (got {self.got!r})"
        return f"{self.field}: {self.rule}{tail}"


@dataclass
class TooLarge(Refused):
    field: str
    size: int
    limit: int
    unit: str

    def __str__(self) -> str:
        return f"{self.field}: {self.size} {self.unit} is over the limit of {self.limit}"


@dataclass
class TenantMismatch(Refused):
    field: str = "run_id"

    def __str__(self) -> str:
        return f"{self.field}: its tenant segment is not the tenant of your credential"


@dataclass
class ScopeMissing(Refused):
    scope: str

    def __str__(self) -> str:
        return f"your credential lacks the scope {self.scope}"


@dataclass
class Unauthenticated(Refused):
    reason: str

    def __str__(self) -> str:
        return self.reason


@dataclass
class RunNotFound(Refused):
    run_id: str

    def __str__(self) -> str:
        return f"no run {self.run_id}"


@dataclass
class RunTerminal(Refused):
    run_id: str
    terminal_seq: int
    type: str

    def __str__(self) -> str:
        return f"the run ended at seq {self.terminal_seq}; {self.type} may not follow a terminal event"


@dataclass
class LeaseLost(Refused):
    run_id: str
    lease_epoch: int

    def __str__(self) -> str:
        return f"lease epoch {self.lease_epoch} of {self.run_id} has ended, or the run was claimed anew since; nothing was done"


@dataclass
class EffectNotFound(Refused):
    run_id: str
    effect_id: str

    def __str__(self) -> str:
        return f"no effect {self.effect_id} in {self.run_id}"


@dataclass
class EffectIdentityReused(Refused):
    run_id: str
    effect_id: str

    def __str__(self) -> str:
        return f"effect {self.effect_id} of {self.run_id} was claimed before with another request; nothing was done"


@dataclass
class EffectTransitionRefused(Refused):
    run_id: str
    effect_id: str
    state: str
    attempt: int
    to: str

    def __str__(self) -> str:
        return f"effect {self.effect_id} of {self.run_id} is {self.state} in attempt {self.attempt}; this call cannot make it {self.to}"


@dataclass
class SeqOutOfRange(Refused):
    field: str
    got: int
    head_seq: int

    def __str__(self) -> str:
        return f"{self.field}: {self.got} is outside the log, whose next seq is {self.head_seq + 1}"


@dataclass
class PrefixMismatch(Refused):
    seq: int
    expected_digest: str
    actual_digest: str

    def __str__(self) -> str:
        return f"the prefix up to seq {self.seq} has digest {self.actual_digest}, not {self.expected_digest}"


@dataclass
class RequestIdReused(Refused):
    request_id: str

    def __str__(self) -> str:
        return f"request_id {self.request_id} was used before with another body; nothing was done"


@dataclass
class EngineGap(Refused):
    engine: str
    expected_engine_seq: int
    got_engine_seq: int

    def __str__(self) -> str:
        return f"engine {self.engine}: its next counter is {self.expected_engine_seq}, not {self.got_engine_seq}"


@dataclass
class EngineCounterReused(Refused):
    engine: str
    expected_engine_seq: int
    got_engine_seq: int

    def __str__(self) -> str:
        return f"engine {self.engine}: counter {self.got_engine_seq} was used before for other events; its next is {self.expected_engine_seq}"


@dataclass
class ForkPointInvalid(Refused):
    source_run_id: str
    from_seq: int
    last_seq: int
    why: str

    def __str__(self) -> str:
        return f"from_seq {self.from_seq}: {self.why} (the last seq of the source is {self.last_seq})"


@dataclass
class MemoryUnavailable(Refused):
    source_run_id: str
    from_seq: int
    gap_seq: int

    def __str__(self) -> str:
        return f"from_seq {self.from_seq}: the memory written at seq {self.gap_seq} is not in the log, so it cannot be served as it was"

    def details(self) -> dict[str, str]:
        return {**super().details(), "fromSeq": str(self.from_seq)}


@dataclass
class SummaryUnavailable(Refused):
    source_run_id: str
    from_seq: int
    gap_seq: int

    def __str__(self) -> str:
        return f"from_seq {self.from_seq}: the summary made at seq {self.gap_seq} is not in the log, so it cannot be used again"

    def details(self) -> dict[str, str]:
        return {**super().details(), "fromSeq": str(self.from_seq)}


@dataclass
class ReplayDivergedAtRefusal(Refused):
    run_id: str
    seq: int
    node_id: str
    source_refused: bool

    def __str__(self) -> str:
        who = "its source only" if self.source_refused else "the replay only"
        return f"node {self.node_id}: the model refused in {who}; the replay has failed, see seq {self.seq} of {self.run_id}"


@dataclass
class OverlayNotAllowed(Refused):
    field: str = "run_options_overlay"

    def __str__(self) -> str:
        return f"{self.field}: a replay takes no overlay; leave it empty or fork with mode branch"


@dataclass
class LineageTooDeep(Refused):
    ranges: int
    limit: int

    def __str__(self) -> str:
        return f"the fork would have {self.ranges} ancestor ranges; the limit is {self.limit}"


@dataclass
class PageTokenInvalid(Refused):
    field: str = "page_token"

    def __str__(self) -> str:
        return f"{self.field}: not a token of this call; take it from next_page_token of the same list with the same arguments"


@dataclass
class StateTooLarge(Refused):
    size: int
    limit: int

    def __str__(self) -> str:
        return f"the state has {self.size} bytes; the limit is {self.limit}"


@dataclass
class SeqConflict(Raced):
    run_id: str
    expected_seq: int
    actual_seq: int

    def __str__(self) -> str:
        return f"expected_seq {self.expected_seq} is not the next seq; it is {self.actual_seq}"


@dataclass
class HeadContended(Raced):
    run_id: str
    losses: int

    def __str__(self) -> str:
        return (
            f"other writers moved the head of {self.run_id} {self.losses} times in a row; nothing was done, try again"
        )


@dataclass
class TooManyWaiting(Busy):
    what: str
    limit: int

    def __str__(self) -> str:
        return f"too many {self.what} (limit {self.limit}); come back later"


@dataclass
class Draining(Busy):
    def __str__(self) -> str:
        return "this server is shutting down; use another region or come back"


@dataclass
class StoreUnavailable(Busy):
    reason: str

    def __str__(self) -> str:
        return f"the database is not available ({self.reason})"


@dataclass
class OutcomeUnknown(Busy):
    def __str__(self) -> str:
        return "the deadline passed while the write was under way; it may have landed: repeat it with the same request_id to learn"


@dataclass
class EventTypeUnmapped(Untranslatable):
    type: str
    seq: int

    def __str__(self) -> str:
        return f"seq {self.seq}: the codemap has no v2 name for {self.type}, and no registered vendor owns it"


@dataclass
class PayloadUnprojectable(Untranslatable):
    type: str
    keys: str
    event_id: str
    seq: int

    def __str__(self) -> str:
        return f"seq {self.seq}: the v2 definition of {self.type} has no seat for {self.keys}"


@dataclass
class ChainBroken(Damaged):
    run_id: str
    seq: int
    source: str

    def __str__(self) -> str:
        return f"the record at seq {self.seq} does not extend the digest before it (read from {self.source})"
