//! One page with everything, which needs nothing but itself.

use std::fmt::Write;

use super::comparison::SIGNS;
use super::plots::Plot;
use super::summary::{Ratio, SideSummary, WorkSummary};
use super::targets::{TargetRow, measured};
use super::text::{of, short, title};
use super::{Report, growth, ingest, omission, svg};
use crate::measure::{CPU_TICKS_MIN, Parameters, Spread};

const STYLE: &str = "body{font:14px/1.45 sans-serif;max-width:1180px;margin:2em auto;\
padding:0 1em;color:#222}table{border-collapse:collapse;margin:.6em 0 1.6em}th,td{padding:.2em \
.6em;border-bottom:1px solid #ddd;text-align:right;white-space:nowrap}th{border-bottom-color:#222}\
td:first-child,th:first-child,td.l,th.l{text-align:left}td.w{white-space:normal}small{color:#666}\
svg{max-width:100%;height:auto;display:block;margin:1em 0}code{white-space:pre-wrap}";

/// How to read the figures, for those who were not there.
fn notes() -> String {
    format!(
        "<p>Figures are medians over the rounds; what stands in parentheses is the least and the most. A ratio is \
         that of two runs of the same round, which followed each other if both are of one work. In a closed loop (a number <i>in \
         flight</i>) the latency is that of a broker under all the load it takes, and only the rate is a result. \
         In an open loop (<i>requests/s of a timetable</i>) it counts from when the request should have been sent; \
         that two rates were both kept is no ratio. A run is <i>generator-bound</i> if the generator's thread was \
         busy more than 85 % of the time: the broker might do more. {SIGNS} MB and GB are those of the records' values, or of the messages' bodies, on all sides: \
         what a protocol puts around them is not counted. CPU is that of the broker's processes. \
         The system counts it in ticks of {} ms: of less than {CPU_TICKS_MIN} in a run no figure is made. Memory is \
         its resident memory right after the run; what several processes share counts once. <i>Synced</i>: the records are on the disk before they are \
         acknowledged (<code>flush.messages=1</code>); <i>unsynced</i>: they are with the operating system. Batches \
         are encoded before the run, those of a work that is <i>streamed</i> as they are due, so no linger; connections are plain TCP on one machine.</p>\n",
        1000 / rustix::param::clock_ticks_per_second()
    )
}

/// What stands under the table of aims.
const LIMITS: &str = "<p>What this machine allows in the same run is in the last columns: <i>null</i> \
is what a broker that does nothing reaches over the same, <i>bare</i> one that only stores.</p>\n";

pub(super) fn render(
    report: &Report,
    works: &[WorkSummary],
    targets: &[TargetRow],
    plots: &[Plot],
) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\
         <title>logway-bench {name}</title><style>{STYLE}</style>\n\
         <h1>logway-bench {name}</h1>\n",
        name = report.name
    );
    page.push_str(&statement(report));
    page.push_str(&notes());
    page.push_str(&target_table(targets));
    let ratios = ratio_table(works);
    if !ratios.is_empty() {
        page.push_str("<h2>How the sides compare</h2>\n");
        page.push_str(&ratios);
    }
    page.push_str("<h2>Results</h2>\n");
    page.push_str(&result_table(works));
    page.push_str(&ingest::html(&report.rows));
    page.push_str(&growth::html(&growth::growths(&report.rows)));
    let sentences = omission::sentences(&report.omissions);
    if !sentences.is_empty() {
        page.push_str("<h2>What was not measured</h2>\n<ul>\n");
        for sentence in sentences {
            writeln!(page, "<li>{}</li>", escape(&sentence)).expect("a string takes everything");
        }
        page.push_str("</ul>\n");
    }
    page.push_str("<h2>Plots</h2>\n");
    for plot in plots {
        page.push_str(&svg::render(&plot.scene));
    }
    page.push_str("<h2>What the loads were</h2>\n");
    page.push_str(&parameter_table(works));
    page.push_str("</html>\n");
    page
}

