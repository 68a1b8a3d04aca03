package io.logway.wire;

import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.net.URISyntaxException;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.TreeSet;
import java.util.jar.JarFile;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupCurrentMemberAssignmentKey;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupCurrentMemberAssignmentValue;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupMemberMetadataKey;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupMemberMetadataValue;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupMetadataKey;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupMetadataValue;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupPartitionMetadataKey;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupPartitionMetadataValue;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupRegularExpressionKey;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupRegularExpressionValue;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMemberKey;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMemberValue;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMetadataKey;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMetadataValue;
import org.apache.kafka.coordinator.group.generated.GroupMetadataKey;
import org.apache.kafka.coordinator.group.generated.GroupMetadataValue;
import org.apache.kafka.coordinator.group.generated.OffsetCommitKey;
import org.apache.kafka.coordinator.group.generated.OffsetCommitValue;
import org.apache.kafka.coordinator.group.generated.StreamsGroupCurrentMemberAssignmentKey;
import org.apache.kafka.coordinator.group.generated.StreamsGroupCurrentMemberAssignmentValue;
import org.apache.kafka.coordinator.group.generated.StreamsGroupMemberMetadataKey;
import org.apache.kafka.coordinator.group.generated.StreamsGroupMemberMetadataValue;
import org.apache.kafka.coordinator.group.generated.StreamsGroupMetadataKey;
import org.apache.kafka.coordinator.group.generated.StreamsGroupMetadataValue;
import org.apache.kafka.coordinator.group.generated.StreamsGroupTargetAssignmentMemberKey;
import org.apache.kafka.coordinator.group.generated.StreamsGroupTargetAssignmentMemberValue;
import org.apache.kafka.coordinator.group.generated.StreamsGroupTargetAssignmentMetadataKey;
import org.apache.kafka.coordinator.group.generated.StreamsGroupTargetAssignmentMetadataValue;
import org.apache.kafka.coordinator.group.generated.StreamsGroupTopologyKey;
import org.apache.kafka.coordinator.group.generated.StreamsGroupTopologyValue;
import org.apache.kafka.coordinator.transaction.generated.TransactionLogKey;
import org.apache.kafka.coordinator.transaction.generated.TransactionLogValue;

/** One of Kafka's generated message classes. */
record MessageClass(String name, Class<? extends Message> type, short lowest, short highest) {

    private static final String DEFINITIONS = "common/message/";

    /** The group coordinator's records for which there is code. */
    private static final List<Class<? extends Message>> GROUP_RECORDS =
        List.of(
            ConsumerGroupCurrentMemberAssignmentKey.class,
            ConsumerGroupCurrentMemberAssignmentValue.class,
            ConsumerGroupMemberMetadataKey.class,
            ConsumerGroupMemberMetadataValue.class,
            ConsumerGroupMetadataKey.class,
            ConsumerGroupMetadataValue.class,
            ConsumerGroupPartitionMetadataKey.class,
            ConsumerGroupPartitionMetadataValue.class,
            ConsumerGroupRegularExpressionKey.class,
            ConsumerGroupRegularExpressionValue.class,
            ConsumerGroupTargetAssignmentMemberKey.class,
            ConsumerGroupTargetAssignmentMemberValue.class,
            ConsumerGroupTargetAssignmentMetadataKey.class,
            ConsumerGroupTargetAssignmentMetadataValue.class,
            GroupMetadataKey.class, GroupMetadataValue.class, OffsetCommitKey.class, OffsetCommitValue.class,
            StreamsGroupCurrentMemberAssignmentKey.class,
            StreamsGroupCurrentMemberAssignmentValue.class,
            StreamsGroupMemberMetadataKey.class,
            StreamsGroupMemberMetadataValue.class,
            StreamsGroupMetadataKey.class,
            StreamsGroupMetadataValue.class,
            StreamsGroupTargetAssignmentMemberKey.class,
            StreamsGroupTargetAssignmentMemberValue.class,
            StreamsGroupTargetAssignmentMetadataKey.class,
            StreamsGroupTargetAssignmentMetadataValue.class,
            StreamsGroupTopologyKey.class,
            StreamsGroupTopologyValue.class);

    /** The transaction coordinator's. */
    private static final List<Class<? extends Message>> TRANSACTION_RECORDS =
        List.of(TransactionLogKey.class, TransactionLogValue.class);

    /** The classes of all messages that have a version: the client's by name, then those of the coordinators. */
    static List<MessageClass> all() throws IOException, URISyntaxException, ReflectiveOperationException {
        Path jar = Path.of(Message.class.getProtectionDomain().getCodeSource().getLocation().toURI());
        var names = new TreeSet<String>();
        try (var file = new JarFile(jar.toFile())) {
            file.stream()
                .map(entry -> entry.getName())
                .filter(name -> name.startsWith(DEFINITIONS) && name.endsWith(".json"))
                .forEach(name -> names.add(name.substring(DEFINITIONS.length(), name.length() - ".json".length())));
        }
        var classes = new ArrayList<MessageClass>();
        for (String name : names) {
            // Definitions without a valid version have no class.
            Class<? extends Message> type = find(name).orElse(null);
            if (type != null) {
                classes.add(of(name, type));
            }
        }
        for (Class<? extends Message> type : GROUP_RECORDS) {
            classes.add(of(type.getSimpleName(), type));
        }
        for (Class<? extends Message> type : TRANSACTION_RECORDS) {
            classes.add(of(type.getSimpleName(), type));
        }
        return classes;
    }

    private static MessageClass of(String name, Class<? extends Message> type) throws ReflectiveOperationException {
        short lowest = type.getField("LOWEST_SUPPORTED_VERSION").getShort(null);
        short highest = type.getField("HIGHEST_SUPPORTED_VERSION").getShort(null);
        return new MessageClass(name, type, lowest, highest);
    }

    /** Requests, responses and headers have a class of their name and "Data"; the others one of just their name. */
    private static Optional<Class<? extends Message>> find(String name) {
        for (String suffix : List.of("Data", "")) {
            try {
                Class<?> type = Class.forName("org.apache.kafka.common.message." + name + suffix);
                return Optional.of(type.asSubclass(Message.class));
            } catch (ClassNotFoundException absent) {
                continue;
            }
        }
        return Optional.empty();
    }

    /** The layout of a version. */
    Schema schema(short version) throws ReflectiveOperationException {
        return ((Schema[]) type.getField("SCHEMAS").get(null))[version];
    }

    /** The bytes of a message whose fields have their defaults. */
    byte[] writeDefault(short version) throws ReflectiveOperationException {
        return write(newMessage(), version);
    }

    /** Reads a message, all of the bytes, and writes it again. */
    byte[] readAndWrite(byte[] bytes, short version) throws ReflectiveOperationException {
        Message message = newMessage();
        var readable = new ByteBufferAccessor(ByteBuffer.wrap(bytes));
        message.read(readable, version);
        if (readable.remaining() > 0) {
            throw new IllegalArgumentException(readable.remaining() + " bytes left over");
        }
        return write(message, version);
    }

    private Message newMessage() throws ReflectiveOperationException {
        try {
            return type.getConstructor().newInstance();
        } catch (InvocationTargetException e) {
            throw new ReflectiveOperationException("creating " + name, e);
        }
    }

    private static byte[] write(Message message, short version) {
        ByteBuffer buffer = MessageUtil.toByteBufferAccessor(message, version).buffer();
        var bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return bytes;
    }
}
