//! What a URL chooses after its question mark.

use forebay_media::Streams;
use forebay_rtsp::message::Status;

use crate::catalog::Failure;

/// In how many packets a text is repeated: as many as receivers are sure to take (RFC 4103, section 4.2).
const GENERATIONS: u8 = 2;

/// What can be chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Options {
    /// `loop`: again from the beginning at the end, for ever.
    pub is_endless: bool,
    /// `start=SECONDS`: what is before does not exist for clients. Players ask for position 0 at the beginning, so another one
    /// would be of no use to them.
    pub start_ns: u64,
    /// `end=SECONDS`: nor does what is after.
    pub end_ns: Option<u64>,
    /// `raw`: a transport stream as it is, instead of its tracks. `text`: subtitles as text, too; `text=red`: with each one repeated.
    pub streams: Streams,
}

impl Options {
    /// Other parameters are not the server's.
    pub fn parse(query: &str) -> Result<Self, Failure> {
        let mut options = Self::default();
        for part in query.split('&') {
            match part.split_once('=').unwrap_or((part, "")) {
                ("loop", value) => options.is_endless = is_wanted(value),
                ("raw", value) if is_wanted(value) => options.streams = Streams::AsTheyAre,
                ("text", value) if is_wanted(value) => {
                    let generations = if value == "red" { GENERATIONS } else { 0 };
                    options.streams = Streams::WithText { generations };
                }
                ("start", value) => options.start_ns = nanoseconds("start", value)?,
                ("end", value) => options.end_ns = Some(nanoseconds("end", value)?),
                _ => {}
            }
        }
        if options.end_ns.is_some_and(|end_ns| end_ns <= options.start_ns) {
            let sentence = format!("?{query}: the end has to come after the start, as in ?start=90&end=120");
            return Err(Failure { status: Status::BadRequest, sentence });
        }
        Ok(options)
    }
}

fn is_wanted(value: &str) -> bool {
    !["0", "no", "false"].contains(&value)
}

fn nanoseconds(name: &str, value: &str) -> Result<u64, Failure> {
    let seconds = value.parse::<f64>().ok().filter(|seconds| (0.0..1e9).contains(seconds));
    let seconds = seconds.ok_or_else(|| Failure {
        status: Status::BadRequest,
        sentence: format!("?{name}={value}: a number of seconds is wanted, as in ?{name}=90.5"),
    })?;
    Ok((seconds * 1e9) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_chooses_rounds_start_end_and_streams() {
        let told = |query| Options::parse(query).map(|one| (one.is_endless, one.start_ns, one.end_ns));
        assert_eq!(
            told("loop&start=1.5&end=2&x=y").expect("options"),
            (true, 1_500_000_000, Some(2_000_000_000))
        );
        assert_eq!(told("loop=no").expect("options"), (false, 0, None));
        let streams = |query| Options::parse(query).expect("options").streams;
        assert_eq!(
            ["", "raw=no", "raw&loop", "text=0"].map(streams),
            [Streams::AsTracks, Streams::AsTracks, Streams::AsTheyAre, Streams::AsTracks]
        );
        assert_eq!(
            ["text", "loop&text=red"].map(streams),
            [0, 2].map(|generations| Streams::WithText { generations })
        );
        for wrong in ["start=x", "end=-1", "start=2&end=1", "end=0", "start=nan"] {
            assert_eq!(told(wrong).expect_err(wrong).status, Status::BadRequest);
        }
    }
}
