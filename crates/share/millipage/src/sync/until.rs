//! Waiting until a word satisfies a condition.

use crate::{Error, Host, Operation, Row, Word};

/// The longest sleep between two looks at a word: plain stores on this machine ring no bell.
const SLEEP_NS_MAX: i64 = 1_000_000;
const SLEEP_NS_MIN: i64 = 20_000;

/// How a word is compared with a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// It is that number.
    Equal,
    /// It is another one.
    NotEqual,
    /// It is smaller.
    Less,
    /// It is that number or smaller.
    LessOrEqual,
    /// It is larger.
    Greater,
    /// It is that number or larger.
    GreaterOrEqual,
}

impl Comparison {
    fn holds<T: PartialOrd>(self, word: &T, number: &T) -> bool {
        match self {
            Self::Equal => word == number,
            Self::NotEqual => word != number,
            Self::Less => word < number,
            Self::LessOrEqual => word <= number,
            Self::Greater => word > number,
            Self::GreaterOrEqual => word >= number,
        }
    }
}

/// How long a thread sleeps that has slept so often.
fn longer(slept: u32) -> i64 {
    (SLEEP_NS_MIN << slept.min(16)).min(SLEEP_NS_MAX)
}

impl<T: Word> Row<T> {
    /// Waits until an element satisfies a condition, whichever thread of whichever host stores to it and how. What it is then.
    /// A store of another machine wakes this thread at once. So does [`Row::ring`] on this machine; without that, the thread looks
    /// once in a millisecond.
    ///
    /// # Errors
    /// A host is lost, or the call is interrupted.
    ///
    /// # Panics
    /// There are not so many elements.
    pub fn wait_until(&self, column: usize, is_met: impl Fn(T) -> bool) -> Result<T, Error> {
        let atomic = self.atomic(column);
        self.shared()
            .wait_at(self.address(column), longer, || Some(T::load(atomic)).filter(|now| is_met(*now)))
    }

    /// Wakes threads of this machine that wait until an element satisfies a condition.
    ///
    /// # Panics
    /// There are not so many elements.
    pub fn ring(&self, column: usize) {
        self.shared().ring(self.address(column));
    }
}

impl Host {
    /// The same for the word of 1, 2, 4, 8 or 16 bytes at an address, a number with or without a sign. It is compared with
    /// `number` itself, which may be one that such a word cannot be.
    ///
    /// # Errors
    /// As for [`Row::wait_until`]; or there is no such word.
    pub fn wait_until(
        &self,
        address: usize,
        bytes: usize,
        is_signed: bool,
        comparison: Comparison,
        number: i128,
    ) -> Result<u128, Error> {
        self.check_word(address, bytes)?;
        let spare = 128 - 8 * bytes as u32;
        let is_met = |word: u128| {
            if is_signed {
                comparison.holds(&((word << spare).cast_signed() >> spare), &number)
            } else {
                // A word without a sign is larger than each number below zero.
                u128::try_from(number)
                    .map_or_else(|_| comparison.holds(&1, &0), |number| comparison.holds(&word, &number))
            }
        };
        self.shared().wait_at(address, longer, || {
            // It is a word, so this does not fail.
            self.operate(address, bytes, Operation::Load, 0).ok().filter(|word| is_met(*word))
        })
    }

    /// As [`Row::ring`], by an address.
    ///
    /// # Errors
    /// There is no shared memory.
    pub fn ring(&self, address: usize) -> Result<(), Error> {
        self.bytes_at(address, 1)?;
        self.shared().ring(address);
        Ok(())
    }
}
