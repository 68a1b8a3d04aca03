//! From requests to samples.

use super::gauges::{Sample, Series};
use crate::error::ApiError;
use crate::value::{Structure, Value};

/// Numbers of CloudWatch are between this and its negative.
const NUMBER_MAX: f64 = 2.348_542_582_773_833_3e108;

/// As much of dimensions is shown, in characters.
const DIMENSIONS_CHARS_MAX: usize = 1_024;

/// What a request says of metrics.
pub(super) fn samples(input: &Structure) -> Result<Vec<(Series, Sample)>, ApiError> {
    let namespace = input.text("Namespace").unwrap_or_default();
    let mut samples = Vec::new();
    for (index, datum) in input.list("MetricData").iter().enumerate() {
        let Value::Structure(datum) = datum else { continue };
        let path = format!("MetricData.member.{}", index + 1);
        let series = Series {
            namespace: namespace.to_owned(),
            metric: datum.text("MetricName").unwrap_or_default().to_owned(),
            dimensions: dimensions(datum),
            unit: datum.text("Unit").unwrap_or("None").to_owned(),
        };
        samples.push((series, sample(datum, &path)?));
    }
    Ok(samples)
}

fn dimensions(datum: &Structure) -> String {
    let pairs = datum.list("Dimensions").iter().filter_map(|dimension| match dimension {
        Value::Structure(dimension) => {
            Some(format!("{}={}", dimension.text("Name")?, dimension.text("Value")?))
        }
        _ => None,
    });
    let mut pairs: Vec<String> = pairs.collect();
    pairs.sort();
    pairs.join(",").chars().take(DIMENSIONS_CHARS_MAX).collect()
}

fn number(structure: &Structure, member: &str, path: &str) -> Result<Option<f64>, ApiError> {
    match structure.get(member) {
        Some(Value::Double(number)) => checked(*number, &format!("{path}.{member}")).map(Some),
        _ => Ok(None),
    }
}

fn checked(number: f64, path: &str) -> Result<f64, ApiError> {
    match number.is_finite() && number.abs() <= NUMBER_MAX {
        true => Ok(number),
        false => {
            let message = format!("The value {number} for parameter {path} is invalid.");
            Err(ApiError::new("InvalidParameterValue", message))
        }
    }
}

fn sample(datum: &Structure, path: &str) -> Result<Sample, ApiError> {
    if let Some(set) = datum.structure("StatisticValues") {
        let path = format!("{path}.StatisticValues");
        let number = |member| number(set, member, &path).map(|number| number.unwrap_or_default());
        return Ok(Sample {
            count: number("SampleCount")?,
            sum: number("Sum")?,
            minimum: number("Minimum")?,
            maximum: number("Maximum")?,
        });
    }
    if let Some(value) = number(datum, "Value", path)? {
        return Ok(Sample::of(value, 1.0));
    }
    let values = numbers(datum, "Values", path)?;
    let counts = numbers(datum, "Counts", path)?;
    if !counts.is_empty() && counts.len() != values.len() {
        let message =
            format!("The parameters {path}.Values and {path}.Counts must be of the same size.");
        return Err(ApiError::new("InvalidParameterValue", message));
    }
    let counts = counts.into_iter().chain(std::iter::repeat(1.0));
    let samples = values.into_iter().zip(counts).map(|(value, count)| Sample::of(value, count));
    samples.reduce(Sample::with).ok_or_else(|| {
        let message = format!(
            "At least one of {path}.Value, {path}.Values and {path}.StatisticValues is required."
        );
        ApiError::new("MissingParameter", message)
    })
}

fn numbers(datum: &Structure, member: &str, path: &str) -> Result<Vec<f64>, ApiError> {
    let doubles = datum.list(member).iter().filter_map(|value| match value {
        Value::Double(number) => Some(*number),
        _ => None,
    });
    doubles.map(|number| checked(number, &format!("{path}.{member}"))).collect()
}
