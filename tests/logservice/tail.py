"""Prints a log as it grows: `tail.py HOST:PORT LOG`."""

import sys

import grpc
from logway.log.v1 import log_pb2, log_pb2_grpc

service = log_pb2_grpc.LogServiceStub(grpc.insecure_channel(sys.argv[1]))
for reply in service.Read(log_pb2.ReadRequest(log=sys.argv[2], end=True)):
    for record in reply.records:
        print(record.offset, record.value.decode(errors="replace"), flush=True)
