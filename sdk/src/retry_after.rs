//! Reads `Retry-After`: seconds, or a date in any of the three forms that HTTP allows. Pure.

use std::time::Duration;

use crate::model::Timestamp;

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// How long to wait, counted from `now`; `None` for what is neither a plain number of seconds nor a date.
///
/// A date in the past is a wait of zero. A number too large to hold is the longest wait there is, not none.
pub(crate) fn parse(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim_matches([' ', '\t']);
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    Some(date(text, now)?.since(now))
}

/// A date as in `Date` and `Retry-After` headers.
pub(crate) fn date(text: &str, now: Timestamp) -> Option<Timestamp> {
    let (_weekday, rest) = text.split_once(' ')?;
    let words: Vec<&str> = rest.split_ascii_whitespace().collect();
    match *words.as_slice() {
        // Sun, 06 Nov 1994 08:49:37 GMT
        [day, month, year, clock, "GMT"] if text.contains(',') => instant(year.parse().ok()?, month, day, clock),
        // Sunday, 06-Nov-94 08:49:37 GMT
        [date, clock, "GMT"] if text.contains(',') => {
            let mut parts = date.split('-');
            let (day, month, year) = (parts.next()?, parts.next()?, parts.next()?);
            instant(near_year(year, now)?, month, day, clock)
        }
        // Sun Nov  6 08:49:37 1994
        [month, day, clock, year] => instant(year.parse().ok()?, month, day, clock),
        _ => None,
    }
}

/// The year that ends in these two digits and is at most fifty years ahead.
fn near_year(two_digits: &str, now: Timestamp) -> Option<i64> {
    if two_digits.len() != 2 {
        return None;
    }
    let short: i64 = two_digits.parse().ok()?;
    let this_year = 1970 + now.as_micros().div_euclid(1_000_000) / 31_556_952;
    let candidate = this_year - this_year.rem_euclid(100) + short;
    Some(if candidate > this_year + 50 { candidate - 100 } else { candidate })
}

fn instant(year: i64, month: &str, day: &str, clock: &str) -> Option<Timestamp> {
    let month = i64::try_from(MONTHS.iter().position(|name| *name == month)?).ok()? + 1;
    let day: i64 = number(day)?;
    let mut parts = clock.split(':');
    let (hour, minute, second) = (number(parts.next()?)?, number(parts.next()?)?, number(parts.next()?)?);
    let sane = (1..=31).contains(&day) && hour < 24 && minute < 60 && second <= 60 && (1..=9999).contains(&year);
    if !sane || parts.next().is_some() {
        return None;
    }
    let seconds = days_since_epoch(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second;
    Some(Timestamp::from_micros(seconds.saturating_mul(1_000_000)))
}

fn number(digits: &str) -> Option<i64> {
    let plain = (1..=2).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    if plain { digits.parse().ok() } else { None }
}

/// Days from 1970-01-01 in the Gregorian calendar (March-based years, so that the leap day is the last one).
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn now() -> Timestamp {
        "2026-11-30T12:00:00Z".parse().unwrap()
    }

    fn seconds(text: &str) -> Option<u64> {
        parse(text, now()).map(|wait| wait.as_secs())
    }

    #[test]
    fn seconds_are_seconds_however_many() {
        assert_eq!(seconds("0"), Some(0));
        assert_eq!(seconds("3"), Some(3));
        assert_eq!(seconds("120"), Some(120));
        assert_eq!(seconds("86400"), Some(86_400));
        assert_eq!(seconds(" 7\t"), Some(7));
        assert_eq!(seconds("99999999999999999999999999"), Some(u64::MAX));
    }

    #[test]
    fn junk_signs_and_fractions_are_no_wait() {
        for text in
            ["", "-1", "+5", "1.5", "3s", "soon", "0x10", "١٢", "Mon, 30 Foo 2026 12:00:10 GMT", "Mon, 30 Nov 2026 25:00:10 GMT"]
        {
            assert_eq!(parse(text, now()), None, "{text:?}");
        }
    }

    #[test]
    fn dates_in_all_three_forms_count_from_now() {
        assert_eq!(seconds("Mon, 30 Nov 2026 12:00:10 GMT"), Some(10));
        assert_eq!(seconds("Monday, 30-Nov-26 12:00:10 GMT"), Some(10));
        assert_eq!(seconds("Mon Nov 30 12:00:10 2026"), Some(10));
        assert_eq!(seconds("Tue Dec  1 12:00:00 2026"), Some(86_400));
    }

    #[test]
    fn a_date_in_the_past_is_no_wait_at_all() {
        assert_eq!(seconds("Sun, 06 Nov 1994 08:49:37 GMT"), Some(0));
        assert_eq!(seconds("Sunday, 06-Nov-94 08:49:37 GMT"), Some(0));
        assert_eq!(date("Sunday, 06-Nov-94 08:49:37 GMT", now()), Some("1994-11-06T08:49:37Z".parse().unwrap()));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,60}") {
            let _ = parse(&text, now());
        }

        #[test]
        fn a_date_is_read_as_the_instant_it_names(day in 0_i64..2_900_000, second in 0_i64..86_400) {
            let at = Timestamp::from_micros((day - 719_000) * 86_400_000_000 + second * 1_000_000);
            let wire = at.to_string();
            let (date_part, clock) = wire.split_once('T').unwrap();
            let mut parts = date_part.split('-');
            let (year, month, day) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
            let month = MONTHS[month.parse::<usize>().unwrap() - 1];
            let text = format!("Mon, {day} {month} {year} {} GMT", clock.trim_end_matches('Z'));
            prop_assert_eq!(date(&text, now()), Some(at));
        }
    }
}
