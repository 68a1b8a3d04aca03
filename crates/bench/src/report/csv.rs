//! One line for each run.

use std::fmt::Write;

use crate::measure::{ProcessMemory, QUANTILES, Row};

/// With a line of names. No field holds a quote; those that may hold commas are quoted.
pub(super) fn render(rows: &[Row]) -> String {
    let mut text = String::from(
        "experiment,work,side,round,durability,acks,batch_records,batch_bytes,record_bytes,\
         linger_ms,keys,compression,partitions,replicas,producers,consumers,in_flight,timetable_requests_per_second,fetch_bytes,tls,\
         seconds,requests,records,value_bytes,records_per_second,value_megabytes_per_second",
    );
    for (name, _) in QUANTILES {
        write!(text, ",{name}").expect("a string takes everything");
    }
    text.push_str(
        ",max_ms,generator_lateness_p99_ms,unanswered,broker_cpu_s,broker_cpu_s_per_value_gb,broker_cpu_us_per_request,broker_cpu_us_per_record,\
         broker_rss_before_bytes,broker_rss_bytes,broker_peak_rss_bytes,generator_busy,generator_cpu_s,generator_queued_s,others_cpu_s,\
         machine_busy,load_average,\
         broker_messages_per_s,broker_bytes_per_s,broker_1min_messages_per_s,broker_1min_bytes_per_s\n",
    );
    for row in rows {
        text.push_str(&fields(row).join(","));
        text.push('\n');
    }
    text
}

fn fields(row: &Row) -> Vec<String> {
    let parameters = &row.parameters;
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "'"));
    let optional =
        |figure: Option<f64>| figure.map_or(String::new(), |figure| format!("{figure:.6}"));
    let rate = |figure: String| if row.has_rate() { figure } else { String::new() };
    let mut fields = vec![
        row.experiment.to_owned(),
        quoted(&row.work),
        quoted(&row.side),
        row.round.to_string(),
        parameters.durability.map_or("", |durability| durability.name()).to_owned(),
        parameters.acks.unwrap_or("").to_owned(),
        parameters.batch_records.to_string(),
        parameters.batch_bytes.to_string(),
        parameters.record_bytes.to_string(),
        parameters.linger_ms.to_string(),
        parameters.keys.to_owned(),
        parameters.compression.to_owned(),
        parameters.partitions.to_string(),
        parameters.replicas.to_string(),
        parameters.producers.to_string(),
        parameters.consumers.to_string(),
        parameters.in_flight.to_string(),
        parameters.rate.map_or(String::new(), |rate| rate.to_string()),
        parameters.fetch_bytes.to_string(),
        parameters.tls.to_owned(),
        format!("{:.3}", row.seconds),
        row.requests.to_string(),
        row.records.to_string(),
        row.value_bytes.to_string(),
        rate(format!("{:.1}", row.records_per_second())),
        rate(format!("{:.3}", row.megabytes_per_second())),
    ];
    fields.extend(QUANTILES.map(|(_, quantile)| optional(row.latency_ms(quantile))));
    let (before, memory) = (row.usage.memory_before, row.usage.memory);
    let resident = |memory: Option<ProcessMemory>| {
        memory.map_or(String::new(), |memory| memory.resident_bytes.to_string())
    };
    fields.extend([
        optional(row.latency_ms(1.0)),
        optional(row.lateness_p99_ms()),
        row.unanswered.to_string(),
        optional(row.usage.broker_cpu_seconds),
        optional(row.broker_cpu_seconds_per_gigabyte()),
        optional(row.broker_cpu_seconds_per_million_requests()),
        optional(row.broker_cpu_seconds_per_million_records()),
        resident(before),
        resident(memory),
        memory.map_or(String::new(), |memory| memory.peak_bytes.to_string()),
        format!("{:.3}", row.generator_busy()),
        optional(Some(row.usage.generator_cpu_seconds)),
        optional(Some(row.usage.generator_queued_seconds)),
        optional(row.usage.others_cpu_seconds),
        optional(row.usage.machine_busy),
        optional(row.usage.load_average),
    ]);
    let rates = row.broker_rates.as_ref();
    for rate in [rates.and_then(|rates| rates.measured), rates.and_then(|rates| rates.last_minute)]
    {
        fields.push(optional(rate.map(|rate| rate.messages_per_second)));
        fields.push(optional(rate.map(|rate| rate.bytes_per_second)));
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::summary::tests::rows;

    #[test]
    fn columns_say_what_they_are_and_in_which_unit() {
        let text = render(&rows());
        let names: Vec<&str> = text.lines().next().expect("names").split(',').collect();
        let of = |name| names.iter().position(|known| *known == name).expect(name);
        let first: Vec<&str> = text.lines().nth(1).expect("a run").split(',').collect();
        assert_eq!(first[of("timetable_requests_per_second")], "");
        assert_eq!(first[of("value_bytes")], "10000000");
        assert_eq!(first[of("value_megabytes_per_second")], "5.000");
        assert_eq!(first[of("generator_lateness_p99_ms")], "9.904127");
    }

    #[test]
    fn each_line_has_as_many_fields_as_there_are_names() {
        let text = render(&rows());
        let counts: Vec<usize> = text.lines().map(|line| line.split(',').count()).collect();
        assert_eq!(counts.len(), 13);
        assert!(counts.iter().all(|&count| count == counts[0]), "{counts:?}");
    }
}
