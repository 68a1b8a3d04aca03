package main

import (
	"context"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"logway.io/logservice/logpb"
)

// Reads a log to its end, as records or as batches, all of it or what an expression or one key passes; prints how many records and bytes of
// values or batches came, and how many bytes of messages.
func readOnce(ctx context.Context, address, name, what, filter string) {
	conn, err := grpc.NewClient(address, plain)
	check(err)
	defer conn.Close()
	request := &logpb.ReadRequest{Log: name, UntilEnd: true}
	switch what {
	case "batches":
		request.Format = logpb.Format_BATCHES
	case "key":
		request.Filter = &logpb.Filter{Keys: [][]byte{[]byte(filter)}}
	case "expression":
		request.Filter = &logpb.Filter{Expression: filter}
	}
	stream, err := logpb.NewLogServiceClient(conn).Read(ctx, request)
	check(err)
	var records, valueBytes, messageBytes int
	for {
		reply, err := stream.Recv()
		if err == io.EOF {
			break
		}
		check(err)
		messageBytes += proto.Size(reply)
		valueBytes += len(reply.Batches)
		records += len(reply.Records)
		for _, record := range reply.Records {
			valueBytes += len(record.Value)
		}
	}
	fmt.Println(records, valueBytes, messageBytes)
}
