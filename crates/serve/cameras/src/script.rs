//! Scripts: names, users, faults and motion of cameras, in TOML. An error has its line and column, and what was expected there.

use core::fmt::{self, Display};
use core::ops::{Range, RangeInclusive};

use forebay_rtsp::range::SECOND_NS;
use serde::de::{Deserialize, Deserializer, Error as _};
use toml::Spanned;

use crate::faults::{Kind, Times};
use crate::plan::Login;

/// A script.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Script {
    /// Of cameras that have none of their own.
    pub(crate) login: Option<Login>,
    pub(crate) cameras: Vec<Named>,
    pub(crate) faults: Vec<Planned>,
    pub(crate) motions: Vec<Moving>,
}

/// What a script says of one camera.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Named {
    pub number: u32,
    pub name: Option<String>,
    pub login: Option<Login>,
}

/// A fault.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Planned {
    pub kind: Kind,
    pub concerned: Concerned,
    /// Whether its draws are those of the other usual faults: a camera has one of them at most.
    pub is_usual: bool,
}

/// Something moves before cameras.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Moving {
    pub concerned: Concerned,
    /// Whether its time is counted in the film.
    pub is_in_film: bool,
}

/// Which cameras something concerns, and when.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Concerned {
    pub times: Times,
    /// Ranges of numbers; all cameras without any.
    pub cameras: Vec<RangeInclusive<u32>>,
    /// The draws, from 0 to 1, of those cameras that have it.
    pub share: Range<f64>,
    /// Whether it begins at the same time in all of them.
    pub is_together: bool,
}

/// A script that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptError {
    /// Where, from 1.
    pub line: usize,
    /// Where in the line, in characters from 1.
    pub column: usize,
    /// What was expected there.
    pub why: String,
}

impl Display for ScriptError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}:{}: {}", self.line, self.column, self.why)
    }
}

impl core::error::Error for ScriptError {}

/// As it stands in the file.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    user: Option<Spanned<String>>,
    password: Option<Spanned<String>>,
    #[serde(default)]
    camera: Vec<Spanned<CameraTable>>,
    #[serde(default)]
    fault: Vec<Spanned<FaultTable>>,
    #[serde(default)]
    motion: Vec<MotionTable>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct CameraTable {
    number: Number,
    name: Option<Name>,
    user: Option<Spanned<String>>,
    password: Option<Spanned<String>>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct FaultTable {
    kind: Spanned<KindName>,
    #[serde(default)]
    cameras: Numbers,
    share: Option<Share>,
    #[serde(default)]
    together: bool,
    from: Option<Time>,
    #[serde(rename = "for")]
    lasts: Option<Spanned<Time>>,
    every: Option<Spanned<Time>>,
    chance: Option<Spanned<Share>>,
    length: Option<Spanned<Count>>,
    distance: Option<Spanned<Count>>,
    by: Option<Spanned<Signed>>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct MotionTable {
    #[serde(default)]
    cameras: Numbers,
    share: Option<Share>,
    together: Option<Spanned<bool>>,
    from: Option<Time>,
    #[serde(rename = "for")]
    lasts: Option<Spanned<Time>>,
    every: Option<Spanned<Time>>,
    #[serde(default)]
    in_film: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
enum KindName {
    Loss,
    Bursts,
    Reorder,
    Jitter,
    Freeze,
    MissingKeyFrames,
    Timestamps,
    Drop,
    Refuse,
    Night,
}

/// The number of a camera.
struct Number(u32);
/// A number of packets.
#[derive(Clone, Copy)]
struct Count(u64);
/// Numbers and ranges of them.
#[derive(Default)]
struct Numbers(Vec<RangeInclusive<u32>>);
/// The last part of a camera's URL.
struct Name(String);
/// Of 1.
#[derive(Clone, Copy)]
struct Share(f64);
/// Nanoseconds.
#[derive(Clone, Copy)]
struct Time(u64);
/// Nanoseconds, with a sign.
#[derive(Clone, Copy)]
struct Signed(i64);

/// The longest time of a script: a year, in nanoseconds.
const TIME_NS_MAX: u64 = 365 * 86_400 * SECOND_NS;
/// The longest that a packet may be late.
const LATE_NS_MAX: u64 = 10 * SECOND_NS;

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let number = u32::deserialize(from)?;
        let wanted = "the number of a camera is wanted; the first one has 1";
        (number > 0).then_some(Self(number)).ok_or_else(|| D::Error::custom(wanted))
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let count = u64::deserialize(from)?;
        let wanted = "a number of packets is wanted, from 1 to 1000000000";
        (1..=1_000_000_000).contains(&count).then_some(Self(count)).ok_or_else(|| D::Error::custom(wanted))
    }
}

impl<'de> Deserialize<'de> for Numbers {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (first.trim().parse::<u32>().ok()?, last.trim().parse::<u32>().ok()?);
            (0 < first && first <= last).then_some(first..=last)
        };
        let ranges: Option<Vec<_>> = text.split(',').map(range).collect();
        let wanted = "numbers of cameras are wanted, such as \"3\" or \"1-10, 15\"";
        ranges.map(Self).ok_or_else(|| D::Error::custom(wanted))
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        let is_plain = |sign: char| sign.is_ascii_alphanumeric() || "-_.".contains(sign);
        let wanted = "a name is wanted of letters, digits, `-`, `_` and `.`";
        let is_name = !name.is_empty() && name.chars().all(is_plain);
        is_name.then_some(Self(name)).ok_or_else(|| D::Error::custom(wanted))
    }
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let share = f64::deserialize(from)?;
        let wanted = "a share is wanted, from 0 to 1, such as 0.01";
        (0.0..=1.0).contains(&share).then_some(Self(share)).ok_or_else(|| D::Error::custom(wanted))
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let ns = nanoseconds(&String::deserialize(from)?);
        let wanted = "a time of at most a year is wanted, such as \"200ms\", \"30s\" or \"1h 30m\"";
        ns.map(Self).ok_or_else(|| D::Error::custom(wanted))
    }
}

