//! Levels of factors, as experiment files write them.

use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroU16;
use std::ops::RangeInclusive;
use std::str::FromStr;

use forebay_quantity::multiple;
use serde::de::{Deserializer, Error as _, IntoDeserializer, SeqAccess, Visitor};
use serde::{Deserialize, de};

/// The levels of one factor, in the order they are tried; never none.
#[derive(Clone, Debug, PartialEq)]
pub struct Levels<T>(Vec<T>);

impl<T> Levels<T> {
    /// One level: what a factor has that nobody varies.
    pub fn one(level: T) -> Self {
        Self(vec![level])
    }

    /// The levels.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }
}

/// One level may stand without brackets.
impl<'de, T: Deserialize<'de> + PartialEq> Deserialize<'de> for Levels<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMore<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de> + PartialEq> Visitor<'de> for OneOrMore<T> {
            type Value = Levels<T>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a level, or a list of levels")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Levels<T>, E> {
                T::deserialize(text.into_deserializer()).map(Levels::one)
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Levels<T>, E> {
                T::deserialize(number.into_deserializer()).map(Levels::one)
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Levels<T>, E> {
                T::deserialize(number.into_deserializer()).map(Levels::one)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Levels<T>, A::Error> {
                let mut levels = Vec::new();
                while let Some(level) = list.next_element()? {
                    if levels.contains(&level) {
                        return Err(A::Error::custom(format!(
                            "level {} of this factor is there already; give each level once",
                            levels.len() + 1
                        )));
                    }
                    levels.push(level);
                }
                if levels.is_empty() {
                    return Err(A::Error::custom(
                        "a factor without a level leaves nothing to measure; give at least one",
                    ));
                }
                Ok(Levels(levels))
            }
        }
        deserializer.deserialize_any(OneOrMore(PhantomData))
    }
}

/// A whole number of at least one: of clients that ask, of files, or of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtLeastOne(NonZeroU16);

impl AtLeastOne {
    /// The number.
    #[must_use]
    pub fn get(self) -> u16 {
        self.0.get()
    }
}

impl FromStr for AtLeastOne {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse()
            .map(Self)
            .map_err(|_| format!("'{text}' does not fit; give a whole number from 1 to 65535"))
    }
}

/// A number of bytes, or of bits a second: a number, with K, M or G behind it for its multiples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Amount {
    digits: u64,
    power: u32,
}

impl Amount {
    /// With binary multiples, as of bytes.
    #[must_use]
    pub fn bytes(self) -> u64 {
        self.digits << (10 * self.power)
    }

    /// With decimal multiples, as of bits a second.
    #[must_use]
    pub fn decimal(self) -> u64 {
        self.digits * 1000u64.pow(self.power)
    }

    /// As bytes, e.g. `10 KiB`.
    #[must_use]
    pub fn in_bytes(self) -> String {
        format!("{} {}", self.digits, ["B", "KiB", "MiB", "GiB"][self.power as usize])
    }

    /// As bits a second, e.g. `4 Mbit/s`.
    #[must_use]
    pub fn in_bits_per_second(self) -> String {
        format!("{} {}bit/s", self.digits, ["", "k", "M", "G"][self.power as usize])
    }
}

impl FromStr for Amount {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        const WRONG: &str = "give a number from 1 to 1048576, with K, M or G for its multiples, such as 64M";
        let fits = multiple(text).filter(|(digits, _)| (1..=1 << 20).contains(digits));
        fits.map(|(digits, power)| Self { digits, power }).ok_or(WRONG)
    }
}

/// No server runs with less memory.
const LEAST_BYTES: u64 = 64 << 10;

/// Memory that a server has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// All of the machine's: `all`.
    All,
    /// So much, for what it reads of files too: `64M`.
    Limited(Amount),
}

