"""An appender and a reader that survive whatever happens to their connection, on top of the generated stubs."""

import itertools
import os
import threading
import time
from collections import OrderedDict

import grpc
from logway.log.v1 import log_pb2, log_pb2_grpc

# How many the cases that reconnect append and read.
RECORDS = int(os.environ.get("RECORDS", "12000"))
DEADLINE_S = 120 + RECORDS // 1_000
RETRY_S = 0.05
WINDOW = 1_000
# What another try may help against.
PASSING = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL}


def connect(address: str, credentials=None) -> grpc.Channel:
    options = [("grpc.max_receive_message_length", 32 << 20), ("grpc.max_reconnect_backoff_ms", 200),
               ("grpc.initial_reconnect_backoff_ms", 50), ("grpc.use_local_subchannel_pool", 1)]
    if credentials:
        return grpc.secure_channel(address, credentials, options)
    return grpc.insecure_channel(address, options)


def leader_in_sync(nodes, log: str) -> int:
    """The number of the node that leads the first partition of a log, once three replicas are in sync."""
    ends = time.monotonic() + DEADLINE_S
    while time.monotonic() < ends:
        for node in nodes:
            if not node.is_running():
                continue
            try:
                with connect(node.log_service) as channel:
                    info = log_pb2_grpc.LogServiceStub(channel).Info(
                        log_pb2.InfoRequest(log=log), timeout=5, wait_for_ready=True)
                partition = info.partitions[0]
                if partition.HasField("leader") and len(partition.in_sync) == 3:
                    return partition.leader
            except grpc.RpcError:
                pass
        time.sleep(0.1)
    raise AssertionError("nobody leads, or too few are in sync")


class Appender:
    """Appends in order and exactly once: what was not acknowledged when a stream breaks is sent again on the next one.

    `address` says where, each time that it connects.
    """

    def __init__(self, address, log: str, acknowledgement=log_pb2.COMMITTED):
        self.address, self.log, self.acknowledgement = address, log, acknowledgement
        self.session, self.positions = b"", {}
        self.unacked: OrderedDict[int, log_pb2.Append] = OrderedDict()
        self.acked: list[log_pb2.Appended] = []
        self.failed: list[log_pb2.AppendFailed] = []
        self.sequences, self.streams = itertools.count(1), 0
        self.changed = threading.Condition()
        self.is_closed, self.error, self.call = False, None, None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def append(self, values: list[bytes], partition: int | None = None, key: bytes | None = None):
        with self.changed:
            self._wait(lambda: len(self.unacked) < WINDOW)
            records = [log_pb2.NewRecord(value=value, key=key) for value in values]
            append = log_pb2.Append(sequence=next(self.sequences), log=self.log, partition=partition, records=records)
            self.unacked[append.sequence] = append
            self.changed.notify_all()

    def finish(self):
        """Waits until all is acknowledged."""
        with self.changed:
            self._wait(lambda: not self.unacked)
            self.is_closed = True
            self.changed.notify_all()
        self.thread.join(DEADLINE_S)

    def wait_for_acks(self, more: int):
        """Waits until so many more appends are acknowledged."""
        with self.changed:
            goal = len(self.acked) + more
            self._wait(lambda: len(self.acked) >= goal)

    def break_off(self):
        """As a network does."""
        if self.call:
            self.call.cancel()

    def _wait(self, is_so):
        is_in_time = self.changed.wait_for(lambda: self.error or is_so(), DEADLINE_S)
        if self.error:
            raise self.error
        if not is_in_time:
            raise AssertionError(f"no acknowledgement in {DEADLINE_S} s; {len(self.unacked)} appends wait")

    def _requests(self, number: int):
        position = log_pb2.SessionPosition
        positions = [position(log=self.log, partition=it, records=count) for it, count in self.positions.items()]
        yield log_pb2.AppendRequest(open=log_pb2.OpenAppend(
            session=self.session, positions=positions, acknowledgement=self.acknowledgement))
        sent = 0
        while True:
            with self.changed:
                def is_over():
                    return self.is_closed or self.streams != number
                self.changed.wait_for(lambda: is_over() or next(reversed(self.unacked), 0) > sent)
                if is_over():
                    return
                waiting = [append for sequence, append in self.unacked.items() if sequence > sent]
            for append in waiting:
                sent = append.sequence
                yield log_pb2.AppendRequest(append=append)

    def _run(self):
        while True:
            with self.changed:
                if self.is_closed:
                    return
                self.streams += 1
            try:
                with connect(self.address()) as channel:
                    self.call = log_pb2_grpc.LogServiceStub(channel).Append(self._requests(self.streams))
                    for reply in self.call:
                        self._take(reply)
            except grpc.RpcError as error:
                if error.code() not in PASSING:
                    with self.changed:
                        self.error = error
                        self.changed.notify_all()
                    return
                time.sleep(RETRY_S)

    def _take(self, reply):
        with self.changed:
            match reply.WhichOneof("reply"):
                case "opened":
                    self.session = reply.opened.session
                case "appended":
                    appended = reply.appended
                    del self.unacked[appended.sequence]
                    self.positions[appended.partition] = appended.session_records
                    self.acked.append(appended)
                case "failed":
                    del self.unacked[reply.failed.sequence]
                    self.failed.append(reply.failed)
            self.changed.notify_all()


def read(address, log: str, partition: int = 0, count: int | None = None, break_every: int = 0, **request):
    """Yields records from the start: `count` of them, or those that there are. Goes on where it was after a break, of which
    there is one every `break_every` records."""
    next_offset, yielded, deadline = 0, 0, time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        try:
            with connect(address()) as channel:
                call = log_pb2_grpc.LogServiceStub(channel).Read(log_pb2.ReadRequest(
                    log=log, partition=partition, offset=next_offset, until_end=count is None, **request))
                since_break = 0
                for reply in call:
                    for record in reply.records:
                        yield record
                        yielded, since_break = yielded + 1, since_break + 1
                        next_offset = record.offset + 1
                        if yielded == count:
                            return
                        if break_every and since_break >= break_every:
                            break
                    else:
                        next_offset = reply.next_offset
                        continue
                    call.cancel()
                    break
                else:
                    if count is None:
                        return
        except grpc.RpcError as error:
            if error.code() not in PASSING:
                raise
            time.sleep(RETRY_S)
    raise AssertionError(f"{yielded} records in {DEADLINE_S} s")
