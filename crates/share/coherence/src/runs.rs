//! Runs: messages that say the same of neighbouring minipages are one message. A run means what its messages would mean, one after
//! the other, so the protocol knows no runs but here.

use crate::host::Effects;
use crate::message::{HostId, Message, Minipage};

impl Message {
    /// Where it says of which minipages it is, if it can be a run: the first, and how many more.
    const fn extent_mut(&mut self) -> Option<(&mut Minipage, &mut u8)> {
        match self {
            Self::Forward { minipage, more, .. }
            | Self::Contents { minipage, more, .. }
            | Self::Grant { minipage, more, .. }
            | Self::Invalidate { minipage, more }
            | Self::Invalidated { minipage, more }
            | Self::Done { minipage, more } => Some((minipage, more)),
            _ => None,
        }
    }

    /// How many more minipages it is about than the first.
    #[must_use]
    pub fn more(mut self) -> u8 {
        self.extent_mut().map_or(0, |(_, more)| *more)
    }

    /// What it says of each of its minipages.
    pub fn singles(self) -> impl Iterator<Item = Self> {
        (0..=self.more()).map_while(move |index| self.single(index))
    }

    /// What it says of the first minipage, or of one behind that.
    fn single(mut self, index: u8) -> Option<Self> {
        let Some((minipage, more)) = self.extent_mut() else { return Some(self) };
        minipage.0 = minipage.0.checked_add(index.into())?;
        *more = 0;
        Some(self)
    }

    /// Says `next` too, if that says the same of the next minipage.
    fn join(&mut self, next: Self) -> bool {
        let Some(behind) = self.more().checked_add(1).filter(|behind| self.single(*behind) == Some(next))
        else {
            return false;
        };
        // A message about something else than minipages is only the same as itself.
        self.extent_mut().map(|(_, more)| *more = behind).is_some()
    }
}

/// The message that is about to be sent, which the next one may join.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Outbox(Option<(HostId, Message)>);

impl Outbox {
    /// Sends a message after those that came before.
    pub fn send(&mut self, to: HostId, message: Message, effects: &mut impl Effects) {
        if let Some((host, last)) = &mut self.0
            && *host == to
            && last.join(message)
        {
            return;
        }
        self.flush(effects);
        self.0 = Some((to, message));
    }

    /// Nothing more is about to be sent.
    pub fn flush(&mut self, effects: &mut impl Effects) {
        if let Some((to, message)) = self.0.take() {
            effects.send(to, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Access, Waiter, Want};

    #[derive(Default)]
    struct Sent(Vec<(HostId, Message)>);

    impl Effects for Sent {
        fn send(&mut self, to: HostId, message: Message) {
            self.0.push((to, message));
        }

        fn protect(&mut self, _: Minipage, _: Access) {}

        fn wake(&mut self, _: Waiter) {}

        fn pass(&mut self, _: Waiter, _: bool) {}
    }

    fn contents(minipage: u32, want: Want) -> Message {
        Message::Contents { minipage: Minipage(minipage), want, more: 0 }
    }

    #[test]
    fn runs_say_what_their_messages_say_in_their_order() {
        let to = |host: u16, message| (HostId(host), message);
        let request = Message::Request { minipage: Minipage(6), want: Want::Read };
        let said: Vec<_> = [
            to(1, contents(4, Want::Read)),
            to(1, contents(5, Want::Read)),
            to(1, contents(6, Want::Read)),
            to(1, contents(8, Want::Read)),
            to(1, contents(9, Want::Write)),
            to(2, contents(10, Want::Write)),
            to(2, Message::Done { minipage: Minipage(11), more: 0 }),
            to(2, Message::Done { minipage: Minipage(12), more: 0 }),
            to(2, request),
            to(2, Message::Request { minipage: Minipage(7), want: Want::Read }),
        ]
        .into_iter()
        .chain((0..600).map(|number| to(0, Message::Invalidate { minipage: Minipage(number), more: 0 })))
        .chain([to(0, contents(u32::MAX, Want::Read)), to(0, contents(0, Want::Read))])
        .collect();
        let (mut outbox, mut sent) = (Outbox::default(), Sent::default());
        said.iter().for_each(|(to, message)| outbox.send(*to, *message, &mut sent));
        outbox.flush(&mut sent);
        let again: Vec<_> =
            sent.0.iter().flat_map(|(to, message)| message.singles().map(|single| (*to, single))).collect();
        assert_eq!(again, said);
        assert_eq!(sent.0.len(), 7 + 3 + 2);
        assert_eq!(sent.0[0].1.more(), 2);
    }

    #[test]
    fn a_run_beyond_the_last_number_ends_there() {
        let run = Message::Done { minipage: Minipage(u32::MAX - 1), more: 200 };
        assert_eq!(run.singles().count(), 2);
    }
}
