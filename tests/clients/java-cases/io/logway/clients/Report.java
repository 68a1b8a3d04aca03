package io.logway.clients;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;

/** Runs cases and counts them, in the words that tests/clients/cases.toml gives. */
final class Report {
    private int passed;
    private int failed;

    /** A case; it fails by throwing. */
    interface Case {
        void run() throws Exception;
    }

    void client(String name, String version) {
        System.out.printf("client %s %s%n", name, version);
    }

    /** A case of the table that all clients share. */
    void check(String id, Case body) {
        report(body, "case " + id + " pass (%.2f s)", "case " + id + " fail: %s");
    }

    /** A case of the table that the client has no call for; {@code reason} says so. */
    void skip(String id, String reason) {
        System.out.printf("case %s skip: %s%n", id, reason);
    }

    /** A case beyond the table. */
    void run(String name, Case body) {
        report(body, "ok " + name + " (%.2f s)", "FAILED " + name + ": %s");
    }

    /** Prints the sum; returns the exit code. */
    int finish() {
        System.out.printf("%d passed, %d failed%n", passed, failed);
        return failed == 0 && passed > 0 ? 0 : 1;
    }

    private void report(Case body, String onPass, String onFailure) {
        long began = System.nanoTime();
        try {
            body.run();
            passed++;
            System.out.printf(onPass + "%n", (System.nanoTime() - began) / 1e9);
        } catch (Exception | AssertionError failure) {
            failed++;
            Throwable cause = failure instanceof ExecutionException ? failure.getCause() : failure;
            System.out.printf(onFailure + "%n", cause.toString().replaceAll("\\s+", " "));
            StringWriter trace = new StringWriter();
            failure.printStackTrace(new PrintWriter(trace));
            System.out.println("    " + trace.toString().stripTrailing().replace("\n", "\n    "));
        }
    }

    static void expect(Object expected, Object actual) {
        if (!Objects.equals(expected, actual)) {
            throw new AssertionError("expected " + expected + ", got " + actual);
        }
    }

    static void expect(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    /** The body must fail with this exception, or with one that it caused. */
    static <E extends Exception> E expectFailure(Class<E> expected, Callable<?> body) throws Exception {
        try {
            body.call();
        } catch (Exception failure) {
            Throwable cause = failure instanceof ExecutionException ? failure.getCause() : failure;
            if (expected.isInstance(cause)) {
                return expected.cast(cause);
            }
            throw failure;
        }
        throw new AssertionError("expected " + expected.getSimpleName() + ", but it went well");
    }
}
