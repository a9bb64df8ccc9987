//! Instants as the wire has them.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use time::format_description::well_known::Rfc3339;
use time::{OffsetDateTime, UtcOffset};

/// An instant in UTC, to the microsecond.
///
/// On the wire it is RFC 3339 with a `Z` and as many fractional digits as it needs (none to six). Any offset is accepted and
/// normalised; digits beyond the sixth are cut. Ordering is that of the instants.
///
/// ```
/// # use beepgrid::model::Timestamp;
/// let at: Timestamp = "2026-11-30T12:00:00.5+03:00".parse()?;
/// assert_eq!(at.to_string(), "2026-11-30T09:00:00.5Z");
/// # Ok::<(), beepgrid::model::TimestampError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// The text is not an RFC 3339 time between the years 0 and 9999.
#[derive(Debug, thiserror::Error)]
#[error("not an RFC 3339 time such as 2026-11-30T12:00:00Z")]
pub struct TimestampError(#[source] Option<time::error::Parse>);

impl Timestamp {
    /// `9999-01-01T00:00:00Z`: how the wire writes "no deadline".
    pub const NEVER: Self = Self(253_370_764_800_000_000);

    /// The first instant that can be written (year 0).
    pub const MIN: Self = Self(-62_167_219_200_000_000);
    /// The last instant that can be written (year 9999).
    pub const MAX: Self = Self(253_402_300_799_999_999);

    /// From microseconds since 1970; clamped to what can be written.
    pub fn from_micros(micros: i64) -> Self {
        Self(micros.clamp(Self::MIN.0, Self::MAX.0))
    }

    /// Microseconds since 1970.
    pub fn as_micros(self) -> i64 {
        self.0
    }

    /// This instant plus a duration; clamped to [`Timestamp::MAX`].
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self::from_micros(self.0.saturating_add(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)))
    }

    /// This instant minus a duration; clamped to [`Timestamp::MIN`].
    #[must_use]
    pub fn minus(self, duration: Duration) -> Self {
        Self::from_micros(self.0.saturating_sub(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)))
    }

    /// How long it is from `earlier` to here; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl std::str::FromStr for Timestamp {
    type Err = TimestampError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let at = OffsetDateTime::parse(text, &Rfc3339).map_err(|e| TimestampError(Some(e)))?;
        let micros = at.unix_timestamp_nanos().div_euclid(1_000);
        let micros = i64::try_from(micros).map_err(|_| TimestampError(None))?;
        if (Self::MIN.0..=Self::MAX.0).contains(&micros) { Ok(Self(micros)) } else { Err(TimestampError(None)) }
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Infallible: every value is between MIN and MAX, which `time` can hold and RFC 3339 can write.
        let at = OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0) * 1_000)
            .map_err(|_| fmt::Error)?
            .to_offset(UtcOffset::UTC);
        f.write_str(&at.format(&Rfc3339).map_err(|_| fmt::Error)?)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Timestamp {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Timestamp".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "format": "date-time" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(text: &str) -> String {
        text.parse::<Timestamp>().unwrap().to_string()
    }

    #[test]
    fn offsets_are_normalised_and_microseconds_kept() {
        assert_eq!(wire("2026-11-30T12:00:00Z"), "2026-11-30T12:00:00Z");
        assert_eq!(wire("2026-11-30T12:00:00+03:00"), "2026-11-30T09:00:00Z");
        assert_eq!(wire("2026-11-30T12:00:00.123456789Z"), "2026-11-30T12:00:00.123456Z");
        assert_eq!(wire("2026-11-30T12:00:00.10Z"), "2026-11-30T12:00:00.1Z");
        assert_eq!(wire("9999-01-01T00:00:00Z").parse::<Timestamp>().unwrap(), Timestamp::NEVER);
    }

    #[test]
    fn order_is_that_of_the_instant() {
        let a: Timestamp = "2026-11-30T12:00:00.5Z".parse().unwrap();
        let b: Timestamp = "2026-11-30T12:00:00.123Z".parse().unwrap();
        let c: Timestamp = "2026-11-30T15:00:00.2+03:00".parse().unwrap();
        assert!(b < c && c < a);
    }

    #[test]
    fn the_edges_can_be_written_and_read() {
        for at in [Timestamp::MIN, Timestamp::MAX, Timestamp::NEVER, Timestamp::from_micros(0), Timestamp::from_micros(-1)] {
            assert_eq!(at.to_string().parse::<Timestamp>().unwrap(), at);
        }
        assert!("yesterday".parse::<Timestamp>().is_err());
    }
}
