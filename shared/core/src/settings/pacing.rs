//! How patiently pages wait for models, how many calls are in flight, and whether calls are doubled.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};

use super::{parse_duration, reader::show_duration};

/// How long a page is retried after rounds that failed for reasons that pass: `PATIENCE`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Patience {
    /// Until the job's deadline.
    #[default]
    Deadline,
    /// For this long after its first round.
    For(Duration),
    /// Each model is called once.
    OneRound,
}

impl Patience {
    pub const ACCEPTED: &str = "deadline, 0 for one round, or a time with its unit such as 90s";
}

impl FromStr for Patience {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim().to_ascii_lowercase().as_str() {
            "deadline" => Ok(Self::Deadline),
            "0" | "0s" => Ok(Self::OneRound),
            time => {
                parse_duration(time).map(Self::For).map_err(|_| format!("{text:?} is not {}", Self::ACCEPTED))
            }
        }
    }
}

impl fmt::Display for Patience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deadline => f.write_str("deadline"),
            Self::For(time) => f.write_str(&show_duration(time)),
            Self::OneRound => f.write_str("0"),
        }
    }
}

impl Serialize for Patience {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Patience {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The upper bound of the calls in flight to one model: `MAX_INFLIGHT_PER_MODEL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaxInflight {
    /// Found out while calls are made.
    Auto,
    /// Set by the operator, never exceeded.
    AtMost(u32),
}

impl MaxInflight {
    /// Where an automatic limit starts and ends.
    pub const INITIAL: u32 = 24;
    pub const MAX: u32 = 512;
    /// How far it grows before the first answer.
    pub const MAX_UNANSWERED: u32 = 48;

    pub fn max(self) -> u32 {
        match self {
            Self::Auto => Self::MAX,
            Self::AtMost(limit) => limit,
        }
    }

    /// The limit before anything is known about a model.
    pub fn initial(self) -> u32 {
        match self {
            Self::Auto => Self::INITIAL,
            Self::AtMost(limit) => limit,
        }
    }
}

/// Whether calls that take unusually long are doubled with the next model: `HEDGE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hedging {
    Auto,
    Off,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_is_read_as_it_is_written() {
        for (text, patience) in [
            ("deadline", Patience::Deadline),
            ("0", Patience::OneRound),
            ("90s", Patience::For(Duration::from_secs(90))),
            ("2m", Patience::For(Duration::from_secs(120))),
        ] {
            assert_eq!(text.parse(), Ok(patience));
            assert_eq!(patience.to_string(), text);
        }
        assert!("soon".parse::<Patience>().unwrap_err().contains("deadline, 0 for one round"));
    }
}
