//! Numbers as DynamoDB has them: decimal, exact, with up to 38 digits.

use std::cmp::Ordering;
use std::fmt;

/// Digits that a number may have.
const DIGITS_MAX: u32 = 38;

/// The exponent of the first digit is in this range.
const MAGNITUDE_MIN: i32 = -130;
const MAGNITUDE_MAX: i32 = 125;

/// Ten to the power of [`DIGITS_MAX`].
const LIMIT: u128 = 10_u128.pow(DIGITS_MAX);

/// A number: the mantissa times ten to the power of the exponent. The mantissa does not end with a zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Decimal {
    is_negative: bool,
    mantissa: u128,
    exponent: i32,
}

/// Why there is no such number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoDecimal {
    /// A text is none.
    NotANumber,
    /// It has too many digits.
    TooPrecise,
    /// It is too large.
    TooLarge,
    /// It is too close to zero.
    TooSmall,
}

impl NoDecimal {
    /// The same in AWS's words, of what was written so.
    pub(crate) fn message(&self, text: &str) -> String {
        match self {
            NoDecimal::NotANumber => {
                let text: String = text.chars().take(128).collect();
                format!("The parameter cannot be converted to a numeric value: {text}")
            }
            NoDecimal::TooPrecise => {
                "Attempting to store more than 38 significant digits in a Number".to_owned()
            }
            NoDecimal::TooLarge => {
                "Number overflow. Attempting to store a number with magnitude larger than \
                                    supported range"
                    .to_owned()
            }
            NoDecimal::TooSmall => {
                "Number underflow. Attempting to store a number with magnitude smaller than \
                                    supported range"
                    .to_owned()
            }
        }
    }
}

impl Decimal {
    const ZERO: Decimal = Decimal { is_negative: false, mantissa: 0, exponent: 0 };

    /// Reads `12`, `-1.5` or `1e-7`.
    pub(crate) fn parse(text: &str) -> Result<Decimal, NoDecimal> {
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let (digits, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((digits, exponent)) => (digits, exponent_of(exponent)?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let all = || whole.bytes().chain(fraction.bytes());
        if all().next().is_none() || !all().all(|digit| digit.is_ascii_digit()) {
            return Err(NoDecimal::NotANumber);
        }
        let fraction = i32::try_from(fraction.len()).map_err(|_| NoDecimal::TooPrecise)?;
        let mut exponent = exponent.saturating_sub(fraction);
        let (mut mantissa, mut zeros) = (0_u128, 0_u32);
        for digit in all().skip_while(|digit| *digit == b'0') {
            if digit == b'0' {
                zeros += 1;
                continue;
            }
            let shift = 10_u128.checked_pow(zeros + 1).ok_or(NoDecimal::TooPrecise)?;
            mantissa = mantissa
                .checked_mul(shift)
                .and_then(|it| it.checked_add(u128::from(digit - b'0')))
                .filter(|it| *it < LIMIT)
                .ok_or(NoDecimal::TooPrecise)?;
            zeros = 0;
        }
        exponent = exponent.saturating_add(i32::try_from(zeros).unwrap_or(i32::MAX));
        Decimal::of(text.starts_with('-'), mantissa, exponent)
    }

    fn of(is_negative: bool, mut mantissa: u128, mut exponent: i32) -> Result<Decimal, NoDecimal> {
        if mantissa == 0 {
            return Ok(Decimal::ZERO);
        }
        while mantissa.is_multiple_of(10) {
            mantissa /= 10;
            exponent = exponent.saturating_add(1);
        }
        if mantissa >= LIMIT {
            return Err(NoDecimal::TooPrecise);
        }
        let number = Decimal { is_negative, mantissa, exponent };
        match number.magnitude() {
            magnitude if magnitude > MAGNITUDE_MAX => Err(NoDecimal::TooLarge),
            magnitude if magnitude < MAGNITUDE_MIN => Err(NoDecimal::TooSmall),
            _ => Ok(number),
        }
    }

    /// The exponent of the first digit.
    fn magnitude(&self) -> i32 {
        let digits = self.mantissa.checked_ilog10().unwrap_or(0);
        self.exponent.saturating_add(i32::try_from(digits).unwrap_or(i32::MAX))
    }

    /// The sum.
    pub(crate) fn plus(self, other: Decimal) -> Result<Decimal, NoDecimal> {
        if self.mantissa == 0 || other.mantissa == 0 {
            return Ok(if self.mantissa == 0 { other } else { self });
        }
        let (high, low) =
            if self.exponent >= other.exponent { (self, other) } else { (other, self) };
        let shift = u32::try_from(high.exponent - low.exponent).unwrap_or(u32::MAX);
        let shifted = 10_u128
            .checked_pow(shift)
            .and_then(|shift| high.mantissa.checked_mul(shift))
            .ok_or(NoDecimal::TooPrecise)?;
        let (is_negative, mantissa) = match high.is_negative == low.is_negative {
            true => {
                (high.is_negative, shifted.checked_add(low.mantissa).ok_or(NoDecimal::TooPrecise)?)
            }
            false if shifted >= low.mantissa => (high.is_negative, shifted - low.mantissa),
            false => (low.is_negative, low.mantissa - shifted),
        };
        Decimal::of(is_negative, mantissa, low.exponent)
    }

    /// The same below zero, or above.
    pub(crate) fn negated(self) -> Decimal {
        Decimal { is_negative: !self.is_negative && self.mantissa != 0, ..self }
    }

    fn cmp_absolute(&self, other: &Decimal) -> Ordering {
        self.magnitude().cmp(&other.magnitude()).then_with(|| {
            // Of numbers that are as long, neither gets longer than they may be.
            let shift = self.exponent.abs_diff(other.exponent).min(DIGITS_MAX);
            let factor = 10_u128.pow(shift);
            match self.exponent >= other.exponent {
                true => self.mantissa.saturating_mul(factor).cmp(&other.mantissa),
                false => self.mantissa.cmp(&other.mantissa.saturating_mul(factor)),
            }
        })
    }

    fn sign(&self) -> i8 {
        match (self.mantissa, self.is_negative) {
            (0, _) => 0,
            (_, true) => -1,
            (_, false) => 1,
        }
    }
}

fn exponent_of(text: &str) -> Result<i32, NoDecimal> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(NoDecimal::NotANumber);
    }
    // What does not fit is out of range anyway.
    let far = if text.starts_with('-') { i32::MIN / 2 } else { i32::MAX / 2 };
    Ok(text.parse::<i32>().unwrap_or(far).clamp(i32::MIN / 2, i32::MAX / 2))
}

