//! The metrics by CloudWatch's names, and what they are called here.

/// A metric of a stream.
pub(super) struct Metric {
    /// As CloudWatch has it.
    pub(super) cloudwatch: &'static str,
    /// As it is on `/metrics`; a counter has `_total` behind it.
    pub(super) family: &'static str,
    /// What it tells.
    pub(super) help: &'static str,
}

const fn metric(cloudwatch: &'static str, family: &'static str, help: &'static str) -> Metric {
    Metric { cloudwatch, family, help }
}

/// What is counted of a stream, by its place in [`STREAM_METRICS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Counted {
    GetRecordsBytes,
    GetRecordsLatency,
    GetRecordsRecords,
    GetRecordsRequests,
    GetRecordsSuccess,
    IncomingBytes,
    IncomingRecords,
    PutRecordBytes,
    PutRecordLatency,
    PutRecordRequests,
    PutRecordSuccess,
    PutRecordsBytes,
    PutRecordsFailedRecords,
    PutRecordsLatency,
    PutRecordsRequests,
    PutRecordsSuccess,
    PutRecordsSuccessfulRecords,
    PutRecordsThrottledRecords,
    PutRecordsTotalRecords,
    ReadExceeded,
    SubscribeBytes,
    SubscribeEvents,
    SubscribeRateExceeded,
    SubscribeRecords,
    SubscribeSuccess,
    WriteExceeded,
}

pub(super) const STREAM_METRIC_COUNT: usize = 26;

/// In the order of [`Counted`].
pub(super) const STREAM_METRICS: [Metric; STREAM_METRIC_COUNT] = [
    metric(
        "GetRecords.Bytes",
        "logway_kinesis_get_records_bytes",
        "Data and keys that GetRecords has given",
    ),
    metric(
        "GetRecords.Latency",
        "logway_kinesis_get_records_latency_milliseconds",
        "What all GetRecords have taken together",
    ),
    metric(
        "GetRecords.Records",
        "logway_kinesis_get_records_records",
        "Records that GetRecords has given",
    ),
    metric(
        "GetRecords.Success: sample count",
        "logway_kinesis_get_records_requests",
        "GetRecords with an iterator of a stream",
    ),
    metric(
        "GetRecords.Success: sum",
        "logway_kinesis_get_records_success",
        "GetRecords that were not answered with an error",
    ),
    metric("IncomingBytes", "logway_kinesis_incoming_bytes", "Data and keys that were put"),
    metric("IncomingRecords", "logway_kinesis_incoming_records", "Records that were put"),
    metric(
        "PutRecord.Bytes",
        "logway_kinesis_put_record_bytes",
        "Data and keys that PutRecord was given",
    ),
    metric(
        "PutRecord.Latency",
        "logway_kinesis_put_record_latency_milliseconds",
        "What all PutRecord have taken together",
    ),
    metric(
        "PutRecord.Success: sample count",
        "logway_kinesis_put_record_requests",
        "PutRecord to a stream",
    ),
    metric(
        "PutRecord.Success: sum",
        "logway_kinesis_put_record_success",
        "PutRecord that were not answered with an error",
    ),
    metric(
        "PutRecords.Bytes",
        "logway_kinesis_put_records_bytes",
        "Data and keys that PutRecords was given",
    ),
    metric(
        "PutRecords.FailedRecords",
        "logway_kinesis_put_records_failed_records",
        "Records of PutRecords that failed, without throttled ones",
    ),
    metric(
        "PutRecords.Latency",
        "logway_kinesis_put_records_latency_milliseconds",
        "What all PutRecords have taken together",
    ),
    metric(
        "PutRecords.Success: sample count",
        "logway_kinesis_put_records_requests",
        "PutRecords to a stream",
    ),
    metric(
        "PutRecords.Success: sum",
        "logway_kinesis_put_records_success",
        "PutRecords of which at least one record was put",
    ),
    metric(
        "PutRecords.SuccessfulRecords",
        "logway_kinesis_put_records_successful_records",
        "Records that PutRecords has put",
    ),
    metric(
        "PutRecords.ThrottledRecords",
        "logway_kinesis_put_records_throttled_records",
        "Records of PutRecords beyond the limits of their shards",
    ),
    metric(
        "PutRecords.TotalRecords",
        "logway_kinesis_put_records_total_records",
        "Records that PutRecords was given",
    ),
    metric(
        "ReadProvisionedThroughputExceeded",
        "logway_kinesis_read_provisioned_throughput_exceeded",
        "GetRecords beyond the limits of a shard",
    ),
    metric(
        "SubscribeToShardEvent.Bytes",
        "logway_kinesis_subscribe_to_shard_event_bytes",
        "Data and keys that subscribers were sent",
    ),
    metric(
        "SubscribeToShardEvent.Success",
        "logway_kinesis_subscribe_to_shard_event_success",
        "Events that subscribers have taken",
    ),
    metric(
        "SubscribeToShard.RateExceeded",
        "logway_kinesis_subscribe_to_shard_rate_exceeded",
        "Subscriptions that were refused because there was another one just now",
    ),
    metric(
        "SubscribeToShardEvent.Records",
        "logway_kinesis_subscribe_to_shard_event_records",
        "Records that subscribers were sent",
    ),
    metric(
        "SubscribeToShard.Success",
        "logway_kinesis_subscribe_to_shard_success",
        "Subscriptions that were made",
    ),
    metric(
        "WriteProvisionedThroughputExceeded",
        "logway_kinesis_write_provisioned_throughput_exceeded",
        "Records beyond the limits of a shard",
    ),
];

