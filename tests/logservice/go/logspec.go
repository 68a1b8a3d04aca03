package main

import (
	"context"
	"fmt"
	"log"

	"google.golang.org/grpc"

	"logway.io/logservice/specpb"
)

// As Akutan's client does: probes, appends, reads, discards. Prints "done".
func akutan(ctx context.Context, address string) {
	conn, err := grpc.NewClient(address, plain)
	check(err)
	defer conn.Close()
	service := specpb.NewLogClient(conn)
	stream, err := service.Append(ctx)
	check(err)
	proposals := [][][]byte{nil, {[]byte("a"), []byte("b")}, {[]byte("c")}}
	var indexes []uint64
	for i, batch := range proposals {
		check(stream.Send(&specpb.AppendRequest{Sequence: uint64(i + 1), Proposals: batch}))
		reply, err := stream.Recv()
		check(err)
		if reply.GetOk().GetSequence() != uint64(i+1) {
			log.Fatalf("%v", reply)
		}
		indexes = append(indexes, reply.GetOk().Indexes...)
	}
	read, err := service.Read(ctx, &specpb.ReadRequest{NextIndex: indexes[0]})
	check(err)
	for _, index := range indexes {
		reply, err := read.Recv()
		check(err)
		for _, entry := range reply.GetOk().Entries {
			if entry.Index != index {
				log.Fatalf("index %d where %d comes next", entry.Index, index)
			}
			index++
		}
		if index > indexes[len(indexes)-1] {
			break
		}
	}
	_, err = service.Discard(ctx, &specpb.DiscardRequest{FirstIndex: indexes[1]})
	check(err)
	reply, err := service.Info(ctx, &specpb.InfoRequest{})
	check(err)
	if ok := reply.GetOk(); ok.FirstIndex != indexes[1] || ok.LastIndex != indexes[2] {
		log.Fatalf("%v", reply)
	}
	fmt.Println("done")
}