impl<'de> Deserialize<'de> for Signed {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let (sign, text) = text.strip_prefix('-').map_or((1, text.as_str()), |text| (-1, text));
        let ns = nanoseconds(text).and_then(|ns| i64::try_from(ns).ok());
        let wanted = "a time of at most a year is wanted, such as \"20ms\" or \"-2s\"";
        ns.map(|ns| Self(sign * ns)).ok_or_else(|| D::Error::custom(wanted))
    }
}

fn nanoseconds(text: &str) -> Option<u64> {
    let ns = u64::try_from(humantime::parse_duration(text).ok()?.as_nanos()).ok()?;
    (ns <= TIME_NS_MAX).then_some(ns)
}

/// What is wrong, and where: places in the text.
type Wrong = (Range<usize>, String);

impl Script {
    /// What a text says.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        let at = |(span, why): Wrong| {
            let before = &text.as_bytes()[..span.start.min(text.len())];
            let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
            let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            let column = String::from_utf8_lossy(&before[start..]).chars().count() + 1;
            ScriptError { line, column, why }
        };
        let file: File = toml::from_str(text)
            .map_err(|error| at((error.span().unwrap_or_default(), error.message().to_owned())))?;
        file.into_script().map_err(at)
    }

    /// With faults that a share of all cameras has, one each: the ten kinds are equally frequent.
    pub fn with_usual_faults(mut self, share: f64) -> Self {
        let always = Times { from_ns: 0, lasts_ns: None, every_ns: None };
        let at_times = |every_s: u64, lasts_s: u64| Times {
            from_ns: 0,
            lasts_ns: Some(lasts_s * SECOND_NS),
            every_ns: Some(every_s * SECOND_NS),
        };
        let usual = [
            (Kind::Loss { chance: 0.01 }, always),
            (Kind::Bursts { length: 20, distance: 2_000 }, always),
            (Kind::Reorder { chance: 0.01, by_ns: 20_000_000 }, always),
            (Kind::Jitter { by_ns: 100_000_000 }, always),
            (Kind::Freeze, at_times(120, 10)),
            (Kind::MissingKeyFrames { chance: 0.1 }, always),
            (Kind::Timestamps { by_ns: -2 * SECOND_NS as i64 }, at_times(90, 15)),
            (Kind::Drop, Times { from_ns: 30 * SECOND_NS, lasts_ns: None, every_ns: Some(120 * SECOND_NS) }),
            (Kind::Refuse, at_times(180, 30)),
            (Kind::Night, at_times(600, 200)),
        ];
        let each = share / usual.len() as f64;
        let planned = |(number, (kind, times)): (usize, (Kind, Times))| Planned {
            kind,
            concerned: Concerned {
                times,
                cameras: Vec::new(),
                share: number as f64 * each..(number + 1) as f64 * each,
                is_together: false,
            },
            is_usual: true,
        };
        self.faults.extend(usual.into_iter().enumerate().map(planned));
        self
    }
}

