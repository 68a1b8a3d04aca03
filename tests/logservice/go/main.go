// Appends numbers and reads them again, over breaks of its own and of the brokers.
//
//	client HOST:PORT[,HOST:PORT...] LOG COUNT
//	client read HOST:PORT LOG records|batches|key|expression [FILTER]
//	client logspec HOST:PORT
//
// The first prints "half" when half is acknowledged; its last append waits for a line on stdin. At the end it prints "done".
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"logway.io/logservice/logpb"
)

const (
	perAppend = 20
	window    = 500
	wait      = time.Minute
	retry     = 100 * time.Millisecond
)

var plain = grpc.WithTransportCredentials(insecure.NewCredentials())

// What one does over all connections.
type client struct {
	addresses   []string
	log         string
	count       uint64
	last        uint64
	connections int
	session     []byte
	// The last append that was acknowledged, and how far the session is then.
	acked, position uint64
	hasGone         bool
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	switch os.Args[1] {
	case "read":
		readOnce(ctx, os.Args[2], os.Args[3], os.Args[4], strings.Join(os.Args[5:], " "))
	case "logspec":
		akutan(ctx, os.Args[2])
	default:
		count, err := strconv.ParseUint(os.Args[3], 10, 63)
		check(err)
		c := client{addresses: strings.Split(os.Args[1], ","), log: os.Args[2], count: count, last: count / perAppend}
		c.appendAll()
		c.readAll()
		c.checkEnd()
		fmt.Println("done")
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// What comes in time; else the program ends.
func within[T any](receive func() (T, error)) (T, error) {
	late := time.AfterFunc(wait, func() { log.Fatalf("no reply in %v", wait) })
	defer late.Stop()
	return receive()
}

// Connects to the next of the brokers, and passes over what another try may help against.
func (c *client) connected(do func(context.Context, logpb.LogServiceClient) error) {
	conn, err := grpc.NewClient(c.addresses[c.connections%len(c.addresses)], plain)
	check(err)
	defer conn.Close()
	c.connections++
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	err = do(ctx, logpb.NewLogServiceClient(conn))
	switch status.Code(err) {
	// A stream that has ended is Unknown.
	case codes.OK, codes.Unavailable, codes.Canceled, codes.Unknown, codes.Internal:
	default:
		log.Fatal(err)
	}
}

// Breaks the stream off at each third of the way.
func (c *client) appendAll() {
	for part := uint64(1); c.acked < c.last; {
		breakAt := c.last
		if part < 3 {
			breakAt = part * c.last / 3
		}
		c.connected(func(ctx context.Context, service logpb.LogServiceClient) error {
			return c.append(ctx, service, breakAt)
		})
		if c.acked >= breakAt {
			part++
		} else {
			time.Sleep(retry)
		}
	}
}

// Appends until so many are acknowledged or the stream breaks.
func (c *client) append(ctx context.Context, service logpb.LogServiceClient, breakAt uint64) error {
	stream, err := within(func() (logpb.LogService_AppendClient, error) { return service.Append(ctx) })
	if err != nil {
		return err
	}
	open := &logpb.OpenAppend{Session: c.session}
	if c.position > 0 {
		open.Positions = []*logpb.SessionPosition{{Log: c.log, Partition: 0, Records: c.position}}
	}
	next := &logpb.AppendRequest{Request: &logpb.AppendRequest_Open{Open: open}}
	// Why a send failed is what the next receive tells.
	_ = stream.Send(next)
	for sent := c.acked; c.acked < breakAt; {
		reply, err := within(stream.Recv)
		if err != nil {
			return err
		}
		c.take(reply)
		for ; sent < c.last && sent < c.acked+window; sent++ {
			if sent+1 == c.last && !c.mayFinish() {
				break
			}
			_ = stream.Send(c.nth(sent + 1))
		}
	}
	return nil
}

func (c *client) take(reply *logpb.AppendReply) {
	if opened := reply.GetOpened(); opened != nil {
		c.session = opened.Session
		return
	}
	appended := reply.GetAppended()
	if appended.GetSequence() != c.acked+1 {
		log.Fatalf("%v where %d comes next", reply, c.acked+1)
	}
	c.acked, c.position = appended.Sequence, appended.SessionRecords
	if c.acked == c.last/2 {
		fmt.Println("half")
	}
}

// Whether the last append may be sent: when all others are acknowledged, and the line has come.
func (c *client) mayFinish() bool {
	if !c.hasGone && c.acked+1 == c.last {
		_, err := os.Stdin.Read(make([]byte, 1))
		check(err)
		c.hasGone = true
	}
	return c.hasGone
}

// The n-th append, with the records from (n-1)*perAppend on.
func (c *client) nth(sequence uint64) *logpb.AppendRequest {
	records := make([]*logpb.NewRecord, perAppend)
	for i := range records {
		number := (sequence-1)*perAppend + uint64(i)
		records[i] = &logpb.NewRecord{Value: strconv.AppendUint(nil, number, 10)}
	}
	return &logpb.AppendRequest{Request: &logpb.AppendRequest_Append{
		Append: &logpb.Append{Sequence: sequence, Log: c.log, To: &logpb.Append_Partition{Partition: 0}, Records: records},
	}}
}

// Reads a third at a time, each on a connection of its own, and goes on where a broken one was.
func (c *client) readAll() {
	for next := uint64(0); next < c.count; time.Sleep(retry) {
		c.connected(func(ctx context.Context, service logpb.LogServiceClient) error {
			from := &logpb.ReadRequest_Offset{Offset: int64(next)}
			request := &logpb.ReadRequest{Log: c.log, From: from, RecordsMax: c.count / 3}
			stream, err := within(func() (logpb.LogService_ReadClient, error) { return service.Read(ctx, request) })
			for err == nil && next < c.count {
				var reply *logpb.ReadReply
				reply, err = within(stream.Recv)
				for _, record := range reply.GetRecords() {
					if record.Offset != int64(next) || string(record.Value) != strconv.FormatUint(next, 10) {
						log.Fatalf("%v where %d comes next", record, next)
					}
					next++
				}
			}
			return err
		})
	}
}

func (c *client) checkEnd() {
	var end *int64
	for ends := time.Now().Add(wait); end == nil; time.Sleep(retry) {
		if time.Now().After(ends) {
			log.Fatal("nobody tells where the log ends")
		}
		c.connected(func(ctx context.Context, service logpb.LogServiceClient) error {
			info, err := within(func() (*logpb.InfoReply, error) {
				return service.Info(ctx, &logpb.InfoRequest{Log: c.log})
			})
			if err == nil {
				end = info.Partitions[0].EndOffset
			}
			return err
		})
	}
	if *end != int64(c.count) {
		log.Fatalf("the log ends at %d and not at %d", *end, c.count)
	}
}
