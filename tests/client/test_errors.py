import pickle
from collections import defaultdict

import grpc
import pytest
from grpc.aio import AioRpcError, Metadata

import isoline_client
from client.double import status_of
from isoline_client import errors
from isoline_server.api.status import STATUS


def leaves(kind):
    below = kind.__subclasses__()
    return {leaf for sub in below for leaf in leaves(sub)} if below else {kind}


def rpc_error(code, reason="", metadata=None, **more):
    status = status_of(code, reason, metadata, **more)
    return AioRpcError(code, Metadata(), Metadata(*status.trailing_metadata), status.details)


@pytest.mark.parametrize(("kind", "mapped"), STATUS.items(), ids=lambda each: getattr(each, "__name__", ""))
def test_every_error_of_the_server_has_a_class_here_that_carries_its_values(kind, mapped):
    told = dict.fromkeys(getattr(kind, "__dataclass_fields__", {}), "7")
    error = errors.from_rpc_error(rpc_error(mapped.code, mapped.reason, told))
    assert type(error) is errors.REASONS[mapped.reason]
    assert error.metadata == told
    own = set(getattr(type(error), "__dataclass_fields__", {})) - set(errors.IsolineError.__dataclass_fields__)
    assert {name: str(getattr(error, name)) for name in own & told.keys()} == dict.fromkeys(own & told.keys(), "7")


def test_no_class_waits_for_a_value_that_the_server_does_not_tell():
    told = defaultdict(set, {errors.OutcomeUnknown: {"request_id"}})
    for kind, mapped in STATUS.items():
        told[errors.REASONS[mapped.reason]] |= set(getattr(kind, "__dataclass_fields__", {}))
    for kind, values in told.items():
        assert set(kind.__dataclass_fields__) - set(errors.IsolineError.__dataclass_fields__) <= values


def test_there_is_no_reason_that_the_server_does_not_give():
    assert errors.REASONS.keys() == {mapped.reason for mapped in STATUS.values()}


def test_every_class_is_used_by_a_reason_a_code_or_the_client_itself():
    raised_here = {errors.VerificationFailed, errors.NotWritten, errors.ClientClosed, errors.ServerError}
    used = set(errors.REASONS.values()) | set(errors._CODES.values()) | raised_here
    assert leaves(errors.IsolineError) <= used


def test_the_tree_in_the_docstring_names_every_class_and_every_class_is_exported():
    for kind in {errors.IsolineError, *leaves(errors.IsolineError), *errors.IsolineError.__subclasses__()}:
        assert f" {kind.__name__}" in errors.__doc__
        assert getattr(isoline_client, kind.__name__) is kind


def test_numbers_are_numbers():
    metadata = {"run_id": "r", "expected_seq": "4", "actual_seq": "9"}
    error = errors.from_rpc_error(rpc_error(grpc.StatusCode.ABORTED, "SEQ_CONFLICT", metadata, details="moved on"))
    assert (error.run_id, error.expected_seq, error.actual_seq) == ("r", 4, 9)
    assert (str(error), error.reason, error.code) == ("moved on", "SEQ_CONFLICT", "ABORTED")


@pytest.mark.parametrize("metadata", [{}, {"expected_seq": "many"}])
def test_a_number_that_was_not_told_is_minus_one(metadata):
    error = errors.from_rpc_error(rpc_error(grpc.StatusCode.ABORTED, "SEQ_CONFLICT", metadata))
    assert error.expected_seq == -1


def test_an_unknown_reason_becomes_a_server_error_that_keeps_what_was_said():
    error = errors.from_rpc_error(rpc_error(grpc.StatusCode.FAILED_PRECONDITION, "MOON_PHASE", {"moon": "full"}))
    assert type(error) is errors.ServerError
    assert (error.reason, error.metadata, error.code) == ("MOON_PHASE", {"moon": "full"}, "FAILED_PRECONDITION")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (grpc.StatusCode.UNAVAILABLE, errors.Unavailable),
        (grpc.StatusCode.CANCELLED, errors.Unavailable),
        (grpc.StatusCode.DEADLINE_EXCEEDED, errors.DeadlineExceeded),
        (grpc.StatusCode.UNAUTHENTICATED, errors.Unauthenticated),
        (grpc.StatusCode.PERMISSION_DENIED, errors.PermissionDenied),
        (grpc.StatusCode.INTERNAL, errors.ServerError),
        (grpc.StatusCode.UNIMPLEMENTED, errors.ServerError),
    ],
)
def test_a_status_without_details_is_told_by_its_code(code, kind):
    assert type(errors.from_rpc_error(AioRpcError(code, Metadata(), Metadata(), "boo"))) is kind


def test_a_stream_broken_off_by_a_proxy_is_unavailable_whatever_grpc_calls_it():
    failure = AioRpcError(grpc.StatusCode.INTERNAL, Metadata(), Metadata(), "Received RST_STREAM with error code 2")
    assert type(errors.from_rpc_error(failure)) is errors.Unavailable


def test_a_foreign_error_info_is_not_taken_for_ours():
    failure = rpc_error(grpc.StatusCode.ABORTED, "SEQ_CONFLICT", {})
    details = failure.trailing_metadata()["grpc-status-details-bin"].replace(b"isoline.dev", b"another.dev")
    foreign = AioRpcError(grpc.StatusCode.ABORTED, Metadata(), Metadata(("grpc-status-details-bin", details)), "")
    assert type(errors.from_rpc_error(foreign)) is errors.ServerError


def test_the_time_to_come_back_is_kept():
    failure = rpc_error(grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_WAITING", {"limit": "3"}, retry_after_s=1.5)
    error = errors.from_rpc_error(failure)
    assert (error.limit, error.retry_after_s) == (3, 1.5)


def test_errors_can_be_sent_between_processes():
    error = pickle.loads(pickle.dumps(errors.SeqConflict(message="no", expected_seq=3, actual_seq=4)))
    assert (str(error), error.expected_seq, error.actual_seq) == ("no", 3, 4)
