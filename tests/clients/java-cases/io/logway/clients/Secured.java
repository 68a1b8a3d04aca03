package io.logway.clients;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.stream.IntStream;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.AppInfoParser;

/** Does what tests/security/clients/matrix.py asks for: see there for the lines in and out. */
public final class Secured {
    private static final Duration DEADLINE = Duration.ofSeconds(20);
    private static final String KEYSTORE_PASSWORD = "keystore";
    private static final List<String> RECORDS = IntStream.range(0, 10).mapToObj(Integer::toString).toList();

    private final Map<String, String> task;

    private Secured(Map<String, String> task) {
        this.task = task;
    }

    public static void main(String[] args) throws Exception {
        String version = AppInfoParser.getVersion();
        tell("client", "kafka-clients-" + version.substring(0, version.lastIndexOf('.')), version);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Map<String, String> task = new HashMap<>();
            for (String field : line.split("\t")) {
                String[] parts = field.split("=", 2);
                task.put(parts[0], parts[1]);
            }
            try {
                new Secured(task).perform();
                tell(task.get("task"), "ok");
            } catch (Exception failure) {
                failure.printStackTrace();
                tell(task.get("task"), "error", causes(failure).replaceAll("\\s+", " "));
            }
        }
        System.exit(0);
    }

    private void perform() throws Exception {
        String topic = task.get("topic");
        switch (task.get("do")) {
            case "connect" -> connect();
            case "create" -> create(topic);
            case "write" -> write(topic);
            case "read" -> read(topic, 1);
            default -> {
                create(topic);
                write(topic);
                Report.expect(RECORDS, read(topic, RECORDS.size()));
                delete(topic);
            }
        }
    }

    private void connect() throws Exception {
        try (Admin admin = Admin.create(settings())) {
            admin.listTopics().names().get();
        }
    }

    private void create(String topic) throws Exception {
        try (Admin admin = Admin.create(settings())) {
            admin.createTopics(Set.of(new NewTopic(topic, 1, (short) 1))).all().get();
        }
    }

    private void delete(String topic) throws Exception {
        try (Admin admin = Admin.create(settings())) {
            admin.deleteTopics(Set.of(topic)).all().get();
        }
    }

    private void write(String topic) throws Exception {
        try (var producer = new KafkaProducer<>(settings(), new StringSerializer(), new StringSerializer())) {
            for (var sent : RECORDS.stream().map(value -> producer.send(new ProducerRecord<>(topic, value))).toList()) {
                sent.get();
            }
        }
    }

    private List<String> read(String topic, int count) {
        Map<String, Object> settings = settings();
        settings.put("group.id", topic);
        settings.put("auto.offset.reset", "earliest");
        List<String> values = new ArrayList<>();
        Instant deadline = Instant.now().plus(DEADLINE);
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(Set.of(topic));
            while (values.size() < count) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    values.add(record.value());
                }
                Report.expect(Instant.now().isBefore(deadline), values.size() + " records in time");
            }
        }
        return values;
    }

    private Map<String, Object> settings() {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", task.get("bootstrap"));
        settings.put("default.api.timeout.ms", "20000");
        settings.put("request.timeout.ms", "15000");
        settings.put("security.protocol",
            (task.containsKey("mechanism") ? "SASL_" : "") + (task.containsKey("ca") ? "SSL" : "PLAINTEXT"));
        if (task.containsKey("ca")) {
            settings.put("ssl.truststore.type", "PEM");
            settings.put("ssl.truststore.location", task.get("ca"));
        }
        if (task.containsKey("certificate")) {
            // kafka-clients 2.8 takes no PEM file without a password.
            settings.put("ssl.keystore.type", "PKCS12");
            settings.put("ssl.keystore.location", task.get("certificate").replaceAll("\\.crt$", ".p12"));
            settings.put("ssl.keystore.password", KEYSTORE_PASSWORD);
        }
        if (task.containsKey("mechanism")) {
            settings.put("sasl.mechanism", task.get("mechanism"));
            settings.put("sasl.jaas.config", login());
        }
        if (task.containsKey("token")) {
            settings.put("sasl.login.callback.handler.class", SignedToken.class.getName());
        }
        return settings;
    }

    private String login() {
        String mechanisms = "org.apache.kafka.common.security.";
        if (task.containsKey("token")) {
            return mechanisms + "oauthbearer.OAuthBearerLoginModule required token=\"" + task.get("token") + "\";";
        }
        String module = task.get("mechanism").equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
        return mechanisms + module + " required username=\"" + task.get("user") + "\" password=\"" + task.get("password") + "\";";
    }

    /** An exception and those that caused it. */
    private static String causes(Throwable failure) {
        if (failure instanceof ExecutionException && failure.getCause() != null) {
            return causes(failure.getCause());
        }
        String own = failure.getClass().getSimpleName() + ": " + failure.getMessage();
        return failure.getCause() == null ? own : own + " | " + causes(failure.getCause());
    }

    private static void tell(String... words) {
        System.out.println(String.join("\t", words));
    }
}
