"""The table of statuses: complete, unambiguous, and silent about what is inside."""

import re

import pytest
from google.rpc import error_details_pb2
from grpc import StatusCode

from isoline_server.api.status import DOMAIN, INTERNAL, STATUS, on_the_wire
from isoline_server.domain import errors

GROUPS = {errors.IsolineError, errors.Refused, errors.Raced, errors.Busy, errors.Untranslatable}
"""Classes that nobody raises: they only group."""

ALL = {each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, errors.IsolineError)}

SAMPLES = {
    errors.InvalidField: errors.InvalidField("field", "rule", got="got"),
    errors.TooLarge: errors.TooLarge("field", 2, 1, "bytes"),
    errors.TenantMismatch: errors.TenantMismatch(),
    errors.ScopeMissing: errors.ScopeMissing("runs:read"),
    errors.Unauthenticated: errors.Unauthenticated("unknown key"),
    errors.RunNotFound: errors.RunNotFound("a/eu-b"),
    errors.LeaseLost: errors.LeaseLost("a/eu-b", 3),
    errors.EffectNotFound: errors.EffectNotFound("a/eu-b", "e"),
    errors.EffectIdentityReused: errors.EffectIdentityReused("a/eu-b", "e"),
    errors.EffectTransitionRefused: errors.EffectTransitionRefused("a/eu-b", "e", "completed", 1, "failed"),
    errors.RunTerminal: errors.RunTerminal("a/eu-b", 3, "node.started"),
    errors.SeqOutOfRange: errors.SeqOutOfRange("from_seq", 9, 3),
    errors.PrefixMismatch: errors.PrefixMismatch(3, "00", "11"),
    errors.RequestIdReused: errors.RequestIdReused("id"),
    errors.EngineGap: errors.EngineGap("e", 1, 2),
    errors.EngineCounterReused: errors.EngineCounterReused("e", 2, 1),
    errors.ForkPointInvalid: errors.ForkPointInvalid("a/eu-b", 9, 3, "why"),
    errors.MemoryUnavailable: errors.MemoryUnavailable("a/eu-b", 9, 3),
    errors.SummaryUnavailable: errors.SummaryUnavailable("a/eu-b", 9, 3),
    errors.ReplayDivergedAtRefusal: errors.ReplayDivergedAtRefusal("a/eu-b", 9, "n", source_refused=True),
    errors.OverlayNotAllowed: errors.OverlayNotAllowed(),
    errors.LineageTooDeep: errors.LineageTooDeep(65, 64),
    errors.PageTokenInvalid: errors.PageTokenInvalid(),
    errors.StateTooLarge: errors.StateTooLarge(2, 1),
    errors.SeqConflict: errors.SeqConflict("a/eu-b", 1, 2),
    errors.HeadContended: errors.HeadContended("a/eu-b", 33),
    errors.TooManyWaiting: errors.TooManyWaiting("tails", 1),
    errors.Draining: errors.Draining(),
    errors.StoreUnavailable: errors.StoreUnavailable("40001"),
    errors.OutcomeUnknown: errors.OutcomeUnknown(),
    errors.ChainBroken: errors.ChainBroken("a/eu-b", 3, "leader"),
    errors.EventTypeUnmapped: errors.EventTypeUnmapped("acme.done", 3),
    errors.PayloadUnprojectable: errors.PayloadUnprojectable("run.started", "who,why", "evt-1", 3),
    errors.Damaged: errors.Damaged("seq 3: no record"),
}


def test_every_class_that_is_raised_has_a_status():
    assert set(STATUS) == ALL - GROUPS


def test_nothing_but_a_group_has_subclasses():
    assert {each for each in ALL if each.__subclasses__()} - GROUPS == {errors.Damaged}


def test_no_two_classes_share_a_reason():
    reasons = [mapped.reason for mapped in [*STATUS.values(), INTERNAL]]
    assert len(set(reasons)) == len(reasons)


def test_reasons_follow_the_grammar_of_error_info():
    assert all(re.fullmatch(r"[A-Z][A-Z0-9_]+[A-Z0-9]", mapped.reason) for mapped in STATUS.values())


def test_only_busy_and_contended_calls_may_be_repeated():
    retryable = {each for each, mapped in STATUS.items() if mapped.retryable}
    assert retryable == {each for each in STATUS if issubclass(each, errors.Busy)} | {errors.HeadContended}


def test_a_refusal_is_never_told_as_a_failure_of_the_server():
    ours = {StatusCode.INTERNAL, StatusCode.UNKNOWN, StatusCode.UNAVAILABLE, StatusCode.DATA_LOSS}
    assert not {each for each, mapped in STATUS.items() if issubclass(each, errors.Refused) and mapped.code in ours}


def test_there_is_a_sample_of_every_class():
    assert set(SAMPLES) == set(STATUS)


@pytest.mark.parametrize("error", SAMPLES.values(), ids=lambda error: type(error).__name__)
def test_an_error_is_told_with_its_reason_its_values_and_a_sentence(error):
    status = on_the_wire(error).to_status()
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert (info.domain, info.reason) == (DOMAIN, STATUS[type(error)].reason)
    assert info.metadata["retryable"] == str(STATUS[type(error)].retryable).lower()
    assert {key: info.metadata[key] for key in error.details()} == error.details()
    assert status.message == str(error) != ""


@pytest.mark.parametrize(
    "error", [RuntimeError("SELECT * FROM runs"), KeyError("/etc/isoline"), AssertionError("acme/eu-b")], ids=repr
)
def test_an_error_that_is_not_ours_is_told_without_its_text(error):
    told = on_the_wire(error)
    assert (told.code, told.reason) == (StatusCode.INTERNAL, "INTERNAL_ERROR")
    assert str(error.args[0]) not in f"{told.message}{told.metadata}"
