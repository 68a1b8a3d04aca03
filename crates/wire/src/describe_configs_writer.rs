//! A DescribeConfigs response that is written as it is made.

use crate::frame::{begin_response, finish_frame};
use crate::messages::DescribeConfigsResponse;
use crate::messages::describe_configs_response::DescribeConfigsResult;
use crate::wire_struct::WireStruct;
use crate::{EncodeError, Encoded, Encoder, Message};

/// Writes the frame of a [`DescribeConfigsResponse`], one result after the other.
///
/// The settings of thousands of topics take several times as much memory in structs as on the wire. So each result is
/// written as soon as it is made, and dropped before the next one is.
#[derive(Debug)]
pub struct DescribeConfigsWriter {
    to: Encoder,
    version: i16,
    throttle_time_at_bytes: usize,
    results_left: usize,
}

impl DescribeConfigsWriter {
    /// A frame of `result_count` results.
    ///
    /// # Errors
    /// The version does not exist.
    pub fn new(
        correlation_id: i32,
        version: i16,
        result_count: usize,
    ) -> Result<DescribeConfigsWriter, EncodeError> {
        let mut to = begin_response::<DescribeConfigsResponse>(correlation_id, version)?;
        to.check_version::<DescribeConfigsResponse>(version)?;
        let throttle_time_at_bytes = to.len_bytes();
        to.i32(0);
        let flexible = is_flexible(version);
        to.long_len("DescribeConfigsResponse.results", flexible, Some(result_count))?;
        Ok(DescribeConfigsWriter {
            to,
            version,
            throttle_time_at_bytes,
            results_left: result_count,
        })
    }

    /// Writes the next result.
    ///
    /// # Errors
    /// The version cannot carry one of its values.
    pub fn write(&mut self, result: &DescribeConfigsResult) -> Result<(), EncodeError> {
        self.write_within(result, usize::MAX).map(drop)
    }

    /// Writes the next result if that leaves the frame no longer than `frame_bytes_max`. Returns whether it did.
    ///
    /// # Errors
    /// The version cannot carry one of its values.
    pub fn write_within(
        &mut self,
        result: &DescribeConfigsResult,
        frame_bytes_max: usize,
    ) -> Result<bool, EncodeError> {
        let before_bytes = self.to.len_bytes();
        result.encode(&mut self.to, self.version)?;
        let fits = self.to.len_bytes() <= frame_bytes_max;
        match fits {
            true => {
                let left = self.results_left.checked_sub(1);
                self.results_left = left.expect("there are no more results than were announced");
            }
            false => self.to.truncate(before_bytes),
        }
        Ok(fits)
    }

    /// The frame, of which all results are written.
    ///
    /// # Errors
    /// It is longer than a frame can be.
    pub fn finish(mut self, throttle_time_ms: i32) -> Result<Encoded, EncodeError> {
        assert_eq!(self.results_left, 0, "as many results are written as were announced");
        self.to.patch_i32(self.throttle_time_at_bytes, throttle_time_ms);
        let flexible = is_flexible(self.version);
        self.to.unknown_tagged_fields(
            DescribeConfigsResponse::NAME,
            self.version,
            flexible,
            &[],
        )?;
        finish_frame(self.to)
    }
}

fn is_flexible(version: i16) -> bool {
    DescribeConfigsResponse::FLEXIBLE_VERSIONS.contains(version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::describe_configs_response::DescribeConfigsResourceResult;
    use crate::{WireString, encode_response};

    fn result(name: &'static str) -> DescribeConfigsResult {
        let config = DescribeConfigsResourceResult {
            name: "retention.ms".into(),
            value: Some("1".into()),
            ..Default::default()
        };
        DescribeConfigsResult {
            resource_name: WireString::from_static(name),
            configs: vec![config; 3],
            ..Default::default()
        }
    }

    #[test]
    fn what_is_written_in_parts_is_the_message() {
        for version in 1..=4 {
            let results = vec![result("a"), result("b")];
            let mut writer = DescribeConfigsWriter::new(7, version, 2).expect("is a version");
            results.iter().for_each(|result| writer.write(result).expect("can be written"));
            let frame = writer.finish(9).expect("is short");
            let response = DescribeConfigsResponse {
                throttle_time_ms: 9,
                results,
                ..DescribeConfigsResponse::default()
            };
            let whole = encode_response(7, version, &response).expect("can be written");
            assert_eq!(frame, whole, "version {version}");
        }
        assert!(DescribeConfigsWriter::new(7, 5, 0).is_err());
    }

    #[test]
    fn a_result_that_does_not_fit_leaves_nothing_behind() {
        let mut writer = DescribeConfigsWriter::new(7, 4, 2).expect("is a version");
        assert_eq!(writer.write_within(&result("a"), 1_000), Ok(true));
        assert_eq!(writer.write_within(&result("too large"), 50), Ok(false));
        writer.write(&result("b")).expect("can be written");
        let response = DescribeConfigsResponse {
            results: vec![result("a"), result("b")],
            ..DescribeConfigsResponse::default()
        };
        let whole = encode_response(7, 4, &response).expect("can be written");
        assert_eq!(writer.finish(0), Ok(whole));
    }
}
