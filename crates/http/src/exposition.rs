//! The texts in which metrics are handed out.
//!
//! The library writes OpenMetrics. Prometheus' older text, which all that reads metrics reads, differs
//! in little (<https://prometheus.io/docs/instrumenting/exposition_formats/>):
//!
//! | OpenMetrics 1.0                                  | text 0.0.4                                  |
//! |--------------------------------------------------|---------------------------------------------|
//! | a counter's family is `x`, its samples `x_total` | both are `x_total`                          |
//! | an info's family is `x`, its samples `x_info`    | a gauge `x_info`                            |
//! | type `unknown`                                   | type `untyped`                              |
//! | `# UNIT` of a family, `# EOF` at the end         | comments without a meaning, so left out     |

use std::fmt;

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

/// A text in which metrics can be handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// OpenMetrics as it was called before it was finished; ours is the same.
    OpenMetricsOld,
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus' text 0.0.4.
    Text,
}

impl Format {
    /// Every format, the better of two that are wanted as much last.
    pub(crate) const ALL: [Format; 3] = [Format::OpenMetricsOld, Format::OpenMetrics, Format::Text];

    /// The media type's two names.
    pub(crate) fn media_type(self) -> (&'static str, &'static str) {
        match self {
            Format::OpenMetrics | Format::OpenMetricsOld => ("application", "openmetrics-text"),
            Format::Text => ("text", "plain"),
        }
    }

    /// The media type's parameter `version`.
    pub(crate) fn version(self) -> &'static str {
        match self {
            Format::OpenMetricsOld => "0.0.1",
            Format::OpenMetrics => "1.0.0",
            Format::Text => "0.0.4",
        }
    }

    /// The header `Content-Type`.
    pub(crate) fn content_type(self) -> String {
        let ((kind, subkind), version) = (self.media_type(), self.version());
        format!("{kind}/{subkind}; version={version}; charset=utf-8")
    }

    /// All metrics.
    pub(crate) fn write(self, registry: &Registry) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, registry)?;
        Ok(match self {
            Format::OpenMetrics | Format::OpenMetricsOld => text,
            Format::Text => to_text(&text),
        })
    }
}

/// Makes Prometheus' text of OpenMetrics' text without exemplars, which our metrics do not have.
fn to_text(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len() + open_metrics.len() / 16);
    let mut push = |parts: &[&str]| parts.iter().for_each(|part| text.push_str(part));
    // Comes before the type, which decides the name.
    let mut help = "";
    for line in open_metrics.lines() {
        let Some(comment) = line.strip_prefix("# ") else {
            push(&[line, "\n"]);
            continue;
        };
        let (keyword, rest) = comment.split_once(' ').unwrap_or((comment, ""));
        let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        match (keyword, rest) {
            ("HELP", _) => help = rest,
            ("TYPE", kind) => {
                let (suffix, kind) = match kind {
                    "counter" => ("_total", "counter"),
                    "info" => ("_info", "gauge"),
                    "unknown" => ("", "untyped"),
                    same => ("", same),
                };
                push(&["# HELP ", name, suffix, " ", help, "\n"]);
                push(&["# TYPE ", name, suffix, " ", kind, "\n"]);
            }
            _ => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::family::Family;
    use prometheus_client::metrics::gauge::Gauge;
    use prometheus_client::metrics::histogram::Histogram;
    use prometheus_client::metrics::info::Info;
    use prometheus_client::registry::Unit;

    use super::*;

    #[test]
    fn the_older_text_names_families_as_their_samples() {
        let mut registry = Registry::default();
        let counters: Family<Vec<(String, String)>, Counter> = Family::default();
        let label = |value: &str| vec![("topic".to_owned(), value.to_owned())];
        counters.get_or_create(&label("# TYPE x counter\n\"")).inc_by(3);
        registry.register("events", "Events", counters);
        registry.register("free", "Free", Gauge::<i64>::default());
        registry.register_with_unit("took", "Time", Unit::Seconds, Histogram::new([0.5]));
        registry.register("build", "Build", Info::new(label("v")));
        let expected = "\
# HELP events_total Events.
# TYPE events_total counter
events_total{topic=\"# TYPE x counter\\n\\\"\"} 3
# HELP free Free.
# TYPE free gauge
free 0
# HELP took_seconds Time.
# TYPE took_seconds histogram
took_seconds_sum 0.0
took_seconds_count 0
took_seconds_bucket{le=\"0.5\"} 0
took_seconds_bucket{le=\"+Inf\"} 0
# HELP build_info Build.
# TYPE build_info gauge
build_info{topic=\"v\"} 1
";
        assert_eq!(Format::Text.write(&registry).expect("is text"), expected);
    }
}
