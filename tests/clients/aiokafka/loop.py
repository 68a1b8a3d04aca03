"""One event loop in a thread of its own, in which all of aiokafka runs; and its exceptions as the broker's refusals."""

import asyncio
import threading

from aiokafka.errors import BrokerResponseError, CommitFailedError, KafkaError, ProducerFenced

from client_cases.model import Code, Refused

LOOP = asyncio.new_event_loop()
threading.Thread(target=LOOP.run_forever, daemon=True).start()
CALL_DEADLINE_S = 60


def run(coroutine):
    """What the coroutine returns, awaited in the loop."""
    try:
        return asyncio.run_coroutine_threadsafe(coroutine, LOOP).result(CALL_DEADLINE_S)
    except ProducerFenced as error:
        # Its own word, for either of the broker's.
        raise Refused(Code.PRODUCER_FENCED, str(error)) from error
    except KafkaError as error:
        # A failed commit has the broker's answer as its cause.
        cause = error.__cause__ if isinstance(error, CommitFailedError) else error
        if not isinstance(cause, BrokerResponseError):
            raise
        raise Refused(cause.errno, str(error)) from error
