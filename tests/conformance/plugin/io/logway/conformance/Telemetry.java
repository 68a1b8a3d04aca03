package io.logway.conformance;

import java.util.List;
import java.util.Map;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.server.telemetry.ClientTelemetryExporter;
import org.apache.kafka.server.telemetry.ClientTelemetryExporterProvider;

/** Has Kafka take what clients push (KIP-714), which it does only for a plugin. It does nothing with it. */
public final class Telemetry implements MetricsReporter, ClientTelemetryExporterProvider {
  @Override
  public ClientTelemetryExporter clientTelemetryExporter() {
    return (context, payload) -> {};
  }

  @Override
  public void configure(Map<String, ?> settings) {}

  @Override
  public void init(List<KafkaMetric> metrics) {}

  @Override
  public void metricChange(KafkaMetric metric) {}

  @Override
  public void metricRemoval(KafkaMetric metric) {}

  @Override
  public void close() {}
}
