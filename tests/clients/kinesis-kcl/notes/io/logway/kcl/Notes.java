package io.logway.kcl;

import java.io.IOException;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/** A file of what a worker has seen, a line each, with a clock that all processes of the machine share. */
final class Notes {
    private final PrintStream lines;

    Notes(String file) throws IOException {
        var stream = Files.newOutputStream(Path.of(file), StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        lines = new PrintStream(stream, false, StandardCharsets.UTF_8);
    }

    synchronized void event(String what, String shard) {
        line(what, shard, "-");
        lines.flush();
    }

    /** Records are there for whoever reads the file when this returns. */
    synchronized void records(String shard, Iterable<ByteBuffer> all) {
        for (var data : all) {
            line("record", shard, StandardCharsets.UTF_8.decode(data).toString());
        }
        lines.flush();
    }

    private void line(String what, String shard, String text) {
        lines.println(System.nanoTime() + " " + what + " " + shard + " " + text);
    }
}