impl FromStr for Memory {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self::All);
        }
        let amount: Amount = text.parse().map_err(|wrong| format!("{wrong}, or \"all\""))?;
        if amount.bytes() < LEAST_BYTES {
            return Err(format!(
                "{text} is {}, with which no server runs; write {}M for mebibytes",
                amount.in_bytes(),
                amount.digits
            ));
        }
        Ok(Self::Limited(amount))
    }
}

/// Requests a second that clients can keep to: times between them have to be told, and the requests to be made.
const RATES: RangeInclusive<f64> = 1e-3..=1e7;

/// How requests are made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// Each client makes its next as soon as the last is answered: `most`.
    Most,
    /// So many a second in all, evenly spaced, however fast they are answered.
    PerSecond(f64),
}

impl FromStr for Rate {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let rate = || text.parse().ok().filter(|rate| RATES.contains(rate));
        let per_second = || {
            rate()
                .map(Self::PerSecond)
                .ok_or("give requests a second, from 0.001 to 10000000, such as 500, or \"most\"")
        };
        if text == "most" { Ok(Self::Most) } else { per_second() }
    }
}

/// A unit of time, as people and programs write it: `ms`, `msec`, `milliseconds`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeUnit {
    /// One of it, in seconds.
    pub seconds: f64,
}

impl FromStr for TimeUnit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let lower = text.to_lowercase();
        let of_one =
            if lower.chars().count() > 2 { lower.strip_suffix('s').unwrap_or(&lower) } else { &lower };
        let seconds = match of_one {
            "ns" | "nsec" | "nano" | "nanosecond" => 1e-9,
            "us" | "\u{b5}s" | "\u{3bc}s" | "usec" | "micro" | "microsecond" => 1e-6,
            "ms" | "msec" | "milli" | "millisecond" => 1e-3,
            "s" | "sec" | "second" => 1.0,
            "m" | "min" | "minute" => 60.0,
            "h" | "hr" | "hour" => 3600.0,
            _ => return Err(format!("'{text}' is no unit of time; give ns, us, ms, s, min or h")),
        };
        Ok(Self { seconds })
    }
}

/// These are read from text or from plain numbers.
macro_rules! deserialize_from_text {
    ($($kind:ty),*) => {$(
        impl<'de> Deserialize<'de> for $kind {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                text_or_number(deserializer)?.parse().map_err(D::Error::custom)
            }
        }
    )*};
}
deserialize_from_text!(AtLeastOne, Amount, Memory, Rate, TimeUnit);

fn text_or_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    struct Text;
    impl Visitor<'_> for Text {
        type Value = String;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a number, or text such as \"64M\"")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<String, E> {
            Ok(text.to_owned())
        }

        fn visit_i64<E: de::Error>(self, number: i64) -> Result<String, E> {
            Ok(number.to_string())
        }

        fn visit_f64<E: de::Error>(self, number: f64) -> Result<String, E> {
            Ok(number.to_string())
        }
    }
    deserializer.deserialize_any(Text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multiples_are_binary_for_bytes_and_decimal_for_bits() {
        let amount: Amount = "300K".parse().unwrap();
        assert_eq!((amount.bytes(), amount.decimal()), (300 << 10, 300_000));
        assert_eq!((amount.in_bytes(), amount.in_bits_per_second()), ("300 KiB".into(), "300 kbit/s".into()));
    }

    #[test]
    fn nonsense_is_refused() {
        for nonsense in ["", "0", "K", "1.5M", "10KB", "-1", "9999999"] {
            assert!(nonsense.parse::<Amount>().is_err(), "{nonsense}");
        }
        assert!("some".parse::<Memory>().unwrap_err().contains("\"all\""));
        assert_eq!(
            "64".parse::<Memory>().unwrap_err(),
            "64 is 64 B, with which no server runs; write 64M for mebibytes"
        );
        for nonsense in ["0", "-5", "inf", "1e-300", "1e300", "fast"] {
            assert!(nonsense.parse::<Rate>().is_err(), "{nonsense}");
        }
    }
}
