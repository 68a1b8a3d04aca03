//! The names of the works of which the report says what Logway is to reach: the experiments do them
//! under these names, and the report finds them by these.

/// The experiment whose aims are those of clusters. Those of all other experiments are of single nodes.
pub(crate) const CLUSTER: &str = "cluster";

pub(crate) const BATCHES_OF_16_KIB: &str = "16 KiB batches";
pub(crate) const BATCHES_OF_1_MIB: &str = "1 MiB batches";
pub(crate) const BATCH_OF_1: &str = "batch of 1";
pub(crate) const HUNDRED_PARTITIONS: &str = "100 partitions, 100 connections";
pub(crate) const FILES_ALONE: &str = "files alone";

pub(crate) const FETCH_1_MIB: &str = "1 MiB cached";
pub(crate) const FETCH_8_MIB: &str = "8 MiB cached";

pub(crate) const APPENDERS_ALONE: &str = "128 appenders, 128 connections";
pub(crate) const APPENDERS_TOGETHER: &str = "128 appenders, 4 connections";

pub(crate) const ACKNOWLEDGED_AT_1000: &str = "acknowledged at 1000/s";

/// All at the same rate.
pub(crate) const END_TO_END_AT_LOWEST: &str = "end to end at half of the lowest knee";

/// Each at a rate of its own.
pub(crate) const END_TO_END_AT_OWN: &str = "end to end at half of its own knee";

/// What the names of [`stored_data_grows`] begin with.
pub(crate) const STORED_DATA_GROWS: &str = "stored data grows";

pub(crate) const START: &str = "start to first answer, idle";
pub(crate) const RESTART: &str = "restart after kill -9";

/// Of a broker that is told not to wait for its own session.
pub(crate) const RESTART_AT_ONCE: &str = "restart after kill -9, no session to wait for";

/// So many appenders share so many connections.
pub(crate) fn appenders(appenders: usize, connections: usize) -> String {
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    let (many, connected) = (plural(appenders), plural(connections));
    format!("{appenders} appender{many}, {connections} connection{connected}")
}

/// So many appenders share so many streams of the log service.
pub(crate) fn appenders_over_streams(appenders: usize, streams: usize) -> String {
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    format!("{appenders} appender{}, {streams} stream{}", plural(appenders), plural(streams))
}

/// So many records a second, until they are acknowledged.
pub(crate) fn acknowledged_at(rate: f64) -> String {
    format!("acknowledged at {rate}/s")
}

/// So many records a second, until a consumer has them.
pub(crate) fn end_to_end_at(rate: f64) -> String {
    format!("end to end at {rate}/s")
}

/// Until so much is stored on a machine with so much memory.
pub(crate) fn stored_data_grows(stored_bytes: u64, memory_bytes: u64) -> String {
    let gigabytes = stored_bytes as f64 / 1e9;
    let times = stored_bytes as f64 / memory_bytes.max(1) as f64;
    let past = if times > 1.0 { "past memory" } else { "within memory" };
    format!("{STORED_DATA_GROWS} to {gigabytes:.1} GB, {past} ({times:.2} times)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_put_together_are_those_that_are_known() {
        assert_eq!(appenders(128, 128), APPENDERS_ALONE);
        assert_eq!(appenders(128, 4), APPENDERS_TOGETHER);
        assert_eq!(appenders(128, 1), "128 appenders, 1 connection");
        assert_eq!(acknowledged_at(1000.0), ACKNOWLEDGED_AT_1000);
        let grown = [(31_250, 25_000), (2_000, 25_000)]
            .map(|(stored, memory)| stored_data_grows(stored * 1_000_000, memory * 1_000_000));
        assert_eq!(
            grown,
            [
                "stored data grows to 31.2 GB, past memory (1.25 times)",
                "stored data grows to 2.0 GB, within memory (0.08 times)"
            ]
        );
    }
}
