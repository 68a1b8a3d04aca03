//! Which files events are in, and what those are called (Flume's `BucketWriter` and `BucketPath`).

use super::client::PATH_BYTES_MAX;
use crate::error::{StartError, because};
use crate::event::Event;
use crate::settings::Settings;
use crate::sink::paths::directory;
use crate::sink::template::{Template, stated_ms};

/// Names are longer than their bucket's path by the number, the suffix and what marks a file that grows.
const OWN_NAME_BYTES: usize = 512;

const SECOND_MS: i64 = 1000;

pub(super) struct Naming {
    /// The path, a slash, and what names begin with.
    bucket: Template,
    is_absolute: bool,
    suffix: String,
    in_use_prefix: String,
    in_use_suffix: String,
    uses_local_time: bool,
    rounding: Option<Rounding>,
}

/// A part of a time that is made a multiple of something.
#[derive(Debug, Clone, Copy)]
struct Rounding {
    unit_ms: i64,
    /// The parts that the next larger unit has.
    of: i64,
    multiple: i64,
}

impl Naming {
    pub(super) fn new(
        settings: &Settings,
        path: &str,
        extension: &str,
    ) -> Result<Naming, StartError> {
        let text = |key: &str| settings.text(key).unwrap_or_default().trim().to_owned();
        let prefix = text("hdfs.filePrefix");
        let bucket = Template::parse(&format!("{}/{prefix}", path.trim_end_matches('/')))
            .map_err(because("hdfs.path or hdfs.filePrefix"))?;
        let suffix = match text("hdfs.fileSuffix") {
            none if none.is_empty() => extension.to_owned(),
            suffix => suffix,
        };
        let in_use_suffix = match settings.flag("hdfs.emptyInUseSuffix") {
            true => String::new(),
            false => text("hdfs.inUseSuffix"),
        };
        let in_use_prefix = text("hdfs.inUsePrefix");
        let around = suffix.len() + in_use_prefix.len() + in_use_suffix.len();
        if around > OWN_NAME_BYTES / 2 || [&suffix, &in_use_suffix].iter().any(|t| t.contains('/'))
        {
            return Err(format!(
                "a suffix has a '/', or suffixes and prefixes have more than {} bytes",
                OWN_NAME_BYTES / 2
            ));
        }
        Ok(Naming {
            bucket,
            is_absolute: path.starts_with('/'),
            suffix,
            in_use_prefix,
            in_use_suffix,
            uses_local_time: settings.flag("hdfs.useLocalTimeStamp"),
            rounding: Rounding::new(settings)?,
        })
    }

    /// The bucket of an event: the path and the beginning of the name of its file.
    pub(super) fn bucket(&self, event: &Event, now_ms: i64) -> Result<String, String> {
        let time_ms = match self.uses_local_time {
            true => Some(now_ms),
            false => stated_ms(event),
        };
        if time_ms.is_none() && self.bucket.has_time() {
            return Err(
                "hdfs.path has a part of a time, and the event has no header 'timestamp'; hdfs.useLocalTimeStamp takes the time of writing"
                    .to_owned(),
            );
        }
        let time_ms = time_ms.unwrap_or(now_ms);
        let time_ms = self.rounding.map_or(time_ms, |rounding| rounding.down(time_ms));
        let path = self.bucket.of_time(event, time_ms);
        let mut path = directory(&path, self.is_absolute, PATH_BYTES_MAX - OWN_NAME_BYTES)?;
        path.pop();
        Ok(path)
    }

    /// What a bucket's file is called when it is complete.
    pub(super) fn complete(&self, bucket: &str, number: i64) -> String {
        format!("{bucket}.{number}{}", self.suffix)
    }

    /// What it is called before.
    pub(super) fn in_use(&self, bucket: &str, number: i64) -> String {
        let complete = self.complete(bucket, number);
        let name_at = complete.rfind('/').map_or(0, |slash| slash + 1);
        let (directory, name) = complete.split_at(name_at);
        format!("{directory}{}{name}{}", self.in_use_prefix, self.in_use_suffix)
    }
}

impl Rounding {
    fn new(settings: &Settings) -> Result<Option<Rounding>, StartError> {
        if !settings.flag("hdfs.round") {
            return Ok(None);
        }
        let multiple = settings.number("hdfs.roundValue") as i64;
        let unit = settings.required("hdfs.roundUnit").trim().to_lowercase();
        let (unit_ms, of) = match unit.as_str() {
            "hour" => (3600 * SECOND_MS, 24),
            "minute" => (60 * SECOND_MS, 60),
            _ => (SECOND_MS, 60),
        };
        if !(1..=of).contains(&multiple) {
            return Err(format!("hdfs.roundValue is {multiple}, and a {unit} has 1 to {of}"));
        }
        Ok(Some(Rounding { unit_ms, of, multiple }))
    }

    fn down(self, time_ms: i64) -> i64 {
        let units = time_ms.div_euclid(self.unit_ms);
        let part = units.rem_euclid(self.of);
        (units - part % self.multiple) * self.unit_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_within_the_next_larger_unit() {
        // 2026-11-27T15:04:05.678Z
        let time_ms = 1_795_791_845_678;
        let down = |unit_ms, of, multiple| Rounding { unit_ms, of, multiple }.down(time_ms);
        assert_eq!(down(SECOND_MS, 60, 1), 1_795_791_845_000);
        assert_eq!(down(SECOND_MS, 60, 10), 1_795_791_840_000);
        // 15:00:00, 12:00:00
        assert_eq!(down(60 * SECOND_MS, 60, 10), 1_795_791_600_000);
        assert_eq!(down(3600 * SECOND_MS, 24, 6), 1_795_780_800_000);
    }
}
