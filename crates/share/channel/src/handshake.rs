//! How two hosts make a connection, and each proves to the other that it knows the key.

use crate::frame::{Channel, FRAME_EXTRA_BYTES, Opener, Sealer};
use crate::key::{JobKey, RANDOM_BYTES};

const MAGIC: &[u8; 7] = b"forebay";
/// Of handshakes and frames. Another form has another number.
const VERSION: u8 = 1;
const RANKS: usize = MAGIC.len() + 1;
const RANDOM: usize = RANKS + 4;

/// What the dialer says first.
pub const HELLO_BYTES: usize = RANDOM + RANDOM_BYTES;
/// What the dialer says last.
pub const PROOF_BYTES: usize = FRAME_EXTRA_BYTES;
/// What the listener says.
pub const ANSWER_BYTES: usize = HELLO_BYTES + PROOF_BYTES;

/// Why a connection is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No hello of forebay.
    #[error("the other end is no forebay host")]
    Stranger,
    /// Another form of handshakes.
    #[error("the other end has version {theirs} of the handshake, this host has {VERSION}")]
    Version {
        /// Of the other end.
        theirs: u8,
    },
    /// From or for another host.
    #[error("the connection leads from host {from} to host {to}, which are not the two that it was made for")]
    Ranks {
        /// The sender.
        from: u16,
        /// The receiver that it meant.
        to: u16,
    },
    /// No proof.
    #[error("the other end does not know this job's key")]
    Key,
}

#[derive(Clone, Copy)]
struct Hello([u8; HELLO_BYTES]);

impl Hello {
    fn new(from: u16, to: u16, random: [u8; RANDOM_BYTES]) -> Self {
        let mut bytes = [0; HELLO_BYTES];
        bytes[..MAGIC.len()].copy_from_slice(MAGIC);
        bytes[MAGIC.len()] = VERSION;
        bytes[RANKS..RANKS + 2].copy_from_slice(&from.to_le_bytes());
        bytes[RANKS + 2..RANDOM].copy_from_slice(&to.to_le_bytes());
        bytes[RANDOM..].copy_from_slice(&random);
        Self(bytes)
    }

    /// One that a host said to host `to`.
    fn heard(bytes: [u8; HELLO_BYTES], to: u16) -> Result<Self, Refusal> {
        let hello = Self(bytes);
        if &bytes[..MAGIC.len()] != MAGIC {
            return Err(Refusal::Stranger);
        }
        match bytes[MAGIC.len()] {
            VERSION if hello.to() == to => Ok(hello),
            VERSION => Err(Refusal::Ranks { from: hello.from(), to: hello.to() }),
            theirs => Err(Refusal::Version { theirs }),
        }
    }

    fn from(&self) -> u16 {
        u16::from_le_bytes([self.0[RANKS], self.0[RANKS + 1]])
    }

    fn to(&self) -> u16 {
        u16::from_le_bytes([self.0[RANKS + 2], self.0[RANKS + 3]])
    }
}

/// The dialer's part.
#[derive(Clone)]
pub struct Dialing {
    key: JobKey,
    hello: Hello,
}

impl Dialing {
    /// That of host `me`, which wants a connection to host `to`. No two handshakes have the same random bytes.
    #[must_use]
    pub fn new(key: &JobKey, me: u16, to: u16, random: [u8; RANDOM_BYTES]) -> Self {
        Self { key: key.clone(), hello: Hello::new(me, to, random) }
    }

    /// What to say first.
    #[must_use]
    pub const fn hello(&self) -> &[u8; HELLO_BYTES] {
        &self.hello.0
    }

    /// Takes the listener's answer: the connection, and the proof that is to be said on it.
    ///
    /// # Errors
    /// The answer is not that of the host which was meant.
    pub fn finish(self, answer: &[u8; ANSWER_BYTES]) -> Result<(Channel, Vec<u8>), Refusal> {
        let (theirs, mut proof) =
            (*answer.first_chunk().ok_or(Refusal::Stranger)?, answer[HELLO_BYTES..].to_vec());
        let theirs = Hello::heard(theirs, self.hello.from())?;
        if theirs.from() != self.hello.to() {
            return Err(Refusal::Ranks { from: theirs.from(), to: theirs.to() });
        }
        let [mine, other] = self.key.connection(&self.hello.0, &theirs.0);
        let mut channel = Channel { sealer: Sealer::new(mine), opener: Opener::new(other) };
        prove(&mut channel.opener, &mut proof)?;
        let mut mine = vec![];
        channel.sealer.seal(&mut mine, |_| {});
        Ok((channel, mine))
    }
}

/// The listener's part, once it has answered.
pub struct Answering {
    from: u16,
    channel: Channel,
}

impl Answering {
    /// The answer of host `me` to a hello.
    ///
    /// # Errors
    /// It is not that of a host which means this one.
    pub fn new(
        key: &JobKey,
        me: u16,
        random: [u8; RANDOM_BYTES],
        hello: [u8; HELLO_BYTES],
    ) -> Result<(Self, Vec<u8>), Refusal> {
        let theirs = Hello::heard(hello, me)?;
        let mine = Hello::new(me, theirs.from(), random);
        let [theirs_key, mine_key] = key.connection(&theirs.0, &mine.0);
        let mut channel = Channel { sealer: Sealer::new(mine_key), opener: Opener::new(theirs_key) };
        let mut answer = mine.0.to_vec();
        channel.sealer.seal(&mut answer, |_| {});
        Ok((Self { from: theirs.from(), channel }, answer))
    }

    /// The host that says to be the dialer.
    #[must_use]
    pub const fn from(&self) -> u16 {
        self.from
    }

    /// Takes the dialer's proof: the connection.
    ///
    /// # Errors
    /// It is none.
    pub fn finish(mut self, proof: &[u8; PROOF_BYTES]) -> Result<Channel, Refusal> {
        prove(&mut self.channel.opener, &mut proof.to_vec())?;
        Ok(self.channel)
    }
}

/// Whether this is a frame without text that the other end has sealed.
fn prove(opener: &mut Opener, proof: &mut [u8]) -> Result<(), Refusal> {
    match opener.open(proof) {
        Ok(Some(([], PROOF_BYTES))) => Ok(()),
        _ => Err(Refusal::Key),
    }
}
