//! What the machine and the broker say of each run of `ingest`, as the paper behind it shows it beside the rates.

use std::fmt::Write;

use super::html::escape;
use super::text::short;
use crate::measure::{CountedRate, Row};

pub(super) fn html(rows: &[Row]) -> String {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.experiment == "ingest").collect();
    if rows.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "<h2>The machine while it ingested</h2>\n<table><tr><th>work<th class=\"l\">side<th>round\
         <th>records/s<th>by the broker's count<th>MB of batches/s<th>in the last minute<th>MB of batches/s<th class=\"l\">\
         from<th>load average, 1 min<th>processors busy<th>generator busy</tr>\n",
    );
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    for row in rows {
        let rates = row.broker_rates.as_ref();
        writeln!(
            text,
            "<tr><td>{}<td class=\"l\">{}<td>{}<td>{:.0}{}{}\
             <td class=\"l w\">{}<td>{}<td>{}<td>{}</tr>",
            escape(&row.work),
            escape(&row.side),
            row.round,
            row.records_per_second(),
            cells(rates.and_then(|rates| rates.measured)),
            cells(rates.and_then(|rates| rates.last_minute)),
            escape(rates.map_or("", |rates| &rates.source)),
            row.usage.load_average.map_or(String::new(), short),
            row.usage.machine_busy.map_or(String::new(), percent),
            percent(row.generator_busy()),
        )
        .expect("a string takes everything");
    }
    text + "</table>\n"
}

fn cells(rate: Option<CountedRate>) -> String {
    let Some(rate) = rate else { return "<td><td>".to_owned() };
    let megabytes = short(rate.bytes_per_second / 1e6);
    format!("<td>{:.0}<td>{megabytes}", rate.messages_per_second)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{BrokerRates, Durability};
    use crate::report::summary::tests::row;

    #[test]
    fn each_run_of_ingest_has_the_load_of_its_time() {
        let other = row("16 KiB", Durability::Unsynced, "logway", 1, 1000);
        assert_eq!(html(std::slice::from_ref(&other)), "");
        let rate = CountedRate { messages_per_second: 490.0, bytes_per_second: 49e6 };
        let rates =
            BrokerRates { measured: None, last_minute: Some(rate), source: "JMX".to_owned() };
        let ingest = Row { experiment: "ingest", broker_rates: Some(rates), ..other.clone() };
        let page = html(&[other, ingest]);
        assert_eq!(page.matches("<tr><td>").count(), 1);
        assert!(
            page.contains(
                "<td>500<td><td><td>490<td>49.0<td class=\"l w\">JMX<td>1.50<td>75 %<td>25 %"
            ),
            "{page}"
        );
    }
}
