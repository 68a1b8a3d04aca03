import com.google.protobuf.ByteString;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Status;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import logway.log.v1.Log.Append;
import logway.log.v1.Log.AppendReply;
import logway.log.v1.Log.AppendRequest;
import logway.log.v1.Log.InfoRequest;
import logway.log.v1.Log.NewRecord;
import logway.log.v1.Log.OpenAppend;
import logway.log.v1.Log.ReadReply;
import logway.log.v1.Log.ReadRequest;
import logway.log.v1.Log.SessionPosition;
import logway.log.v1.LogServiceGrpc;

/**
 * Appends numbers and reads them again, over breaks of its own and of the brokers.
 *
 * <p>{@code Client HOST:PORT[,HOST:PORT...] LOG COUNT}. When half is acknowledged it prints "half"; the last append waits for a
 * line on stdin. At the end it prints "done".
 */
public class Client {
    private static final int PER_APPEND = 20;
    private static final int WINDOW = 500;
    private static final long WAIT_S = 60;
    private static final long RETRY_MS = 100;

    private final String[] addresses;
    private final String log;
    private final int count;
    private final long last;
    private int connections;
    private ByteString session = ByteString.EMPTY;
    private long acked;
    private long position;
    private boolean hasGone;

    private Client(String addresses, String log, int count) {
        this.addresses = addresses.split(",");
        this.log = log;
        this.count = count;
        this.last = count / PER_APPEND;
    }

    public static void main(String[] args) throws Exception {
        Client client = new Client(args[0], args[1], Integer.parseInt(args[2]));
        client.appendAll();
        client.readAll();
        System.out.println("done");
        // Threads of broken connections are not waited for.
        System.exit(0);
    }

    /** A stream that has ended, with its status. */
    private record Ended(Status status) {}

    /** Replies as they come, and the end of the stream. */
    private static <T> StreamObserver<T> into(BlockingQueue<Object> replies) {
        return new StreamObserver<>() {
            @Override
            public void onNext(T reply) {
                replies.add(reply);
            }

            @Override
            public void onError(Throwable error) {
                replies.add(new Ended(Status.fromThrowable(error)));
            }

            @Override
            public void onCompleted() {
                replies.add(new Ended(Status.OK));
            }
        };
    }

    private static Object next(BlockingQueue<Object> replies) throws InterruptedException {
        Object reply = replies.poll(WAIT_S, TimeUnit.SECONDS);
        if (reply == null) {
            throw new IllegalStateException("no reply in " + WAIT_S + " s");
        }
        return reply;
    }

    private static boolean canHelpToTryAgain(Ended ended) {
        return switch (ended.status.getCode()) {
            case UNAVAILABLE, CANCELLED, UNKNOWN, INTERNAL -> true;
            default -> false;
        };
    }

    /** The next of the brokers. */
    private ManagedChannel connect() {
        String address = addresses[connections++ % addresses.length];
        return Grpc.newChannelBuilder(address, InsecureChannelCredentials.create()).build();
    }

    /** Breaks the stream off at each third of the way. */
    private void appendAll() throws Exception {
        for (int part = 1; acked < last; ) {
            long breakAt = part < 3 ? part * last / 3 : last;
            ManagedChannel channel = connect();
            try {
                append(channel, breakAt);
            } finally {
                channel.shutdownNow();
            }
            if (acked >= breakAt) {
                part++;
            } else {
                Thread.sleep(RETRY_MS);
            }
        }
    }