impl File {
    fn into_script(self) -> Result<Script, Wrong> {
        let of_all = login(self.user, self.password)?;
        let mut cameras: Vec<Named> = Vec::new();
        for table in self.camera {
            let (span, table) = (table.span(), table.into_inner());
            if cameras.iter().any(|known| known.number == table.number.0) {
                return Err((span, format!("camera {} stands here a second time", table.number.0)));
            }
            let name = table.name.map(|name| name.0);
            cameras.push(Named { number: table.number.0, name, login: login(table.user, table.password)? });
        }
        let faults: Result<Vec<Planned>, Wrong> = self.fault.into_iter().map(FaultTable::planned).collect();
        let motions: Result<Vec<Moving>, Wrong> = self.motion.into_iter().map(MotionTable::moving).collect();
        Ok(Script { login: of_all, cameras, faults: faults?, motions: motions? })
    }
}

fn login(user: Option<Spanned<String>>, password: Option<Spanned<String>>) -> Result<Option<Login>, Wrong> {
    match (user, password) {
        (Some(user), Some(password)) => {
            let span = user.span();
            let (user, password) = (user.into_inner(), password.into_inner());
            let is_name = !user.is_empty() && !user.contains([':', '"']);
            let wanted = "a user's name has no colon and no quotation mark";
            if is_name { Ok(Some(Login { user, password })) } else { Err((span, wanted.to_owned())) }
        }
        (None, None) => Ok(None),
        (Some(user), None) => Err((user.span(), "a user needs a password beside it".to_owned())),
        (None, Some(password)) => Err((password.span(), "a password needs a user beside it".to_owned())),
    }
}

impl FaultTable {
    fn planned(table: Spanned<Self>) -> Result<Planned, Wrong> {
        let mut table = table.into_inner();
        let kind = table.kind_of()?;
        let times = table.times(kind)?;
        table.nothing_left()?;
        let share = 0.0..table.share.map_or(1.0, |share| share.0);
        let concerned = Concerned { times, cameras: table.cameras.0, share, is_together: table.together };
        Ok(Planned { kind, concerned, is_usual: false })
    }

    /// What is wrong, out of the keys that the kind has.
    fn kind_of(&mut self) -> Result<Kind, Wrong> {
        let span = self.kind.span();
        Ok(match *self.kind.get_ref() {
            KindName::Loss => Kind::Loss { chance: self.chance(&span)? },
            KindName::Bursts => {
                let length = wanted(self.length.take(), &span, "length", "packets lost in a row", "20")?;
                let (at, length) = (length.span(), length.into_inner().0);
                let what = "packets that have one burst among them";
                let distance = wanted(self.distance.take(), &span, "distance", what, "1000")?.into_inner().0;
                if length > distance {
                    return Err((at, format!("a length of at most the distance ({distance}) is wanted")));
                }
                Kind::Bursts { length, distance }
            }
            KindName::Reorder => Kind::Reorder { chance: self.chance(&span)?, by_ns: self.lateness(&span)? },
            KindName::Jitter => Kind::Jitter { by_ns: self.lateness(&span)? },
            KindName::Freeze => Kind::Freeze,
            KindName::MissingKeyFrames => Kind::MissingKeyFrames { chance: self.chance(&span)? },
            KindName::Timestamps => {
                let what = "how wrong timestamps are";
                Kind::Timestamps {
                    by_ns: wanted(self.by.take(), &span, "by", what, "\"-2s\"")?.into_inner().0,
                }
            }
            KindName::Drop => Kind::Drop,
            KindName::Refuse => Kind::Refuse,
            KindName::Night => Kind::Night,
        })
    }

