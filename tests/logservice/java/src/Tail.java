import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import logway.log.v1.Log.ReadRequest;
import logway.log.v1.LogServiceGrpc;

/** Prints a log as it grows: {@code Tail HOST:PORT LOG}. */
public class Tail {
    public static void main(String[] args) {
        var channel = Grpc.newChannelBuilder(args[0], InsecureChannelCredentials.create()).build();
        var request = ReadRequest.newBuilder().setLog(args[1]).setEnd(true).build();
        LogServiceGrpc.newBlockingStub(channel).read(request).forEachRemaining(reply -> reply.getRecordsList().forEach(
            record -> System.out.println(record.getOffset() + " " + record.getValue().toStringUtf8())));
    }
}
