import pytest

from isoline_client import errors
from isoline_client.cli.failures import CommandError, Exit, describe, exit_code


def leaves(kind):
    below = kind.__subclasses__()
    return {leaf for sub in below for leaf in leaves(sub)} if below else {kind}


@pytest.mark.parametrize("kind", sorted(leaves(errors.IsolineError), key=lambda kind: kind.__name__))
def test_every_error_of_the_server_ends_in_the_code_of_its_family(kind):
    expected = {errors.Damaged: Exit.NEGATIVE, errors.Busy: Exit.UNAVAILABLE, errors.ClientClosed: Exit.UNAVAILABLE}
    found = next((code for family, code in expected.items() if issubclass(kind, family)), Exit.REFUSED)
    assert exit_code(kind(code="INVALID_ARGUMENT")) is found


@pytest.mark.parametrize("kind", [errors.InvalidRequest, errors.TooLarge])
def test_what_the_client_finds_before_it_sends_is_wrong_usage(kind):
    assert exit_code(kind()) is Exit.USAGE


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("INTERNAL", Exit.UNAVAILABLE),
        ("UNKNOWN", Exit.UNAVAILABLE),
        ("DATA_LOSS", Exit.NEGATIVE),
        ("UNIMPLEMENTED", Exit.REFUSED),
    ],
)
def test_an_error_without_a_class_is_told_by_its_status(code, expected):
    assert exit_code(errors.ServerError(code=code)) is expected


def test_the_values_are_those_that_the_server_said():
    error = errors.SeqConflict(
        metadata={"expected_seq": "4", "retryable": "false", "error": "SEQ_CONFLICT"}, expected_seq=4
    )
    assert describe(error).details == {"expected_seq": "4"}


def test_the_values_are_the_errors_own_when_the_client_found_it():
    assert describe(errors.TooLarge(field="payload", size=9, limit=5)).details == {
        "field": "payload",
        "size": 9,
        "limit": 5,
    }


def test_notes_are_hints():
    error = CommandError("no")
    error.add_note("try this")
    assert describe(error).hints == ("try this",)
