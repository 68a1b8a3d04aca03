import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * What transactions cost, for transactions.py. Prints one line of JSON.
 *
 * <p>Arguments: bootstrap, source, target, copiers, records of a transaction, records of a partition, seconds. Copier N copies
 * partition N of the source into partition N of the target, with its offset in the same transaction, over and over. Then one
 * producer sends single records in turns: alone, and in a transaction of its own.
 */
public class TransactionCost {
  private static final int RECORD_BYTES = 100;
  /** What is measured begins when the JVM has compiled what it needs most. */
  private static final Duration WARM_UP = Duration.ofSeconds(4);

  private final String bootstrap;
  private final String source;
  private final String target;
  private final int copiers;
  private final int recordsOfTransaction;
  private final int recordsOfPartition;
  private final Duration measured;

  private volatile boolean isStopping;
  private final AtomicLong transactions = new AtomicLong();
  private final AtomicLong records = new AtomicLong();
  private final AtomicReference<Exception> failure = new AtomicReference<>();

  private TransactionCost(String[] words) {
    bootstrap = words[0];
    source = words[1];
    target = words[2];
    copiers = Integer.parseInt(words[3]);
    recordsOfTransaction = Integer.parseInt(words[4]);
    recordsOfPartition = Integer.parseInt(words[5]);
    measured = Duration.ofSeconds(Long.parseLong(words[6]));
  }

  public static void main(String[] words) throws Exception {
    TransactionCost cost = new TransactionCost(words);
    cost.fill();
    System.out.println("{" + cost.copies() + ", " + cost.latencies() + "}");
  }

  private void fill() {
    try (var producer = producer(Map.of("linger.ms", 5))) {
      for (int number = 0; number < copiers * recordsOfPartition; number++) {
        producer.send(record(source, number % copiers));
      }
    }
  }

  private String copies() throws Exception {
    List<Thread> threads = new ArrayList<>();
    for (int number = 0; number < copiers; number++) {
      int partition = number;
      threads.add(new Thread(() -> copy(partition)));
    }
    threads.forEach(Thread::start);
    Thread.sleep(WARM_UP.toMillis());
    long transactionsBefore = transactions.get();
    long recordsBefore = records.get();
    long began = System.nanoTime();
    Thread.sleep(measured.toMillis());
    double seconds = (System.nanoTime() - began) / 1e9;
    double perSecond = (transactions.get() - transactionsBefore) / seconds;
    double recordsPerSecond = (records.get() - recordsBefore) / seconds;
    isStopping = true;
    for (Thread thread : threads) {
      thread.join();
    }
    if (failure.get() != null) {
      throw failure.get();
    }
    return String.format(Locale.ROOT, "\"transactions_per_s\": %.1f, \"records_per_s\": %.0f", perSecond, recordsPerSecond);
  }

  private void copy(int number) {
    TopicPartition partition = new TopicPartition(source, number);
    Map<String, Object> reading = new HashMap<>();
    reading.put("bootstrap.servers", bootstrap);
    reading.put("group.id", "copier-" + number);
    reading.put("isolation.level", "read_committed");
    reading.put("enable.auto.commit", false);
    reading.put("max.poll.records", recordsOfTransaction);
    try (var producer = producer(Map.of("transactional.id", "copier-" + number));
        var consumer = new KafkaConsumer<>(reading, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
      producer.initTransactions();
      consumer.assign(Set.of(partition));
      consumer.seekToBeginning(Set.of(partition));
      while (!isStopping) {
        if (consumer.position(partition) >= recordsOfPartition) {
          consumer.seekToBeginning(Set.of(partition));
        }
        ConsumerRecords<byte[], byte[]> read = consumer.poll(Duration.ofMillis(500));
        if (read.isEmpty()) {
          continue;
        }
        producer.beginTransaction();
        read.forEach(record -> producer.send(new ProducerRecord<>(target, number, record.key(), record.value())));
        var offset = new OffsetAndMetadata(consumer.position(partition));
        producer.sendOffsetsToTransaction(Map.of(partition, offset), consumer.groupMetadata());
        producer.commitTransaction();
        transactions.incrementAndGet();
        records.addAndGet(read.count());
      }
    } catch (RuntimeException thrown) {
      failure.compareAndSet(null, thrown);
    }
  }

  /** Both sorts in turns, so that what the machine does meanwhile meets both. */
  private String latencies() throws Exception {
    List<Double> plain = new ArrayList<>();
    List<Double> transactional = new ArrayList<>();
    try (var alone = producer(Map.of()); var within = producer(Map.of("transactional.id", "single"))) {
      within.initTransactions();
      long began = System.nanoTime();
      while (System.nanoTime() - began < WARM_UP.plus(measured).toNanos()) {
        boolean counts = System.nanoTime() - began > WARM_UP.toNanos();
        double aloneMs = timeMs(() -> alone.send(record(target, 0)).get());
        double withinMs = timeMs(() -> {
          within.beginTransaction();
          within.send(record(target, 0));
          within.commitTransaction();
        });
        if (counts) {
          plain.add(aloneMs);
          transactional.add(withinMs);
        }
      }
    }
    return spread("plain_ms", plain) + ", " + spread("transactional_ms", transactional);
  }

  private interface Work {
    void run() throws Exception;
  }

  private static double timeMs(Work work) throws Exception {
    long began = System.nanoTime();
    work.run();
    return (System.nanoTime() - began) / 1e6;
  }

  private static String spread(String name, List<Double> figures) {
    double[] sorted = figures.stream().mapToDouble(Double::doubleValue).sorted().toArray();
    String[] shown = Arrays.stream(new int[] {50, 99})
        .mapToObj(percent -> String.format(Locale.ROOT, "%.3f", sorted[(sorted.length - 1) * percent / 100]))
        .toArray(String[]::new);
    return "\"" + name + "\": [" + String.join(", ", shown) + "]";
  }

  private static ProducerRecord<byte[], byte[]> record(String topic, int partition) {
    return new ProducerRecord<>(topic, partition, null, new byte[RECORD_BYTES]);
  }

  private KafkaProducer<byte[], byte[]> producer(Map<String, Object> settings) {
    Map<String, Object> all = new HashMap<>(settings);
    all.put("bootstrap.servers", bootstrap);
    all.put("acks", "all");
    all.putIfAbsent("linger.ms", 0);
    return new KafkaProducer<>(all, new ByteArraySerializer(), new ByteArraySerializer());
  }
}
