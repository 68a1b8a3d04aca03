// The log service by grpc-go: appends that are broken off and come back, a read that goes on, and Akutan's logspec.
//
//	main HOST:PORT LOGSPEC_HOST:PORT LOG COUNT
//	main read HOST:PORT LOG records|batches|key|expression [FILTER]
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"logway.io/logservice/logpb"
	"logway.io/logservice/specpb"
)

const (
	perAppend = 20
	window    = 500
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	plain := grpc.WithTransportCredentials(insecure.NewCredentials())
	if os.Args[1] == "read" {
		filter := ""
		if len(os.Args) > 5 {
			filter = os.Args[5]
		}
		readOnce(ctx, os.Args[2], os.Args[3], os.Args[4], filter, plain)
		return
	}
	count, err := strconv.Atoi(os.Args[4])
	check(err)
	conn, err := grpc.NewClient(os.Args[1], plain)
	check(err)
	defer conn.Close()
	service := logpb.NewLogServiceClient(conn)
	appendAll(ctx, service, os.Args[3], count)
	readAll(ctx, service, os.Args[3], count)

	spec, err := grpc.NewClient(os.Args[2], plain)
	check(err)
	defer spec.Close()
	akutan(ctx, specpb.NewLogClient(spec))
	fmt.Println("done")
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// The n-th append, with the records from (n-1)*perAppend on.
func nth(name string, sequence uint64) *logpb.AppendRequest {
	records := make([]*logpb.NewRecord, perAppend)
	for i := range records {
		number := (int(sequence)-1)*perAppend + i
		records[i] = &logpb.NewRecord{Value: []byte(strconv.Itoa(number))}
	}
	return &logpb.AppendRequest{Request: &logpb.AppendRequest_Append{
		Append: &logpb.Append{Sequence: sequence, Log: name, Records: records},
	}}
}

// Breaks the stream off at each third of the way, and goes on with the session.
func appendAll(ctx context.Context, service logpb.LogServiceClient, name string, count int) {
	var session []byte
	acked, position := uint64(0), uint64(0)
	last := uint64(count / perAppend)
	for try := uint64(1); acked < last; try++ {
		streamCtx, cancel := context.WithCancel(ctx)
		stream, err := service.Append(streamCtx)
		check(err)
		open := &logpb.OpenAppend{Session: session}
		if position > 0 {
			open.Positions = []*logpb.SessionPosition{{Log: name, Partition: 0, Records: position}}
		}
		check(stream.Send(&logpb.AppendRequest{Request: &logpb.AppendRequest_Open{Open: open}}))
		reply, err := stream.Recv()
		check(err)
		session = reply.GetOpened().Session
		breakAt := last
		if try < 3 {
			breakAt = try * last / 3
		}
		for sent := acked; acked < breakAt; {
			for ; sent < last && sent < acked+window; sent++ {
				check(stream.Send(nth(name, sent+1)))
			}
			reply, err := stream.Recv()
			check(err)
			appended := reply.GetAppended()
			if appended.GetSequence() != acked+1 {
				log.Fatalf("%v where %d comes next", reply, acked+1)
			}
			acked, position = appended.Sequence, appended.SessionRecords
		}
		cancel()
	}
}

func readAll(ctx context.Context, service logpb.LogServiceClient, name string, count int) {
	next := 0
	for next < count {
		streamCtx, cancel := context.WithCancel(ctx)
		request := &logpb.ReadRequest{
			Log: name, From: &logpb.ReadRequest_Offset{Offset: int64(next)}, UntilEnd: true, RecordsMax: uint64(count / 3),
		}
		stream, err := service.Read(streamCtx, request)
		check(err)
		for {
			reply, err := stream.Recv()
			if err == io.EOF {
				break
			}
			check(err)
			for _, record := range reply.Records {
				if record.Offset != int64(next) || string(record.Value) != strconv.Itoa(next) {
					log.Fatalf("%v where %d comes next", record, next)
				}
				next++
			}
		}
		cancel()
	}
	info, err := service.Info(ctx, &logpb.InfoRequest{Log: name})
	check(err)
	if end := info.Partitions[0].GetEndOffset(); end != int64(count) {
		log.Fatalf("the log ends at %d and not at %d", end, count)
	}
}

// As Akutan's client does: probes, appends, reads, discards.
func akutan(ctx context.Context, service specpb.LogClient) {
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
}
