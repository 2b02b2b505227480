//! What owner and cleanup process say to each other: lines of fields with tabs between them, one answer to each order.

use std::io;
use std::path::PathBuf;

use crate::rig::{FileSystem, Opens, Stats};
use crate::{Error, Profile};

/// How far up a rig goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layer {
    /// An ordinary folder on the local disk.
    Folder,
    /// A file system on a slow block device.
    Disk(FileSystem),
    /// A remote file system.
    Remote,
    /// Swap on a slow block device.
    Swap,
    /// Swap in a file on the local disk.
    SwapFile,
    /// A control group with a limit of memory; the rig's size is the limit, its parent the group around it.
    MemoryGroup,
}

/// From the owner to the cleanup process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Start {
        layer: Layer,
        profile: Profile,
        size_bytes: u64,
        parent: PathBuf,
    },
    Slow(bool),
    Cold,
    /// The state that a file system is filled in, where it is another than it is used in; or the latter.
    Filling(bool),
    ReadAhead(u32),
    Opens(Opens),
    Stats,
    ResetStats,
    Stop,
}

/// What the cleanup process answers when an order was carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Done,
    /// To [`Order::Start`].
    Started {
        /// Removed at the end with all that is in it; none for [`Layer::Swap`].
        folder: Option<PathBuf>,
        device: Option<PathBuf>,
    },
    /// To [`Order::Stats`].
    Counted(Stats),
}

impl Layer {
    const NAMES: [(Self, &'static str); 11] = [
        (Self::Folder, "folder"),
        (Self::Disk(FileSystem::Ext4), "ext4"),
        (Self::Disk(FileSystem::Overlay), "overlay"),
        (Self::Disk(FileSystem::Xfs), "xfs"),
        (Self::Disk(FileSystem::Btrfs), "btrfs"),
        (Self::Disk(FileSystem::Squashfs), "squashfs"),
        (Self::Disk(FileSystem::Erofs), "erofs"),
        (Self::Remote, "remote"),
        (Self::Swap, "swap"),
        (Self::SwapFile, "swap-file"),
        (Self::MemoryGroup, "memory-group"),
    ];

    /// What it is called in messages.
    pub(crate) fn feature(self) -> &'static str {
        match self {
            Self::Folder | Self::Disk(_) => "The slow disk",
            Self::Remote => "The remote file system",
            Self::Swap => "Slow swap",
            Self::SwapFile => "Swap on the local disk",
            Self::MemoryGroup => "A limit of memory",
        }
    }

    fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(layer, _)| *layer == self).map_or("", |(_, name)| name)
    }

    fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(_, known)| *known == name).map(|(layer, _)| *layer)
    }
}

pub(super) fn encode_order(order: &Order) -> Result<String, Error> {
    Ok(match order {
        Order::Start { layer, profile, size_bytes, parent } => {
            let parent = parent.to_str().filter(|path| !path.contains(['\t', '\n'])).ok_or_else(|| {
                Error::Cleanup(format!("the folder {} has a name with odd characters", parent.display()))
            })?;
            line(&["start", layer.name(), &profile.to_string(), &size_bytes.to_string(), parent])
        }
        Order::Slow(on) => line(&["slow", on_or_off(*on)]),
        Order::Cold => line(&["cold"]),
        Order::Filling(on) => line(&["filling", on_or_off(*on)]),
        Order::ReadAhead(kib) => line(&["read-ahead", &kib.to_string()]),
        Order::Opens(Opens { at_once, keep_data }) => {
            line(&["opens", on_or_off(*at_once), on_or_off(*keep_data)])
        }
        Order::Stats => line(&["stats"]),
        Order::ResetStats => line(&["reset-stats"]),
        Order::Stop => line(&["stop"]),
    })
}

pub(super) fn decode_order(text: &str) -> Result<Order, Error> {
    let fields: Vec<&str> = text.trim_end_matches('\n').split('\t').collect();
    let order = match *fields.as_slice() {
        ["start", layer, profile, size_bytes, parent] => (|| {
            Some(Order::Start {
                layer: Layer::from_name(layer)?,
                profile: profile.parse().ok()?,
                size_bytes: size_bytes.parse().ok()?,
                parent: parent.into(),
            })
        })(),
        ["slow", on @ ("on" | "off")] => Some(Order::Slow(on == "on")),
        ["cold"] => Some(Order::Cold),
        ["filling", on @ ("on" | "off")] => Some(Order::Filling(on == "on")),
        ["read-ahead", kib] => kib.parse().ok().map(Order::ReadAhead),
        ["opens", at_once @ ("on" | "off"), keep_data @ ("on" | "off")] => {
            Some(Order::Opens(Opens { at_once: at_once == "on", keep_data: keep_data == "on" }))
        }
        ["stats"] => Some(Order::Stats),
        ["reset-stats"] => Some(Order::ResetStats),
        ["stop"] => Some(Order::Stop),
        _ => None,
    };
    order.ok_or_else(|| Error::Cleanup(format!("an order that it does not know: {text:?}")))
}

