package io.logway.wire;

import java.nio.ByteBuffer;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Random;
import java.util.TreeMap;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.types.Field;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.Struct;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;
import org.apache.kafka.common.record.internal.MemoryRecords;

/** Makes random values for the client's schemas: those of one version of one message. */
final class RandomValues {

    /** Characters of one to four bytes. */
    private static final String[] ALPHABET = {"a", "Z", "0", "-", ".", "\0", "é", "ß", "€", "木", "\uffff", "🪵"};

    private final Random random;

    RandomValues(long seed) {
        random = new Random(seed);
    }

    /** The bytes of a random message. */
    byte[] message(Schema schema) {
        Struct struct = struct(schema);
        ByteBuffer buffer = ByteBuffer.allocate(schema.sizeOf(struct));
        schema.write(buffer, struct);
        return buffer.array();
    }

    private Struct struct(Schema schema) {
        var struct = new Struct(schema);
        for (var field : schema.fields()) {
            struct.set(field, value(field.def.type));
        }
        return struct;
    }

    private Object value(Type type) {
        if (type.isNullable() && random.nextInt(4) == 0) {
            return null;
        }
        if (type instanceof Schema schema) {
            return struct(schema);
        }
        if (type instanceof TaggedFields fields) {
            return tagged(fields.fields());
        }
        if (type.isArray()) {
            return array(type.arrayElementType().orElseThrow());
        }
        return scalar(type);
    }

    private Object[] array(Type element) {
        boolean isLarge = element instanceof Schema;
        var values = new Object[isLarge ? random.nextInt(4) : length()];
        for (int i = 0; i < values.length; i++) {
            values[i] = value(element);
        }
        return values;
    }

    private NavigableMap<Integer, Object> tagged(Map<Integer, Field> known) {
        var values = new TreeMap<Integer, Object>();
        known.forEach((tag, field) -> {
            if (random.nextBoolean()) {
                values.put(tag, value(field.type));
            }
        });
        int unknown = random.nextInt(4) == 0 ? 1 + random.nextInt(3) : 0;
        for (int i = 0; i < unknown; i++) {
            // Beyond the tags of other versions, which this version would refuse.
            int tag = known.size() + 10 + random.nextInt(300);
            values.put(tag, new RawTaggedField(tag, bytes()));
        }
        return values;
    }

    private Object scalar(Type type) {
        String name = type.toString();
        return switch (name.replace("COMPACT_", "").replace("NULLABLE_", "")) {
            case "BOOLEAN" -> random.nextBoolean();
            case "INT8" -> (byte) random.nextInt();
            case "INT16" -> (short) random.nextInt();
            case "UINT16" -> random.nextInt(0x10000);
            case "INT32" -> random.nextInt();
            case "UINT32" -> random.nextLong(0x1_0000_0000L);
            case "INT64" -> random.nextLong();
            case "FLOAT64" -> random.nextGaussian();
            case "UUID" -> new Uuid(random.nextLong(), random.nextLong());
            case "STRING" -> text();
            case "BYTES" -> ByteBuffer.wrap(bytes());
            case "RECORDS" -> MemoryRecords.readableRecords(ByteBuffer.wrap(bytes()));
            default -> throw new IllegalArgumentException("no random values of type " + name);
        };
    }

    private String text() {
        var text = new StringBuilder();
        for (int i = length(); i > 0; i--) {
            text.append(ALPHABET[random.nextInt(ALPHABET.length)]);
        }
        return text.toString();
    }

    private byte[] bytes() {
        var bytes = new byte[length()];
        random.nextBytes(bytes);
        return bytes;
    }

    /** Mostly small; sometimes one that a flexible version writes in two bytes. */
    private int length() {
        return random.nextInt(32) == 0 ? 120 + random.nextInt(40) : random.nextInt(6);
    }
}
