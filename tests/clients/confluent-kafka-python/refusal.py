"""librdkafka's errors as refusals of the broker."""

from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException

from client_cases.model import Code, Refused

# Its own codes are negative; these pass on what the broker said.
PASSED_ON = {
    KafkaError._AUTO_OFFSET_RESET: Code.OFFSET_OUT_OF_RANGE,
    KafkaError._FENCED: Code.PRODUCER_FENCED,
}


@contextmanager
def refusals(but: set[int] = frozenset()):
    """Raises what went wrong as a refusal, unless its code is one of `but`."""
    try:
        yield
    except KafkaException as exception:
        error = exception.args[0]
        if error.code() not in but:
            raise as_refusal(error) from exception


def as_refusal(error: KafkaError) -> Refused:
    return Refused(PASSED_ON.get(error.code(), error.code()), error.str())