fn statement(report: &Report) -> String {
    let stated = &report.statement;
    let machine = &stated.machine;
    let mut text = String::new();
    if let Some(reason) = &report.ended_early {
        let reason = escape(reason);
        writeln!(text, "<p><b>This is not all that was asked for: {reason}</b></p>")
            .expect("a string takes everything");
    }
    write!(
        text,
        "<p>{} of {}, {} GB of memory, {}, {}, TCP with {}, data on {}, load average {} at the start. \
         {} of {} s after {} s of warm-up each{}; {} MB are written before \
         a run that reads or restarts, which then has {} partitions more; the load is made by {}.</p>\n<table>\
         <tr><th>side<th class=\"l\">version<th class=\"l\">started as<th class=\"l\">settings</tr>\n",
        counted(machine.cores as u64, "core"),
        escape(&machine.processor),
        short(machine.memory_bytes as f64 / 1e9),
        escape(&machine.system),
        escape(&machine.kernel),
        escape(&machine.congestion_control),
        escape(&machine.data_file_system),
        machine.load_average,
        counted(u64::from(stated.rounds), "round"),
        stated.measured_seconds,
        stated.warm_up_seconds,
        stated.other_lengths.iter().map(|other| format!(", {}", escape(other))).collect::<String>(),
        stated.preloaded_megabytes,
        stated.empty_partitions,
        escape(&stated.generator),
    )
    .expect("a string takes everything");
    for side in &stated.sides {
        writeln!(
            text,
            "<tr><td>{}<td class=\"l\">{}<td class=\"l w\"><code>{}</code>\
             <td class=\"l w\"><code>{}</code></tr>",
            escape(&side.name),
            escape(&side.version),
            escape(&side.commands().join("\n")),
            escape(&side.settings.join("\n")),
        )
        .expect("a string takes everything");
    }
    text + "</table>\n"
}

fn target_table(targets: &[TargetRow]) -> String {
    if targets.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "<h2>What is to be reached</h2>\n<table><tr><th>ours<th class=\"l\">over<th>aim\
         <th>measured<th><th>null<th>bare<th>ours over bare</tr>\n",
    );
    let (targets, about_others) = measured(targets);
    for target in targets {
        let TargetRow { what, over, aim, ratio, limit, .. } = target;
        writeln!(
            text,
            "<tr><td>{}<td class=\"l\">{}<td>{aim}<td>{}<td>{}<td>{}<td>{}<td>{}</tr>",
            escape(what),
            escape(over),
            of(*ratio),
            target.verdict(),
            of(limit.null),
            of(limit.bare),
            of(limit.ours_over_bare),
        )
        .expect("a string takes everything");
    }
    text.push_str("</table>\n");
    if let Some(sentence) = about_others {
        writeln!(text, "<p>{sentence}</p>").expect("a string takes everything");
    }
    text + LIMITS
}

fn ratio_table(works: &[WorkSummary]) -> String {
    let mut rows = String::new();
    for work in works {
        for ratio in &work.ratios {
            let Ratio { side, against, rate, p50, p99, cpu_per_record, resident } = ratio;
            let against =
                against.map_or(String::new(), |durability| format!(" {}", durability.name()));
            writeln!(
                rows,
                "<tr><td>{}: {}<td class=\"l\">{}{against}<td>{}<td>{}<td>{}<td>{}<td>{}</tr>",
                work.experiment,
                escape(&title(work)),
                escape(side),
                of(*rate),
                of(*cpu_per_record),
                of(*p50),
                of(*p99),
                of(*resident),
            )
            .expect("a string takes everything");
        }
    }
    if rows.is_empty() {
        return rows;
    }
    format!(
        "<table><tr><th>work<th class=\"l\">ours over<th>rate<th>CPU a record<th>p50<th>p99\
         <th>memory</tr>\n{rows}</table>\n"
    )
}

fn result_table(works: &[WorkSummary]) -> String {
    let mut text = String::from(
        "<table><tr><th>work<th class=\"l\">side<th>records/s<th>MB/s of values<th>p50 ms<th>p99 ms\
         <th>p99.9 ms<th>CPU s/GB of values<th>CPU &micro;s/request<th>CPU &micro;s/record<th>RSS MB\
         <th>generator busy</tr>\n",
    );
    for work in works {
        for side in &work.sides {
            let SideSummary { is_generator_bound, unanswered, .. } = side;
            let bound = if *is_generator_bound { " <small>generator-bound</small>" } else { "" };
            let note = match unanswered {
                0 => bound.to_owned(),
                _ => format!("{bound} <small>{unanswered} unanswered</small>"),
            };
            writeln!(
                text,
                "<tr><td>{}: {}<td class=\"l\">{}{note}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}\
                 <td>{}<td>{}<td>{}</tr>",
                work.experiment,
                escape(&title(work)),
                escape(&side.side),
                cell(side.records_per_second),
                cell(side.megabytes_per_second),
                cell(side.p50_ms),
                cell(side.p99_ms),
                cell(side.p99_9_ms),
                cell(side.cpu_seconds_per_gigabyte),
                cell(side.cpu_us_per_request),
                cell(side.cpu_us_per_record),
                cell(side.resident_megabytes),
                side.generator_busy
                    .map_or(String::new(), |busy| format!("{:.0} %", busy.median * 100.0)),
            )
            .expect("a string takes everything");
        }
    }
    text + "</table>\n"
}

