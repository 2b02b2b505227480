//! From which memory on virtual memory limits a streaming server, and how its page faults grow with clients and media.
//!
//! `forebay serve` first has more memory than it takes: what its group uses then, with the pages of the media, is what it needs
//! at most. Then it has less and less of that, until the verdict is virtual memory, or streams suffer.

use std::fs;

use forebay_quantity::bytes;
use forebay_results::{Row, Statement, StatementKind};

use super::Bench;
use crate::{Error, scratch_folder};

/// The subject of the findings.
pub(super) const SUBJECT: &str = "forebay serve";
/// More than it takes, in MiB.
const PLENTY_MIB: u64 = 1024;
/// What is left of what it takes, step by step.
const LEFT: [f64; 6] = [0.8, 0.65, 0.5, 0.4, 0.3, 0.2];
const LEFT_QUICK: [f64; 2] = [0.5, 0.25];
/// The step at which page faults are set against clients.
const LITTLE: f64 = 0.5;
/// So many numbers of media.
const MEDIA: usize = 2;
/// Streams suffer where less than this of their packets arrives.
const DELIVERED: f64 = 0.95;
const MIB: f64 = 1_048_576.0;

fn left(quick: bool) -> &'static [f64] {
    if quick { &LEFT_QUICK } else { &LEFT }
}

/// With plenty of memory, with little, and those of a search for each number of media.
pub(super) fn experiments(quick: bool) -> usize {
    2 + MEDIA * left(quick).len()
}

/// Numbers of clients and of media.
struct Levels {
    clients: Vec<u16>,
    media: [u16; MEDIA],
}

impl Bench<'_> {
    pub(super) fn memory(&mut self) -> Result<(), Error> {
        forebay_lab::MemoryLimit::supported()?;
        // Its code counts as the server's memory where no other program has it in memory.
        let folder = scratch_folder()?;
        let copy = folder.path().join("forebay");
        fs::copy(&self.options.forebay, &copy).map_err(Error::file("copy", &self.options.forebay))?;
        self.copy = Some(copy);
        let levels = if self.options.quick {
            Levels { clients: vec![2, 4], media: [1, 4] }
        } else {
            Levels { clients: vec![4, 16, 64], media: [1, 64] }
        };
        let plenty = self.streams(&levels.clients, &levels.media, PLENTY_MIB)?;
        let most = *levels.clients.last().expect("there are some");
        let used = |media: u16| {
            let row = plenty
                .iter()
                .find(|row| row.case.starts_with(&case(media, most)) && row.metric == "memory_used");
            row.map(|row| row.value)
                .ok_or_else(|| Error::Load("what the server uses of memory is not counted".into()))
        };
        let [alone, many] = [used(levels.media[0])?, used(levels.media[1])?];
        let little = ((many * LITTLE / MIB).round() as u64).max(1);
        // A server that ends for want of memory is found again by the search.
        if let Err(Error::Interrupted) = self.streams(&levels.clients, &levels.media, little) {
            return Err(Error::Interrupted);
        }
        for (media, used) in levels.media.into_iter().zip([alone, many]) {
            self.search(most, media, used)?;
        }
        Ok(())
    }

    /// Streams at all of these levels; the rows are kept.
    fn streams(&mut self, clients: &[u16], media: &[u16], memory_mib: u64) -> Result<Vec<Row>, Error> {
        let text = format!(
            "{}[streaming]\nservers = \"forebay\"\nbitrate = \"300K\"\nclients = {clients:?}\nmedia = {media:?}\n\
             memory = \"{memory_mib}M\"\n",
            self.head("Streams with little memory")
        );
        let before = self.found.rows.len();
        self.measure(&text, false, "")?;
        Ok(self.found.rows[before..].to_vec())
    }

    /// The least memory that is enough, and the most that is not.
    fn search(&mut self, clients: u16, media: u16, used: f64) -> Result<(), Error> {
        let mut enough = used;
        let mut too_little = None;
        for left in left(self.options.quick) {
            let mib = ((used * left / MIB).round() as u64).max(1);
            let why = match self.streams(&[clients], &[media], mib) {
                Ok(rows) => suffers(&rows),
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(error) => Some(error.to_string()),
            };
            let Some(why) = why else {
                enough = mib as f64 * MIB;
                continue;
            };
            too_little = Some((mib as f64 * MIB, why));
            break;
        }
        let case = case(media, clients);
        self.found.rows.push(Row::once(SUBJECT, &case, "memory_enough", "B", enough));
        let text = match too_little {
            Some((bytes_of, why)) => {
                self.found.rows.push(Row::once(SUBJECT, &case, "memory_too_little", "B", bytes_of));
                format!(
                    "{SUBJECT}, {case}: {} of memory are enough, and {} are too little ({why})",
                    bytes(enough),
                    bytes(bytes_of)
                )
            }
            None => {
                format!("{SUBJECT}, {case}: {} of memory are enough, and less was not tried", bytes(enough))
            }
        };
        self.found.statements.push(Statement {
            subject: SUBJECT.into(),
            case,
            kind: StatementKind::Finding,
            text,
        });
        Ok(())
    }
}

/// Why memory is too little, where it is.
fn suffers(rows: &[Row]) -> Option<String> {
    let value = |metric: &str| rows.iter().find(|row| row.metric == metric).map(|row| row.value);
    if value("limit/virtual memory").is_some() {
        return Some("virtual memory limits".into());
    }
    let (sent, lost) = (value("transactions")?, value("lost")?);
    let delivered = sent / (sent + lost).max(f64::MIN_POSITIVE);
    (delivered < DELIVERED).then(|| format!("{} of the packets arrive", forebay_quantity::percent(delivered)))
}

/// The condition, as results have it.
fn case(media: u16, clients: u16) -> String {
    format!("300 kbit/s/{media} media/{clients} clients")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_too_little_where_the_verdict_or_the_packets_say_so() {
        let rows = |limit: &str, lost: f64| {
            vec![
                Row::once("forebay", "c", format!("limit/{limit}"), "runs", 1.0),
                Row::once("forebay", "c", "transactions", "1/s", 90.0),
                Row::once("forebay", "c", "lost", "1/s", lost),
            ]
        };
        assert_eq!(suffers(&rows("nothing", 0.0)), None);
        assert_eq!(suffers(&rows("virtual memory", 0.0)).as_deref(), Some("virtual memory limits"));
        assert_eq!(suffers(&rows("nothing", 10.0)).as_deref(), Some("90 % of the packets arrive"));
    }
}
