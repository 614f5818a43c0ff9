import contextlib

import pytest

from client.test_errors import leaves
from isoline_client import errors, limits
from isoline_client.retry import Attempts, Verdict, verdict
from isoline_server.api.status import STATUS


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def fail(attempts, error, times):
    for _ in range(times):
        attempts.failed(error)
        attempts.pause_s(error)


def test_only_a_busy_server_and_a_contended_head_are_tried_again():
    again = {kind for kind in leaves(errors.IsolineError) if verdict(kind()) is not Verdict.FINAL}
    assert again == leaves(errors.Busy) | {errors.HeadContended}


def test_the_server_and_the_client_agree_on_what_may_be_tried_again():
    theirs = {mapped.reason for mapped in STATUS.values() if mapped.retryable}
    assert {reason for reason, kind in errors.REASONS.items() if verdict(kind()) is not Verdict.FINAL} == theirs


def test_an_internal_error_is_tried_again_a_few_times_only(clock):
    attempts, error = Attempts(30, clock=clock), errors.ServerError(code="INTERNAL", metadata={"retryable": "true"})
    fail(attempts, error, limits.SERVER_ERROR_TRIES_MAX - 1)
    with pytest.raises(errors.ServerError):
        attempts.failed(error)


@pytest.mark.parametrize("kind", [errors.Unavailable, errors.DeadlineExceeded, errors.OutcomeUnknown])
def test_a_server_that_is_away_or_silent_is_left_for_another(kind):
    assert verdict(kind()) is Verdict.ELSEWHERE


@pytest.mark.parametrize(
    "kind", [errors.SeqConflict, errors.InvalidRequest, errors.ChainBroken, errors.VerificationFailed]
)
def test_a_final_error_is_raised_at_once(kind, clock):
    with pytest.raises(kind):
        Attempts(30, clock=clock).failed(kind())


def test_pauses_double_are_jittered_and_stay_bounded(clock):
    attempts, pauses = Attempts(1000, clock=clock), []
    for _ in range(20):
        attempts.failed(errors.Unavailable())
        pauses.append(attempts.pause_s(errors.Unavailable()))
    assert all(p <= limits.PAUSE_FIRST_S * 2**n for n, p in enumerate(pauses))
    assert limits.PAUSE_MAX_S / 2 <= min(pauses[10:]) <= max(pauses) <= limits.PAUSE_MAX_S
    assert len(set(pauses)) == len(pauses)


def test_the_server_may_ask_for_a_longer_pause(clock):
    attempts, error = Attempts(30, clock=clock), errors.TooManyWaiting(retry_after_s=7)
    attempts.failed(error)
    assert attempts.pause_s(error) == 7


def test_no_pause_is_made_that_leaves_no_time(clock):
    attempts = Attempts(30, clock=clock)
    clock.now += 29.99
    with pytest.raises(errors.Unavailable):
        fail(attempts, errors.Unavailable(), 1)


def test_pauses_alone_bound_the_tries_of_a_patient_call(clock):
    attempts, tries = Attempts(300, clock=clock), 0
    with contextlib.suppress(errors.Unavailable):
        while tries := tries + 1:
            attempts.failed(errors.Unavailable())
            clock.now += attempts.pause_s(errors.Unavailable())
    assert 150 < tries < 320


def test_half_of_the_time_is_kept_for_another_server_while_it_is_worth_it(clock):
    attempts = Attempts(30, clock=clock)
    assert attempts.try_timeout_s(last_resort=True) == 30
    assert attempts.try_timeout_s(last_resort=False) == 15
    clock.now += 29
    assert attempts.try_timeout_s(last_resort=False) == 1
    clock.now += 29
    assert attempts.try_timeout_s(last_resort=False) > 0


AMBIGUOUS = [
    errors.Unavailable(message="Socket closed"),
    errors.Unavailable(reason="STORE_UNAVAILABLE"),
    errors.DeadlineExceeded(),
    errors.OutcomeUnknown(),
]
DEFINITE = [
    errors.Unavailable(message="failed to connect to all addresses; last error: refused"),
    errors.Unavailable(reason="DRAINING"),
    errors.TooManyWaiting(),
]


@pytest.mark.parametrize("error", AMBIGUOUS, ids=repr)
def test_a_change_that_may_have_landed_is_said_to_be_unknown(error, clock):
    attempts = Attempts(30, "the-id", clock)
    attempts.failed(error)
    clock.now += 31
    with pytest.raises(errors.OutcomeUnknown) as raised:
        attempts.failed(DEFINITE[0])
    assert raised.value.request_id == "the-id"
    assert raised.value.__cause__ is DEFINITE[0]


@pytest.mark.parametrize("error", DEFINITE, ids=repr)
def test_a_change_that_surely_did_not_land_is_not_said_to_be_unknown(error, clock):
    attempts = Attempts(30, "the-id", clock)
    clock.now += 31
    with pytest.raises(type(error)):
        attempts.failed(error)


@pytest.mark.parametrize("error", [errors.SeqConflict(), errors.RunNotFound(), errors.RequestIdReused()], ids=repr)
def test_a_definite_answer_ends_the_doubt_of_an_earlier_try(error, clock):
    attempts = Attempts(30, "the-id", clock)
    attempts.failed(errors.DeadlineExceeded())
    with pytest.raises(type(error)):
        attempts.failed(error)


@pytest.mark.parametrize("error", [errors.Unauthenticated(), errors.ServerError(code="INTERNAL")], ids=repr)
def test_an_answer_that_is_not_about_the_change_does_not_end_the_doubt(error, clock):
    attempts = Attempts(30, "the-id", clock)
    attempts.failed(errors.DeadlineExceeded())
    with pytest.raises(errors.OutcomeUnknown):
        attempts.failed(error)


def test_a_read_is_never_said_to_be_unknown(clock):
    attempts = Attempts(30, clock=clock)
    clock.now += 31
    with pytest.raises(errors.DeadlineExceeded):
        attempts.failed(errors.DeadlineExceeded())
