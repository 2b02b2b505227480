//! State that a thread shares with its signal handlers. Miri runs these too: it sees references that overlap.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use forebay_sigsafe::handover::Handover;

struct State {
    fills: u64,
    pages: [u64; 4],
}

/// A thread's state, with what its handlers count when they find it taken.
struct Thread {
    state: Handover<State>,
    missed: AtomicU64,
}

impl Thread {
    fn begin() -> Self {
        let thread = Self { state: Handover::new(), missed: AtomicU64::new(0) };
        assert!(thread.state.begin(Box::leak(Box::new(State { fills: 0, pages: [0; 4] }))));
        thread
    }

    /// What a handler does at any moment.
    fn handler(&self, page: usize) {
        match self.state.take() {
            Some(mut state) => {
                state.fills += 1;
                state.pages[page] = 1;
            }
            None => {
                self.missed.fetch_add(1, Relaxed);
            }
        }
    }

    /// A touch of a page, which the handler fills before the thread goes on.
    fn touch(&self, state: &mut State, page: usize) {
        // SAFETY: the state is this thread's, and its handler runs within the call.
        unsafe { self.state.lend(state, || self.handler(page)) }
    }
}

#[test]
fn a_handler_gets_nothing_while_an_entry_has_the_state() {
    let thread = Thread::begin();
    let mut state = thread.state.take().expect("no entry has it");
    let fills = &mut state.fills;
    thread.handler(0);
    *fills += 10;
    drop(state);
    assert_eq!(thread.missed.load(Relaxed), 1);
    thread.handler(0);
    let state = thread.state.take().expect("it was given back");
    assert_eq!((state.fills, state.pages[0]), (11, 1));
}

#[test]
fn a_handler_that_a_touch_provokes_uses_the_lent_state_alone() {
    let thread = Thread::begin();
    let mut state = thread.state.take().expect("no entry has it");
    state.pages[3] = 7;
    for page in 0..3 {
        thread.touch(&mut state, page);
        assert_eq!(state.fills, page as u64 + 1, "what the handler did is seen");
        thread.handler(page);
    }
    assert_eq!(state.pages, [1, 1, 1, 7]);
    assert_eq!(thread.missed.load(Relaxed), 3, "before and after the touch it gets nothing");
}

#[test]
fn a_handler_lends_on_what_it_was_lent() {
    let thread = Thread::begin();
    let mut state = thread.state.take().expect("no entry has it");
    let outer = |thread: &Thread| {
        let mut state = thread.state.take().expect("it is lent");
        state.fills += 100;
        thread.touch(&mut state, 1);
        state.fills += 100;
    };
    // SAFETY: the state is this thread's.
    unsafe { thread.state.lend(&mut state, || outer(&thread)) };
    assert!(thread.state.take().is_none(), "it is with the first entry again");
    assert_eq!((state.fills, state.pages[1]), (201, 1));
}

#[test]
fn there_is_one_state() {
    let thread = Thread::begin();
    assert!(!thread.state.begin(Box::leak(Box::new(State { fills: 5, pages: [0; 4] }))));
    assert_eq!(thread.state.take().map(|state| state.fills), Some(0));
    assert!(Handover::<State>::default().take().is_none(), "before it begins there is none");
}