    /** Appends until so many are acknowledged or the stream breaks. */
    private void append(ManagedChannel channel, long breakAt) throws Exception {
        BlockingQueue<Object> replies = new LinkedBlockingQueue<>();
        StreamObserver<AppendRequest> requests = LogServiceGrpc.newStub(channel).append(into(replies));
        OpenAppend.Builder open = OpenAppend.newBuilder().setSession(session);
        if (position > 0) {
            open.addPositions(SessionPosition.newBuilder().setLog(log).setRecords(position));
        }
        requests.onNext(AppendRequest.newBuilder().setOpen(open).build());
        long sent = acked;
        while (true) {
            Object reply = next(replies);
            if (reply instanceof Ended ended) {
                if (!canHelpToTryAgain(ended)) {
                    throw new IllegalStateException("append: " + ended.status);
                }
                return;
            }
            take((AppendReply) reply);
            if (acked >= breakAt) {
                return;
            }
            for (; sent < last && sent < acked + WINDOW; sent++) {
                if (sent + 1 == last && !mayFinish()) {
                    break;
                }
                requests.onNext(nth(sent + 1));
            }
        }
    }

    private void take(AppendReply reply) {
        if (reply.hasOpened()) {
            session = reply.getOpened().getSession();
            return;
        }
        if (!reply.hasAppended() || reply.getAppended().getSequence() != acked + 1) {
            throw new IllegalStateException(reply + " where " + (acked + 1) + " comes next");
        }
        acked++;
        position = reply.getAppended().getSessionRecords();
        if (acked == last / 2) {
            System.out.println("half");
        }
    }

    /** Whether the last append may be sent: when all others are acknowledged, and the line has come. */
    private boolean mayFinish() throws IOException {
        if (!hasGone && acked + 1 == last) {
            System.in.read();
            hasGone = true;
        }
        return hasGone;
    }

    /** The n-th append, with the records from (n-1) * PER_APPEND on. */
    private AppendRequest nth(long sequence) {
        Append.Builder append = Append.newBuilder().setSequence(sequence).setLog(log).setPartition(0);
        for (int i = 0; i < PER_APPEND; i++) {
            String value = Long.toString((sequence - 1) * PER_APPEND + i);
            append.addRecords(NewRecord.newBuilder().setValue(ByteString.copyFromUtf8(value)));
        }
        return AppendRequest.newBuilder().setAppend(append).build();
    }

    /** Reads a third at a time, each on a connection of its own, and goes on where a broken one was. */
    private void readAll() throws Exception {
        long next = 0;
        while (next < count) {
            ManagedChannel channel = connect();
            try {
                ReadRequest request = ReadRequest.newBuilder()
                    .setLog(log).setOffset(next).setRecordsMax(count / 3).build();
                BlockingQueue<Object> replies = new LinkedBlockingQueue<>();
                LogServiceGrpc.newStub(channel).read(request, into(replies));
                while (next < count) {
                    Object reply = next(replies);
                    if (reply instanceof Ended ended) {
                        if (!ended.status.isOk() && !canHelpToTryAgain(ended)) {
                            throw new IllegalStateException("read: " + ended.status);
                        }
                        Thread.sleep(RETRY_MS);
                        break;
                    }
                    for (var record : ((ReadReply) reply).getRecordsList()) {
                        String value = record.getValue().toStringUtf8();
                        if (record.getOffset() != next || !value.equals(Long.toString(next))) {
                            throw new IllegalStateException(record + " where " + next + " comes next");
                        }
                        next++;
                    }
                }
            } finally {
                channel.shutdownNow();
            }
        }
        checkEnd();
    }

    private void checkEnd() throws Exception {
        for (int tries = 0; tries < 600; tries++) {
            ManagedChannel channel = connect();
            try {
                var info = LogServiceGrpc.newBlockingStub(channel).withDeadlineAfter(WAIT_S, TimeUnit.SECONDS)
                    .info(InfoRequest.newBuilder().setLog(log).build());
                if (info.getPartitions(0).hasEndOffset()) {
                    long end = info.getPartitions(0).getEndOffset();
                    if (end != count) {
                        throw new IllegalStateException("the log ends at " + end + " and not at " + count);
                    }
                    return;
                }
            } catch (io.grpc.StatusRuntimeException error) {
                if (!canHelpToTryAgain(new Ended(error.getStatus()))) {
                    throw error;
                }
            } finally {
                channel.shutdownNow();
            }
            Thread.sleep(RETRY_MS);
        }
        throw new IllegalStateException("nobody tells where the log ends");
    }
}