pub(super) fn encode_answer(answer: &Result<Answer, Error>) -> String {
    match answer {
        Ok(Answer::Done) => line(&["done"]),
        Ok(Answer::Started { folder, device }) => {
            let [folder, device] = [folder, device].map(|path| {
                path.as_ref().map_or_else(String::new, |path| path.to_string_lossy().into_owned())
            });
            line(&["started", &folder, &device])
        }
        Ok(Answer::Counted(stats)) => {
            let numbers = stats.numbers().map(|number| number.to_string());
            let fields: Vec<&str> =
                std::iter::once("counted").chain(numbers.iter().map(String::as_str)).collect();
            line(&fields)
        }
        Err(Error::Unsupported { feature, needs, how_to_enable }) => {
            line(&["unsupported", feature, needs, how_to_enable])
        }
        Err(Error::Busy { path, users }) => line(&["busy", &path.to_string_lossy(), users]),
        Err(Error::Io { what, source }) if source.raw_os_error().is_some() => {
            line(&["io", what, &source.raw_os_error().unwrap_or_default().to_string()])
        }
        Err(Error::Program { command, said }) => line(&["program", command, said]),
        Err(Error::Cleanup(said)) => line(&["cleanup", said]),
        Err(error) => line(&["cleanup", &error.to_string()]),
    }
}

pub(super) fn decode_answer(text: &str) -> Result<Answer, Error> {
    let fields: Vec<&str> = text.trim_end_matches('\n').split('\t').collect();
    let path = |field: &str| (!field.is_empty()).then(|| PathBuf::from(field));
    match *fields.as_slice() {
        ["done"] => return Ok(Answer::Done),
        ["started", folder, device] => {
            return Ok(Answer::Started { folder: path(folder), device: path(device) });
        }
        ["counted", ref numbers @ ..] => {
            let numbers: Vec<u64> = numbers.iter().filter_map(|number| number.parse().ok()).collect();
            if let Ok(numbers) = <[u64; 11]>::try_from(numbers) {
                return Ok(Answer::Counted(Stats::of_numbers(numbers)));
            }
        }
        ["unsupported", feature, needs, how_to_enable] => {
            return Err(Error::Unsupported {
                feature: feature.into(),
                needs: needs.into(),
                how_to_enable: how_to_enable.into(),
            });
        }
        ["busy", path, users] => return Err(Error::Busy { path: path.into(), users: users.into() }),
        ["io", what, number] => {
            let number = number.parse().unwrap_or_default();
            return Err(Error::io(what, io::Error::from_raw_os_error(number)));
        }
        ["program", command, said] => {
            return Err(Error::Program { command: command.into(), said: said.into() });
        }
        ["cleanup", said] => return Err(Error::Cleanup(said.into())),
        _ => {}
    }
    Err(Error::Cleanup(format!("an answer that makes no sense: {text:?}")))
}

fn on_or_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

fn line(fields: &[&str]) -> String {
    let cleaned: Vec<String> = fields.iter().map(|field| field.replace(['\t', '\n'], " ")).collect();
    cleaned.join("\t") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_arrive_as_they_were_sent() {
        let start = Order::Start {
            layer: Layer::Disk(FileSystem::Xfs),
            profile: Profile::Raid12Ms,
            size_bytes: 1 << 40,
            parent: "/tmp/a folder".into(),
        };
        let opens = Order::Opens(Opens { at_once: true, keep_data: false });
        let switches = [Order::Slow(true), Order::Slow(false), Order::Filling(true), Order::Filling(false)];
        let others = [opens, Order::ReadAhead(256), Order::ResetStats];
        for (layer, _) in Layer::NAMES {
            assert_eq!(Layer::from_name(layer.name()), Some(layer));
        }
        let others = others.into_iter().chain(switches);
        for order in others.chain([start, Order::Cold, Order::Stats, Order::Stop]) {
            let sent = encode_order(&order).unwrap();
            assert!(sent.ends_with('\n') && sent.matches('\n').count() == 1, "{sent:?}");
            assert_eq!(decode_order(&sent).unwrap(), order);
        }
    }

    #[test]
    fn answers_arrive_as_they_were_sent() {
        let stats = Stats::of_numbers([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
        let started = Answer::Started { folder: Some("/tmp/x".into()), device: None };
        for answer in [Answer::Done, started, Answer::Counted(stats)] {
            assert_eq!(decode_answer(&encode_answer(&Ok(answer.clone()))).unwrap(), answer);
        }
    }

    #[test]
    fn errors_say_the_same_on_either_side() {
        let errors = [
            Error::Unsupported { feature: "f".into(), needs: "n".into(), how_to_enable: "h".into() },
            Error::Busy { path: "/p".into(), users: "u".into() },
            Error::io("open /x", io::Error::from_raw_os_error(libc::EACCES)),
            Error::Program { command: "mkfs".into(), said: "no".into() },
            Error::Cleanup("gone".into()),
        ];
        for error in errors {
            let said = error.to_string();
            assert_eq!(decode_answer(&encode_answer(&Err(error))).unwrap_err().to_string(), said);
        }
    }

    #[test]
    fn nonsense_is_an_error() {
        for text in ["", "start\text4\tcloud", "slow\tmaybe\n", "read-ahead\t-1\n", "counted\t1\n"] {
            assert!(decode_order(text).is_err(), "{text:?}");
            assert!(decode_answer(text).is_err(), "{text:?}");
        }
    }
}
