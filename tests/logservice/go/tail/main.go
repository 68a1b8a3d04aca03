// Prints a log as it grows: tail HOST:PORT LOG.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"logway.io/logservice/logpb"
)

func main() {
	conn, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	request := &logpb.ReadRequest{Log: os.Args[2], From: &logpb.ReadRequest_End{End: true}}
	stream, err := logpb.NewLogServiceClient(conn).Read(context.Background(), request)
	for err == nil {
		var reply *logpb.ReadReply
		reply, err = stream.Recv()
		for _, record := range reply.GetRecords() {
			fmt.Printf("%d %s\n", record.Offset, record.Value)
		}
	}
	log.Fatal(err)
}