    fn chance(&mut self, kind: &Range<usize>) -> Result<f64, Wrong> {
        Ok(wanted(self.chance.take(), kind, "chance", "a share of 1", "0.01")?.into_inner().0)
    }

    fn lateness(&mut self, kind: &Range<usize>) -> Result<u64, Wrong> {
        let by = wanted(self.by.take(), kind, "by", "a time", "\"20ms\"")?;
        let is_late = |ns: &u64| *ns <= LATE_NS_MAX;
        let why = || (by.span(), "a time from \"0s\" to \"10s\" is wanted".to_owned());
        u64::try_from(by.get_ref().0).ok().filter(is_late).ok_or_else(why)
    }

    fn times(&self, kind: Kind) -> Result<Times, Wrong> {
        if let (Kind::Drop, Some(lasts)) = (kind, &self.lasts) {
            let why = "a fault of the kind `drop` takes no time: `for` is not wanted";
            return Err((lasts.span(), why.to_owned()));
        }
        times(self.from, self.lasts.as_ref(), self.every.as_ref())
    }

    /// Keys that its kind does not have are mistakes.
    fn nothing_left(&self) -> Result<(), Wrong> {
        let left = [
            ("chance", self.chance.as_ref().map(Spanned::span)),
            ("length", self.length.as_ref().map(Spanned::span)),
            ("distance", self.distance.as_ref().map(Spanned::span)),
            ("by", self.by.as_ref().map(Spanned::span)),
        ];
        let Some((key, span)) = left.into_iter().find_map(|(key, span)| Some((key, span?))) else {
            return Ok(());
        };
        Err((span, format!("a fault of this kind has no `{key}`")))
    }
}

impl MotionTable {
    fn moving(self) -> Result<Moving, Wrong> {
        let of_clock = self.every.as_ref().map(Spanned::span).or(self.together.as_ref().map(Spanned::span));
        if let (true, Some(span)) = (self.in_film, of_clock) {
            let why = "motion of the film comes again with the film: `every` and `together` are not wanted";
            return Err((span, why.to_owned()));
        }
        let concerned = Concerned {
            times: times(self.from, self.lasts.as_ref(), self.every.as_ref())?,
            cameras: self.cameras.0,
            share: 0.0..self.share.map_or(1.0, |share| share.0),
            is_together: self.together.is_some_and(Spanned::into_inner),
        };
        Ok(Moving { concerned, is_in_film: self.in_film })
    }
}

fn times(
    from: Option<Time>,
    lasts: Option<&Spanned<Time>>,
    every: Option<&Spanned<Time>>,
) -> Result<Times, Wrong> {
    let ns = |time: &Spanned<Time>| time.get_ref().0;
    match (lasts, every) {
        (_, Some(every)) if ns(every) == 0 => Err((every.span(), "a time above 0 is wanted".to_owned())),
        (Some(lasts), Some(every)) if ns(lasts) > ns(every) => {
            Err((lasts.span(), "a time of at most that of `every` is wanted".to_owned()))
        }
        _ => Ok(Times {
            from_ns: from.map_or(0, |from| from.0),
            lasts_ns: lasts.map(ns),
            every_ns: every.map(ns),
        }),
    }
}

