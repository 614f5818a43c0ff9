"""Every bound of the service, with its reason. Nothing else: no logic, no configuration.

A limit is announced by ``HostService.GetCapabilities`` and named by the error that refuses what exceeds it.
"""

from typing import Final

PAYLOAD_BYTES_MAX: Final = 1024 * 1024
"""One event. CockroachDB's guidance keeps a BYTES value at or under 1 MiB; above it write amplification grows."""

APPEND_EVENTS_MAX: Final = 1_000
"""Events of one append. Keeps one statement short enough that a lost race is cheap to repeat."""

APPEND_BYTES_MAX: Final = 4 * 1024 * 1024
"""Payload bytes of one append. A quarter of CockroachDB's 16 MiB statement bound, and gRPC's own default message bound."""

LANE_BYTES_MAX: Final = 8 * 1024 * 1024
"""Payload bytes coalesced into one statement: half of CockroachDB's statement bound, to leave room for stamps and digests."""

APPEND_MANY_MAX: Final = 64
"""Appends of one call. They are answered together, so the slowest keeps the others waiting."""

LANE_APPENDS_MAX: Final = 256
"""Appends coalesced into one statement. More would make one statement's failure cost too many callers a retry."""

LANE_QUEUE_MAX: Final = 4_096
"""Appends waiting for one lane. Beyond it the server says RESOURCE_EXHAUSTED rather than grow without bound."""

PAGE_BYTES_MAX: Final = 960 * 1024
"""Record bytes of one page, so that a page with its framing stays under 1 MiB."""

PAGE_EVENTS_MAX: Final = 4_096
"""Events of one page. Bounds the rows a server holds for one reader when events are tiny."""

LINEAGE_RANGES_MAX: Final = 64
"""Ancestor ranges of one run. A fork of a fork adds at most one; a read resolves them all, so the number stays small."""

SNAPSHOT_EVERY_EVENTS: Final = 1_024
"""Distance between state snapshots: bounds the folding for a state read to about a thousand events."""

STATE_BYTES_MAX: Final = 8 * 1024 * 1024
"""Canonical state of one run. A larger one is refused by GetState and not snapshotted, and the error says so."""

SEQ_MAX: Final = 2**53 - 1
"""The largest seq: every JSON reader holds it exactly (RFC 7493)."""

SAFE_INTEGER_MAX: Final = 2**53 - 1
"""Largest integer a payload may hold: beyond it two readers may see two numbers, and the state would not be equal everywhere (RFC 7493)."""

PAYLOAD_DEPTH_MAX: Final = 64
"""Nesting of a payload: every reader, recursive ones included, must be able to take it."""

MASKED_POINTERS_MAX: Final = 32
"""Declared clock and entropy pointers of one event."""

MASKED_POINTER_CHARS_MAX: Final = 256
"""Length of one such pointer."""

NAME_CHARS_MAX: Final = 128
"""Node ids, workflow ids, engine names: the OpenWOP grammar's bound (ids.schema.json)."""

REQUEST_ID_CHARS_MIN: Final = 16
REQUEST_ID_CHARS_MAX: Final = 128
"""A request id holds at least 80 random bits in any common spelling, and fits an index entry."""

TAGS_MAX: Final = 100
TAG_CHARS_MAX: Final = 256
"""Tags of a run (OpenWOP runs.md)."""

LIST_PAGE_SIZE_DEFAULT: Final = 50
LIST_PAGE_SIZE_MAX: Final = 1_000
"""Runs of one list page (AIP-158: larger requests are coerced to the maximum)."""

DIFF_EVENTS_MAX: Final = 1_000
"""Differences reported by one diff. The answer says ``truncated`` when there are more."""

TAIL_STREAMS_MAX: Final = 1_000
"""Open tails of one server: beyond it RESOURCE_EXHAUSTED, never a silent drop."""

APPEND_STREAM_WINDOW: Final = 64
"""Appends in flight on one AppendStream: back-pressure beyond it."""

APPEND_RETRY_MAX: Final = 32
"""Times one append may lose the race for the head before the server says ABORTED; each loss means another append won."""

LEASE_TTL_MS_MIN: Final = 1_000
LEASE_TTL_MS_MAX: Final = 600_000
"""A lease. Shorter, and a slow heartbeat loses it; longer, and the runs of a dead executor wait too long."""

CLAIM_RUNS_MAX: Final = 100
"""Runs of one claim. More would let one executor take what the others could have begun."""

CLAIM_WORKFLOWS_MAX: Final = 1_000
"""Workflows that one executor knows."""

RENEW_LEASES_MAX: Final = 1_000
"""Leases of one heartbeat."""

WAKE_IN_MS_MAX: Final = 366 * 24 * 3_600_000
"""How far ahead a run may be parked: a year."""

EFFECT_ID_CHARS_MAX: Final = 128
"""An effect's id: base64url of a digest, with room for a prefix."""

SEAM_CHARS_MAX: Final = 128
PROVIDER_KEY_CHARS_MAX: Final = 512
OWNER_CHARS_MAX: Final = 128
RESOLVED_BY_CHARS_MAX: Final = 256
"""Texts for people and for grouping; they end up in an index or a list."""

EFFECT_DRAWS_BYTES_MAX: Final = 256 * 1024
"""The draws kept with an effect."""

EFFECT_OUTCOME_BYTES_MAX: Final = 1024 * 1024
"""The outcome of an effect: it becomes part of an event, whose bound this is."""

INVOCATION_RESPONSE_BYTES_MAX: Final = 1024 * 1024
"""The answer of a model, for the same reason."""

COST_BYTES_MAX: Final = 4 * 1024
"""What an effect or an invocation cost: a few amounts."""

SOURCES_FOLLOWED_MAX: Final = 64
"""Runs that a look-up climbs from fork to source: as many as a run may have ancestor ranges."""

REPLAY_LOOK_AHEAD_EVENTS: Final = 1_024
"""How far the comparison of a replay with its source looks ahead for an event that is not where it was: a hundred steps that were moved or
removed together, and still few enough to hold for every replay under way."""

REPLAY_LOOK_AHEAD_BYTES: Final = 4 * 1024 * 1024
"""Payload bytes held for the same, when events are large: with few of them ahead, fewer moves are recognised, and nothing else changes."""

REPLAY_ALIGNMENTS_MAX: Final = 128
"""Comparisons one server keeps. A forgotten one is made again from the logs at the next append."""

UNTRANSLATABLE_TOLD_MAX: Final = 20
"""Events without a v2 form that the answer of an import tells one by one: more of them are the same few types again."""
