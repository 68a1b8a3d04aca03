//! Dates of the proleptic Gregorian calendar, as days since 1970-01-01.
//!
//! Years are counted from March, in eras of 400, so that the leap day comes last (Howard Hinnant, "chrono-Compatible Low-Level
//! Date Algorithms": `days_from_civil` and `civil_from_days`).

/// The days from 1970-01-01 to a date; months and days are counted from 1. A day beyond the end of its month is in the next one.
pub fn days_of_date(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The year, month and day that is so many days after 1970-01-01.
pub fn date_of_days(days: i64) -> (i64, i64, i64) {
    let from_march = days + 719_468;
    let (era, day_of_era) = (from_march.div_euclid(146_097), from_march.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_day_has_a_date_and_each_date_its_day() {
        for days in (-800_000..800_000).step_by(37) {
            let (year, month, day) = date_of_days(days);
            assert_eq!(days_of_date(year, month, day), days, "{year}-{month}-{day}");
        }
        let dates = [(0, (1970, 1, 1)), (-1, (1969, 12, 31)), (11_016, (2000, 2, 29))];
        for (days, date) in dates {
            assert_eq!(date_of_days(days), date);
        }
    }
}
