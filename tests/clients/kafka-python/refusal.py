"""kafka-python's exceptions as refusals of the broker."""

from contextlib import contextmanager

from kafka.errors import BrokerResponseError, CommitFailedError, KafkaError

from client_cases.model import Refused


@contextmanager
def refusals():
    try:
        yield
    except KafkaError as error:
        # A failed commit wraps the broker's answer, where there was one.
        cause = error.args[0] if isinstance(error, CommitFailedError) else error
        if not isinstance(cause, BrokerResponseError):
            raise
        raise Refused(cause.errno, str(error)) from error


def raise_refusal(kind: type[BrokerResponseError] | None):
    """For the calls that return an error's class instead of raising it; None and errno 0 mean success."""
    if kind is not None and kind.errno != 0:
        raise Refused(kind.errno, kind.__name__)
