//! Names of streams, shards and consumers, as AWS writes them.

use logway_model::PartitionId;
use logway_model::calendar::date_of_days;

/// The names of an account in a region.
#[derive(Debug, Clone)]
pub(crate) struct Account {
    /// Twelve digits.
    pub(crate) id: String,
    /// As `us-east-1`.
    pub(crate) region: String,
}

/// What an ARN names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    /// The stream.
    pub(crate) stream: String,
    /// The consumer with the second of its registration, if it is one.
    pub(crate) consumer: Option<(String, i64)>,
}

impl Account {
    /// The ARN of a stream.
    pub(crate) fn stream_arn(&self, stream: &str) -> String {
        format!("arn:aws:kinesis:{}:{}:stream/{stream}", self.region, self.id)
    }

    /// The ARN of a consumer, with the second in which it was registered.
    pub(crate) fn consumer_arn(&self, stream: &str, consumer: &str, created_ms: i64) -> String {
        let created_s = created_ms.div_euclid(1_000);
        format!("{}/consumer/{consumer}:{created_s}", self.stream_arn(stream))
    }

    /// What an ARN names; `None` for one of another account, or of nothing that is here.
    pub(crate) fn named(&self, arn: &str) -> Option<Named> {
        let mut parts = arn.splitn(6, ':');
        let is_ours = parts.next() == Some("arn")
            && parts.next().is_some_and(|partition| partition.starts_with("aws"))
            && parts.next() == Some("kinesis")
            && parts.next().is_some()
            && parts.next() == Some(&self.id);
        let resource = parts.next().filter(|_| is_ours)?.strip_prefix("stream/")?;
        let Some((stream, consumer)) = resource.split_once("/consumer/") else {
            return Some(Named { stream: resource.to_owned(), consumer: None });
        };
        let (name, created_s) = consumer.rsplit_once(':')?;
        let consumer = Some((name.to_owned(), created_s.parse().ok()?));
        Some(Named { stream: stream.to_owned(), consumer })
    }
}

/// The name of a shard.
pub(crate) fn shard_id(shard: PartitionId) -> String {
    format!("shardId-{:012}", shard.0)
}

/// The shard of a name. AWS takes any prefix, and none.
pub(crate) fn shard_of_id(id: &str) -> Option<PartitionId> {
    let digits = id.split_once('-').map_or(id, |(_, digits)| digits);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number).map(PartitionId)
}

/// A time as AWS's messages have it: `Thu Jan 22 01:22:02 UTC 2015`.
pub(crate) fn message_time(ms: i64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let seconds = ms.div_euclid(1_000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = date_of_days(days);
    let weekday = DAYS[usize::try_from(days.rem_euclid(7)).unwrap_or(0)];
    let month = MONTHS[usize::try_from(month - 1).unwrap_or(0)];
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{weekday} {month} {day:02} {hour:02}:{minute:02}:{second:02} UTC {year}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_from_their_arns() {
        let account = Account { id: "000000000000".to_owned(), region: "us-east-1".to_owned() };
        let arn = account.consumer_arn("clicks", "app:1", 1_700_000_000_123);
        assert_eq!(
            arn,
            "arn:aws:kinesis:us-east-1:000000000000:stream/clicks/consumer/app:1:1700000000"
        );
        let consumer = Some(("app:1".to_owned(), 1_700_000_000));
        let stream = "clicks".to_owned();
        assert_eq!(account.named(&arn), Some(Named { stream: stream.clone(), consumer }));
        let arn = account.stream_arn("clicks");
        assert_eq!(account.named(&arn), Some(Named { stream, consumer: None }));
        for other in [
            "",
            "arn:aws:kinesis:us-east-1:111111111111:stream/clicks",
            "arn:aws:sqs:us-east-1:000000000000:stream/clicks",
            "arn:aws:kinesis:us-east-1:000000000000:topic/clicks",
            "arn:aws:kinesis:us-east-1:000000000000:stream/clicks/consumer/app",
        ] {
            assert_eq!(account.named(other), None, "{other}");
        }
    }

    #[test]
    fn shards_have_twelve_digits() {
        assert_eq!(shard_id(PartitionId(7)), "shardId-000000000007");
        for (id, shard) in [
            ("shardId-000000000007", Some(7)),
            ("7", Some(7)),
            ("a-7", Some(7)),
            ("shardId--1", None),
            ("shardId-", None),
            ("shardId-99999999999", None),
            ("+7", None),
        ] {
            assert_eq!(shard_of_id(id), shard.map(PartitionId), "{id}");
        }
    }

    #[test]
    fn times_are_those_of_aws() {
        assert_eq!(message_time(1_421_889_722_000), "Thu Jan 22 01:22:02 UTC 2015");
        assert_eq!(message_time(0), "Thu Jan 01 00:00:00 UTC 1970");
        assert_eq!(message_time(951_782_400_000), "Tue Feb 29 00:00:00 UTC 2000");
        assert_eq!(message_time(1_735_689_599_999), "Tue Dec 31 23:59:59 UTC 2024");
    }
}
