"""write.py ENDPOINT,… STREAM BATCH PAUSE_MS: puts numbers into a stream until its input ends, with the SDK's own retries.

tests/cluster/kinesis_writers.py describes it.
"""

import sys
import threading
import time

import boto3
from botocore.exceptions import BotoCoreError, ClientError


def main(endpoints: str, stream: str, batch: str, pause_ms: str):
    clients = [boto3.client("kinesis", endpoint_url=it, region_name="us-east-1") for it in endpoints.split(",")]
    ended = threading.Event()

    def wait_for_the_end():
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    number, node = 0, 0
    while not ended.is_set():
        texts = [str(number + it) for it in range(int(batch))]
        entries = [{"Data": text.encode(), "PartitionKey": text} for text in texts]
        try:
            answer = clients[node % len(clients)].put_records(StreamName=stream, Records=entries)
        except (BotoCoreError, ClientError) as error:
            print(str(error).replace("\n", " "), file=sys.stderr, flush=True)
            node += 1
        else:
            node += answer["FailedRecordCount"] > 0
            pairs = zip(texts, answer["Records"], strict=True)
            lines = [f"{it['ShardId']} {it['SequenceNumber']} {text}\n" for text, it in pairs if "ErrorCode" not in it]
            print("".join(lines), end="", flush=True)
            time.sleep(int(pause_ms) / 1_000)
        number += int(batch)


if __name__ == "__main__":
    main(*sys.argv[1:])