/// What is counted of a shard, by its place in [`SHARD_METRICS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum CountedOfShard {
    IncomingBytes,
    IncomingRecords,
    OutgoingBytes,
    OutgoingRecords,
    ReadExceeded,
    WriteExceeded,
}

pub(super) const SHARD_METRIC_COUNT: usize = 6;

/// In the order of [`CountedOfShard`]. They are shown where the stream's enhanced monitoring has them.
pub(super) const SHARD_METRICS: [Metric; SHARD_METRIC_COUNT] = [
    metric(
        "IncomingBytes",
        "logway_kinesis_shard_incoming_bytes",
        "Data and keys that were put into a shard",
    ),
    metric(
        "IncomingRecords",
        "logway_kinesis_shard_incoming_records",
        "Records that were put into a shard",
    ),
    metric(
        "OutgoingBytes",
        "logway_kinesis_shard_outgoing_bytes",
        "Data and keys that GetRecords has given of a shard",
    ),
    metric(
        "OutgoingRecords",
        "logway_kinesis_shard_outgoing_records",
        "Records that GetRecords has given of a shard",
    ),
    metric(
        "ReadProvisionedThroughputExceeded",
        "logway_kinesis_shard_read_provisioned_throughput_exceeded",
        "GetRecords beyond the limits of a shard",
    ),
    metric(
        "WriteProvisionedThroughputExceeded",
        "logway_kinesis_shard_write_provisioned_throughput_exceeded",
        "Records beyond the limits of a shard",
    ),
];

/// The age of what GetRecords has given, of a stream.
pub(super) const STREAM_AGE: Metric = metric(
    "GetRecords.IteratorAgeMilliseconds",
    "logway_kinesis_get_records_iterator_age_milliseconds",
    "How old the last record of the latest GetRecords was, of the shard where it was oldest; 0 at the end of all",
);

/// The same of a shard.
pub(super) const SHARD_AGE: Metric = metric(
    "IteratorAgeMilliseconds",
    "logway_kinesis_shard_iterator_age_milliseconds",
    "How old the last record of the latest GetRecords of a shard was; 0 at its end",
);

/// How far subscribers are behind.
pub(super) const STREAM_BEHIND: Metric = metric(
    "SubscribeToShardEvent.MillisBehindLatest",
    "logway_kinesis_subscribe_to_shard_event_behind_milliseconds",
    "How far the latest event of a subscriber was behind, of the shard where it was furthest",
);
