package io.logway.clients;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.Socket;
import java.nio.ByteBuffer;

import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/** Sends what a consumer never would, in the library's own messages. For versions before the flexible ones only. */
final class RawConnection implements AutoCloseable {
    private static final short HEADER_VERSION = 1;
    private static final int CORRELATION_ID = 1;

    private final Socket socket;

    RawConnection(String address) throws IOException {
        int colon = address.lastIndexOf(':');
        socket = new Socket(address.substring(0, colon), Integer.parseInt(address.substring(colon + 1)));
        socket.setSoTimeout((int) Cluster.DEADLINE.toMillis());
    }

    @Override
    public void close() throws IOException {
        socket.close();
    }

    /** Sends one request and returns the body of its answer. */
    ByteBufferAccessor ask(ApiKeys api, short version, Message request) throws IOException {
        RequestHeaderData header = new RequestHeaderData()
            .setRequestApiKey(api.id).setRequestApiVersion(version).setCorrelationId(CORRELATION_ID).setClientId("raw");
        ByteBuffer headerBytes = bytes(header, HEADER_VERSION);
        ByteBuffer body = bytes(request, version);
        DataOutputStream out = new DataOutputStream(socket.getOutputStream());
        out.writeInt(headerBytes.remaining() + body.remaining());
        out.write(headerBytes.array());
        out.write(body.array());
        DataInputStream in = new DataInputStream(socket.getInputStream());
        byte[] answer = in.readNBytes(in.readInt());
        ByteBuffer buffer = ByteBuffer.wrap(answer);
        Report.expect(CORRELATION_ID, buffer.getInt());
        return new ByteBufferAccessor(buffer);
    }

    private static ByteBuffer bytes(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        buffer.flip();
        return buffer;
    }
}
