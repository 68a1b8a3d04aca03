import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Copies a topic of records to another by transactions, and aborts some of them. Whatever fails, it begins anew as the same
 * transactional id. Ends when its group has committed so many records.
 *
 * <p>Arguments: bootstrap, transactional id, group, from, to, count, seed. A line for each transaction that has ended.
 */
public class Copier {
  public static void main(String[] args) throws Exception {
    long count = Long.parseLong(args[5]);
    Random chance = new Random(Long.parseLong(args[6]));
    while (true) {
      try {
        if (copy(args, count, chance)) {
          System.out.println("done");
          return;
        }
      } catch (RuntimeException failure) {
        System.out.println("anew: " + failure);
        Thread.sleep(200);
      }
    }
  }

  static boolean copy(String[] args, long count, Random chance) {
    Map<String, Object> producing = new HashMap<>();
    producing.put("bootstrap.servers", args[0]);
    producing.put("transactional.id", args[1]);
    producing.put("key.serializer", StringSerializer.class);
    producing.put("value.serializer", StringSerializer.class);
    producing.put("max.block.ms", 30_000);
    producing.put("delivery.timeout.ms", 30_000);
    producing.put("request.timeout.ms", 10_000);
    producing.put("linger.ms", 0);
    Map<String, Object> consuming = new HashMap<>();
    consuming.put("bootstrap.servers", args[0]);
    consuming.put("group.id", args[2]);
    consuming.put("isolation.level", "read_committed");
    consuming.put("auto.offset.reset", "earliest");
    consuming.put("enable.auto.commit", false);
    consuming.put("max.poll.records", 40);
    consuming.put("key.deserializer", StringDeserializer.class);
    consuming.put("value.deserializer", StringDeserializer.class);
    try (KafkaProducer<String, String> producer = new KafkaProducer<>(producing);
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(consuming)) {
      producer.initTransactions();
      consumer.subscribe(List.of(args[3]));
      while (true) {
        ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(500));
        if (records.isEmpty()) {
          if (committed(consumer) >= count) {
            return true;
          }
          continue;
        }
        producer.beginTransaction();
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (ConsumerRecord<String, String> record : records) {
          producer.send(new ProducerRecord<>(args[4], record.key(), record.value()));
          TopicPartition partition = new TopicPartition(record.topic(), record.partition());
          offsets.put(partition, new OffsetAndMetadata(record.offset() + 1));
        }
        producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
        if (chance.nextInt(5) == 0) {
          producer.flush();
          producer.abortTransaction();
          System.out.println("aborted " + records.count());
          // What was read has to be read again.
          throw new IllegalStateException("an abort that was wanted");
        }
        producer.commitTransaction();
        System.out.println("committed " + records.count());
      }
    }
  }

  static long committed(KafkaConsumer<String, String> consumer) {
    long sum = 0;
    for (OffsetAndMetadata offset : consumer.committed(consumer.assignment()).values()) {
      sum += offset == null ? 0 : offset.offset();
    }
    return sum;
  }
}
