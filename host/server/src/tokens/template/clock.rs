//! Time as templates write it.

use minijinja::{Error, ErrorKind};

/// Letters of a format.
const LONGEST_FORMAT: usize = 1_000;

const DAY: i64 = 86_400;
const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// A moment, and how far the engines' clocks on the wall are from UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WallTime {
    /// Seconds since 1970 began, UTC.
    pub(crate) unix_seconds: i64,
    /// Seconds that are added to UTC.
    pub(crate) utc_offset: i32,
}

/// Python's `datetime.now().strftime`, in English.
pub(super) fn strftime(format: &str, now: WallTime) -> Result<String, Error> {
    if format.len() > LONGEST_FORMAT {
        let problem = format!("strftime_now takes a format of at most {LONGEST_FORMAT} bytes");
        return Err(Error::new(ErrorKind::InvalidOperation, problem));
    }
    let seconds = now.unix_seconds.saturating_add(i64::from(now.utc_offset));
    let (days, second) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let (year, month, day) = civil(days);
    let weekday = (days + 4).rem_euclid(7);
    let day_of_year = days - days_before(year);
    let name = |names: &[&'static str], at: i64| -> &'static str {
        usize::try_from(at).ok().and_then(|at| names.get(at)).copied().unwrap_or_default()
    };
    let hour12 = (hour + 11) % 12 + 1;
    let half = if hour < 12 { "AM" } else { "PM" };

    let mut text = String::with_capacity(format.len() + 8);
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            text.push(letter);
            continue;
        }
        let mut code = letters.next();
        let padded = code != Some('-');
        if !padded {
            code = letters.next();
        }
        let number = |value: i64, width: usize| {
            let width = if padded { width } else { 0 };
            format!("{value:0width$}")
        };
        let short = |name: &str| name.get(..3).unwrap_or_default().to_owned();
        text += &match code {
            Some('Y') => year.to_string(),
            Some('y') => number(year.rem_euclid(100), 2),
            Some('m') => number(month, 2),
            Some('B') => name(&MONTHS, month - 1).to_owned(),
            Some('b' | 'h') => short(name(&MONTHS, month - 1)),
            Some('d') => number(day, 2),
            Some('e') => format!("{day:2}"),
            Some('j') => number(day_of_year + 1, 3),
            Some('A') => name(&DAYS, weekday).to_owned(),
            Some('a') => short(name(&DAYS, weekday)),
            Some('w') => weekday.to_string(),
            Some('u') => ((weekday + 6) % 7 + 1).to_string(),
            Some('H') => number(hour, 2),
            Some('I') => number(hour12, 2),
            Some('M') => number(minute, 2),
            Some('S') => number(second, 2),
            Some('p') => half.to_owned(),
            Some('F') => format!("{year}-{month:02}-{day:02}"),
            Some('T') => format!("{hour:02}:{minute:02}:{second:02}"),
            Some('R') => format!("{hour:02}:{minute:02}"),
            Some('D') => format!("{month:02}/{day:02}/{:02}", year.rem_euclid(100)),
            Some('s') => now.unix_seconds.to_string(),
            // A time that knows no zone has none to write.
            Some('Z' | 'z') => String::new(),
            Some('n') => "\n".to_owned(),
            Some('t') => "\t".to_owned(),
            Some('%') => "%".to_owned(),
            other => {
                let other = other.map(String::from).unwrap_or_default();
                let problem = format!("strftime_now doesn't know %{other}");
                return Err(Error::new(ErrorKind::InvalidOperation, problem));
            }
        };
    }
    Ok(text)
}

/// Year, month and day of a day counted from 1970-01-01.
///
/// Years are taken to begin in March, so that the day that some years have more comes last.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

/// Days from 1970-01-01 to the year's first.
fn days_before(year: i64) -> i64 {
    let last = year - 1;
    365 * (year - 1970) + (last.div_euclid(4) - last.div_euclid(100) + last.div_euclid(400)) - 477
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_python_writes_them() {
        // Each line: seconds, offset, what Python 3.11 made of the format.
        let format = "%Y-%m-%d %H:%M:%S %A %a %B %b %j %y %I%p %u %w %-d/%-m %e %% %F %T";
        for (unix_seconds, utc_offset, expected) in [
            (
                0,
                0,
                "1970-01-01 00:00:00 Thursday Thu January Jan 001 70 12AM 4 4 1/1  1 % 1970-01-01 00:00:00",
            ),
            (
                1_709_210_096,
                0,
                "2024-02-29 12:34:56 Thursday Thu February Feb 060 24 12PM 4 4 29/2 29 % 2024-02-29 12:34:56",
            ),
            (
                1_735_689_599,
                0,
                "2024-12-31 23:59:59 Tuesday Tue December Dec 366 24 11PM 2 2 31/12 31 % 2024-12-31 23:59:59",
            ),
            (
                1_735_689_599,
                3600,
                "2025-01-01 00:59:59 Wednesday Wed January Jan 001 25 12AM 3 3 1/1  1 % 2025-01-01 00:59:59",
            ),
            (
                4_107_542_399,
                -7200,
                "2100-02-28 21:59:59 Sunday Sun February Feb 059 00 09PM 7 0 28/2 28 % 2100-02-28 21:59:59",
            ),
        ] {
            let now = WallTime { unix_seconds, utc_offset };
            assert_eq!(strftime(format, now).expect("it is known"), expected);
        }
        assert!(strftime("%Q", WallTime::default()).is_err());
        assert!(strftime("%", WallTime::default()).is_err());
        assert!(strftime(&"%Y".repeat(501), WallTime::default()).is_err());
    }
}
