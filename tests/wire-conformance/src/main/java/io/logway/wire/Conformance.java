package io.logway.wire;

import java.io.IOException;
import java.io.PrintWriter;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import java.util.stream.Collectors;

/**
 * Writes and verifies samples of messages, one a line: name, version, "default" or "random", bytes in hexadecimal.
 *
 * <p>{@code generate SEED SAMPLES FILE} writes one default message and SAMPLES random ones for each version of each
 * message. {@code verify FILE} reads each sample and checks that writing it again gives the same bytes.
 */
public final class Conformance {

    private Conformance() {}

    public static void main(String[] args) throws Exception {
        if (args.length == 4 && args[0].equals("generate")) {
            generate(Long.parseLong(args[1]), Integer.parseInt(args[2]), Path.of(args[3]));
        } else if (args.length == 2 && args[0].equals("verify")) {
            System.exit(verify(Path.of(args[1])) ? 0 : 1);
        } else {
            System.err.println("usage: generate SEED SAMPLES FILE | verify FILE");
            System.exit(2);
        }
    }

    private static void generate(long seed, int samples, Path file)
            throws IOException, URISyntaxException, ReflectiveOperationException {
        var random = new RandomValues(seed);
        try (var out = new PrintWriter(Files.newBufferedWriter(file))) {
            for (var message : MessageClass.all()) {
                for (short version = message.lowest(); version <= message.highest(); version++) {
                    print(out, message, version, "default", message.writeDefault(version));
                    for (int i = 0; i < samples; i++) {
                        byte[] bytes = random.message(message.schema(version));
                        // The message class leaves out tagged fields that happen to have their default.
                        print(out, message, version, "random", message.readAndWrite(bytes, version));
                    }
                }
            }
        }
    }

    private static void print(PrintWriter out, MessageClass message, short version, String kind, byte[] bytes) {
        out.println(message.name() + ' ' + version + ' ' + kind + ' ' + HexFormat.of().formatHex(bytes));
    }

    private static boolean verify(Path file) throws IOException, URISyntaxException, ReflectiveOperationException {
        Map<String, MessageClass> messages =
            MessageClass.all().stream().collect(Collectors.toMap(MessageClass::name, Function.identity()));
        Set<String> names = new HashSet<>();
        Set<String> versions = new HashSet<>();
        int samples = 0;
        int differences = 0;
        for (String line : Files.readAllLines(file)) {
            String[] words = line.split(" ", -1);
            names.add(words[0]);
            versions.add(words[0] + ' ' + words[1]);
            samples++;
            String problem = problem(messages.get(words[0]), Short.parseShort(words[1]), words[3]);
            if (problem != null) {
                differences++;
                System.err.println(line + "\n  " + problem);
            }
        }
        System.out.printf("Java: %d messages, %d versions, %d samples, %d differences%n",
            names.size(), versions.size(), samples, differences);
        return differences == 0 && names.equals(messages.keySet());
    }

    /** What is wrong with a sample, or null. */
    private static String problem(MessageClass message, short version, String hex)
            throws ReflectiveOperationException {
        byte[] bytes = HexFormat.of().parseHex(hex);
        try {
            byte[] written = message.readAndWrite(bytes, version);
            return Arrays.equals(written, bytes) ? null : HexFormat.of().formatHex(written);
        } catch (RuntimeException e) {
            return e.toString();
        }
    }
}