/// A key that the kind of a fault has to have.
fn wanted<T>(
    value: Option<T>,
    kind: &Range<usize>,
    key: &str,
    what: &str,
    such_as: &str,
) -> Result<T, Wrong> {
    let why =
        || (kind.clone(), format!("a fault of this kind needs `{key}`, {what}, such as {key} = {such_as}"));
    value.ok_or_else(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> (usize, usize, String) {
        let error = Script::parse(text).expect_err(text);
        (error.line, error.column, error.why)
    }

    #[test]
    fn all_that_a_script_can_say_is_read() {
        let script = Script::parse(
            r#"
user = "admin"
password = "secret"

[[camera]]
number = 3
name = "door"
user = "guard"
password = "x"

[[fault]]
kind = "bursts"
cameras = "1-10, 15"
share = 0.5
from = "30s"
for = "2m"
every = "1h"
together = true
length = 20
distance = 1000

[[fault]]
kind = "timestamps"
by = "-2s"

[[motion]]
cameras = "2"
from = "1s"
for = "4s"
in-film = true
"#,
        )
        .expect("a script");
        let login =
            |user: &str, password: &str| Some(Login { user: user.to_owned(), password: password.to_owned() });
        assert_eq!(script.login, login("admin", "secret"));
        let door = Named { number: 3, name: Some("door".to_owned()), login: login("guard", "x") };
        assert_eq!(script.cameras, [door]);
        let second = 1_000_000_000;
        let times =
            Times { from_ns: 30 * second, lasts_ns: Some(120 * second), every_ns: Some(3600 * second) };
        let kind = Kind::Bursts { length: 20, distance: 1000 };
        let cameras = vec![1..=10, 15..=15];
        let concerned = Concerned { times, cameras, share: 0.0..0.5, is_together: true };
        assert_eq!(script.faults[0], Planned { kind, concerned, is_usual: false });
        assert_eq!(script.faults[1].kind, Kind::Timestamps { by_ns: -2 * second as i64 });
        let times = Times { from_ns: second, lasts_ns: Some(4 * second), every_ns: None };
        let concerned = Concerned { times, cameras: vec![2..=2], share: 0.0..1.0, is_together: false };
        assert_eq!(script.motions, [Moving { concerned, is_in_film: true }]);
        assert_eq!(Script::parse("").expect("nothing"), Script::default());
    }

    #[test]
    fn what_is_wrong_is_named_with_line_column_and_what_was_expected() {
        for (text, line, column, why) in [
            ("usr = 1", 1, 1, "unknown field `usr`"),
            ("user = \"ada\"", 1, 8, "needs a password"),
            ("[[fault]]\nkind = \"los\"", 2, 8, "unknown variant `los`"),
            ("[[fault]]\nkind = \"loss\"", 2, 8, "needs `chance`"),
            ("[[fault]]\nkind = \"loss\"\nchance = 2", 3, 10, "from 0 to 1"),
            ("[[fault]]\nkind = \"freeze\"\n  by = \"1s\"", 3, 8, "no `by`"),
            ("[[fault]]\nkind = \"jitter\"\nby = \"-1s\"", 3, 6, "from \"0s\""),
            ("[[fault]]\nkind = \"jitter\"\nby = \"1 parsec\"", 3, 6, "a time"),
            ("[[fault]]\nkind = \"night\"\nfor = \"2h\"\nevery = \"1h\"", 3, 7, "`every`"),
            ("[[fault]]\nkind = \"night\"\nevery = \"0s\"", 3, 9, "above 0"),
            ("[[fault]]\nkind = \"drop\"\nfor = \"2h\"", 3, 7, "`for` is not wanted"),
            ("[[motion]]\nin-film = true\nevery = \"2h\"", 3, 9, "`every` and `together` are not wanted"),
            ("[[motion]]\nkind = \"loss\"", 2, 1, "unknown field `kind`"),
            ("[[fault]]\nkind = \"night\"\ncameras = \"3-1\"", 3, 11, "numbers of cameras"),
            ("[[camera]]\nnumber = 0", 2, 10, "the first one has 1"),
            ("[[camera]]\nnumber = 1\nname = \"a/b\"", 3, 8, "letters"),
            ("[[fault]]\nkind = \"bursts\"\nlength = 5\ndistance = 4", 3, 10, "at most the distance"),
            ("[[fault]]\nkind = ", 2, 8, ""),
        ] {
            let (at_line, at_column, said) = wrong(text);
            assert_eq!((at_line, at_column), (line, column), "{text}: {said}");
            assert!(said.contains(why), "{text}: {said}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(\\[\\[(fault|camera|motion)\\]\\]|kind|by|for|every|=|\"(loss|1s|ä|jitter)\"|[0-9.-]|\n| ){0,40}") {
            let _ = Script::parse(&text);
        }
    }
}