impl Ord for Decimal {
    fn cmp(&self, other: &Decimal) -> Ordering {
        self.sign().cmp(&other.sign()).then_with(|| match self.is_negative {
            true => other.cmp_absolute(self),
            false => self.cmp_absolute(other),
        })
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Decimal) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Without an exponent, as DynamoDB writes it.
impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_negative {
            f.write_str("-")?;
        }
        let digits = self.mantissa.to_string();
        let Ok(zeros) = usize::try_from(self.exponent) else {
            let behind = self.exponent.unsigned_abs() as usize;
            return match digits.len().checked_sub(behind).filter(|whole| *whole > 0) {
                Some(whole) => write!(f, "{}.{}", &digits[..whole], &digits[whole..]),
                None => write!(f, "0.{digits:0>behind$}"),
            };
        };
        write!(f, "{digits}{:0<zeros$}", "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal {
        Decimal::parse(text).expect("is a number")
    }

    #[test]
    fn numbers_are_written_in_one_way() {
        for (text, written) in [
            ("0", "0"),
            ("-0.0", "0"),
            ("007", "7"),
            ("1.50", "1.5"),
            ("-1e3", "-1000"),
            ("12.5E-4", "0.00125"),
            (".5", "0.5"),
            ("100", "100"),
            (
                "1000000000000000000000000000000000000000000000000",
                "1000000000000000000000000000000000000000000000000",
            ),
            ("99999999999999999999999999999999999999", "99999999999999999999999999999999999999"),
        ] {
            assert_eq!(decimal(text).to_string(), written);
            assert_eq!(decimal(written), decimal(text));
        }
    }

    #[test]
    fn what_is_no_number_is_told_why() {
        for (text, reason) in [
            ("", NoDecimal::NotANumber),
            ("-", NoDecimal::NotANumber),
            (".", NoDecimal::NotANumber),
            ("1e", NoDecimal::NotANumber),
            ("1 ", NoDecimal::NotANumber),
            ("NaN", NoDecimal::NotANumber),
            ("1e126", NoDecimal::TooLarge),
            ("1e99999999999", NoDecimal::TooLarge),
            ("1e-131", NoDecimal::TooSmall),
            ("1e-99999999999", NoDecimal::TooSmall),
            ("100000000000000000000000000000000000001", NoDecimal::TooPrecise),
        ] {
            assert_eq!(Decimal::parse(text), Err(reason), "{text}");
        }
        let long = format!("1{}1", "0".repeat(100_000));
        assert_eq!(Decimal::parse(&long), Err(NoDecimal::TooPrecise));
    }

    #[test]
    fn sums_are_exact() {
        for (one, other, sum) in [
            ("1", "2", "3"),
            ("0.1", "0.2", "0.3"),
            ("5", "-5", "0"),
            ("1e10", "-1", "9999999999"),
            ("-1", "1e10", "9999999999"),
            ("0", "-4", "-4"),
        ] {
            assert_eq!(decimal(one).plus(decimal(other)), Ok(decimal(sum)));
        }
        assert_eq!(decimal("1e50").plus(decimal("1")), Err(NoDecimal::TooPrecise));
        assert_eq!(decimal("7").negated(), decimal("-7"));
    }

    #[test]
    fn numbers_have_an_order() {
        let sorted = ["-1e20", "-20", "-3", "-0.5", "0", "1e-100", "0.5", "3", "20", "1e20"];
        let mut numbers: Vec<Decimal> = sorted.iter().rev().map(|text| decimal(text)).collect();
        numbers.sort();
        assert_eq!(numbers, sorted.map(decimal));
    }
}