fn parameter_table(works: &[WorkSummary]) -> String {
    let mut text = String::from(
        "<table><tr><th>work<th>acks<th>records a batch<th>batch B<th>value B<th>linger ms\
         <th>keys<th>compression<th>partitions<th>replicas<th>producers<th>consumers<th>in flight\
         <th>requests/s of a timetable<th>fetch B<th>TLS</tr>\n",
    );
    for work in works {
        let Parameters {
            durability: _,
            acks,
            batch_records,
            batch_bytes,
            record_bytes,
            linger_ms,
            keys,
            compression,
            partitions,
            replicas,
            producers,
            consumers,
            in_flight,
            rate,
            fetch_bytes,
            tls,
        } = &work.parameters;
        let rate = rate.map_or("-".to_owned(), |rate| rate.to_string());
        writeln!(
            text,
            "<tr><td>{}: {}<td>{}<td>{batch_records}<td>{batch_bytes}<td>{record_bytes}\
             <td>{linger_ms}<td>{keys}<td>{compression}<td>{partitions}<td>{replicas}<td>{producers}\
             <td>{consumers}<td>{in_flight}<td>{rate}<td>{fetch_bytes}<td>{tls}</tr>",
            work.experiment,
            escape(&title(work)),
            acks.unwrap_or("-"),
        )
        .expect("a string takes everything");
    }
    text + "</table>\n"
}

/// As many as there are: `1 round`, `3 rounds`.
fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn cell(spread: Option<Spread>) -> String {
    spread.map_or("-".to_owned(), |Spread { median, least, most }| {
        let show = |figure: f64| match figure >= 100_000.0 {
            true => super::chart::amount(figure),
            false => short(figure),
        };
        format!("{} <small>({}&ndash;{})</small>", show(median), show(least), show(most))
    })
}

/// Text as it can stand in the page.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::path::PathBuf;

    use crate::measure::{Durability, Machine};
    use crate::report::plots::plots;
    use crate::report::summary::{summarize, tests::rows};
    use crate::report::targets::targets;
    use crate::report::{Omission, Statement};
    use crate::side::StatedSide;

    pub(crate) fn report() -> Report {
        let machine = Machine {
            processor: "A & B".to_owned(),
            cores: 2,
            memory_bytes: 24_000_000_000,
            system: "Debian 12".to_owned(),
            kernel: "Linux 6.1".to_owned(),
            congestion_control: "cubic".to_owned(),
            data_file_system: "ext4 on /dev/sda".to_owned(),
            load_average: 0.5,
        };
        let side = |name: &str| StatedSide {
            name: name.to_owned(),
            version: format!("{name} 1.0"),
            command: Some(format!("run {name} <there>")),
            other_commands: Vec::new(),
            settings: vec!["a=1".to_owned(), "b=2".to_owned()],
        };
        let statement = Statement {
            machine,
            sides: vec![side("logway"), side("kafka")],
            rounds: 3,
            warm_up_seconds: 0.5,
            measured_seconds: 2.0,
            other_lengths: Vec::new(),
            preloaded_megabytes: 256,
            empty_partitions: 200,
            generator: "logway 0".to_owned(),
        };
        let omission = |work: &str| Omission {
            experiment: "produce".to_owned(),
            work: work.to_owned(),
            durability: Some(Durability::Synced),
            side: "other".to_owned(),
            reason: "has no batches of records".to_owned(),
        };
        let omissions = vec![omission("16 KiB batches"), omission("batch of 50")];
        Report {
            name: "produce",
            ended_early: None,
            statement,
            rows: rows(),
            omissions,
            output: PathBuf::new(),
        }
    }

    #[test]
    fn one_round_is_one() {
        let shown = [0, 1, 3].map(|count| counted(count, "round"));
        assert_eq!(shown, ["0 rounds", "1 round", "3 rounds"]);
    }

    #[test]
    fn the_page_is_as_it_was() {
        let report = report();
        let works = summarize(&report.rows);
        let page = render(&report, &works, &targets(&report.rows), &plots(&works, &report.rows));
        insta::assert_snapshot!("page", page);
    }

    #[test]
    fn a_report_is_written_with_all_its_files() {
        let directory = tempfile::tempdir().expect("a directory");
        let report = Report { output: directory.path().to_owned(), ..report() };
        crate::report::write(&report).expect("it is written");
        for file in ["results.json", "results.csv", "latency.hlog", "report.html"] {
            assert!(directory.path().join(file).is_file(), "{file}");
        }
        let plots = std::fs::read_dir(directory.path().join("plots")).expect("a directory");
        assert_eq!(plots.count(), 3);
        let log = std::fs::read_to_string(directory.path().join("latency.hlog")).expect("a log");
        assert_eq!(log.matches("Tag=produce/16_KiB_batches/").count(), 12);
    }
}
