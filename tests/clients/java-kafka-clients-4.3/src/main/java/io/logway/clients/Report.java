package io.logway.clients;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;

/** Runs cases and counts them, in the format that the other suites print. */
final class Report {
    private int passed;
    private int failed;

    /** A case; it fails by throwing. */
    interface Case {
        void run() throws Exception;
    }

    void run(String name, Case body) {
        long began = System.nanoTime();
        try {
            body.run();
            passed++;
            System.out.printf("ok %s (%.2f s)%n", name, (System.nanoTime() - began) / 1e9);
        } catch (Exception | AssertionError failure) {
            failed++;
            StringWriter trace = new StringWriter();
            failure.printStackTrace(new PrintWriter(trace));
            System.out.printf("FAILED %s%n    %s%n", name, trace.toString().replace("\n", "\n    "));
        }
    }

    /** Prints the sum; returns the exit code. */
    int finish() {
        System.out.printf("%d passed, %d failed%n", passed, failed);
        return failed == 0 && passed > 0 ? 0 : 1;
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
