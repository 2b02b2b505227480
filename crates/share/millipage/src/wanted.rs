//! Whether a thread of the machine is about to ask for what another machine has just taken.
//!
//! A thread that looks at a word until another machine changes it loses the word again and again. It asks for the word as soon
//! as it runs, so the progress thread leaves it the processor. Otherwise that one looks for what may come next.

use forebay_coherence::Minipage;

/// What the machine has lost last.
#[derive(Debug, Default)]
pub struct LastLost(Option<(Minipage, Since)>);

/// What threads have asked for since then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Since {
    /// Nothing, or something else.
    Other,
    /// For that first.
    Asked,
    /// For that first, and it was lost again.
    LostAgain,
}

impl LastLost {
    /// The machine may do less with a minipage from now on. Takes no memory.
    pub fn lose(&mut self, minipage: Minipage) {
        let since = match self.0 {
            Some((last, Since::Asked | Since::LostAgain)) if last == minipage => Since::LostAgain,
            _ => Since::Other,
        };
        self.0 = Some((minipage, since));
    }

    /// A thread asks for a minipage. Takes no memory.
    pub fn ask(&mut self, minipage: Minipage) {
        if let Some((last, since)) = &mut self.0 {
            *since = if *last == minipage { Since::Asked } else { Since::Other };
        }
    }

    /// Whether a thread is about to ask for the minipage, if that `is_away`. Says so once: a thread that does not ask then does
    /// something else.
    pub fn take_wanted(&mut self, is_away: impl Fn(Minipage) -> bool) -> bool {
        match &mut self.0 {
            Some((last, since @ Since::LostAgain)) if is_away(*last) => {
                *since = Since::Other;
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORD: Minipage = Minipage(1);
    const ROW: Minipage = Minipage(2);

    fn is_wanted(last: &mut LastLost) -> bool {
        last.take_wanted(|_| true)
    }

    #[test]
    fn a_word_that_is_asked_for_whenever_it_is_lost_is_wanted_each_time() {
        let mut last = LastLost::default();
        last.lose(WORD);
        assert!(!is_wanted(&mut last));
        for _ in 0..3 {
            last.ask(WORD);
            assert!(!is_wanted(&mut last));
            // First others may read it, and then one writes.
            last.lose(WORD);
            assert!(!last.take_wanted(|minipage| minipage != WORD));
            last.lose(WORD);
            assert!(is_wanted(&mut last));
            assert!(!is_wanted(&mut last));
        }
        last.lose(WORD);
        assert!(!is_wanted(&mut last));
    }

    #[test]
    fn rows_that_go_one_by_one_are_not_wanted() {
        let mut last = LastLost::default();
        for minipage in [WORD, ROW, WORD, ROW] {
            last.lose(minipage);
            assert!(!is_wanted(&mut last));
        }
    }

    #[test]
    fn a_thread_that_asks_for_something_else_first_does_not_wait_for_the_word() {
        let mut last = LastLost::default();
        last.lose(WORD);
        last.ask(WORD);
        last.ask(ROW);
        last.lose(WORD);
        assert!(!is_wanted(&mut last));
        last.ask(WORD);
        last.lose(ROW);
        last.lose(WORD);
        assert!(!is_wanted(&mut last));
    }
}
