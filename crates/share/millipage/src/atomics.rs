//! Atomic operations on shared memory.
//!
//! They are the processor's own instructions. Between machines a write fetches the only copy first, and no other machine writes
//! before the instruction is done. So an operation on a word is atomic for all threads of all hosts. All operations here are
//! sequentially consistent: one order of them all explains what each thread finds. Accesses before an operation in a thread are
//! done before the operation, and later ones after it.

use std::sync::atomic::{
    AtomicI8, AtomicI16, AtomicI32, AtomicI64, AtomicIsize, AtomicU8, AtomicU16, AtomicU32, AtomicU64,
    AtomicUsize, Ordering::SeqCst,
};

use bytemuck::Pod;
use portable_atomic::{AtomicI128, AtomicU128};

use crate::{Error, Host};

/// A type of number that the processor changes in one operation. Those of 128 bits need a processor that can
/// ([`has_atomics_of_128_bits`]).
pub trait Word: Pod {
    /// The same with atomic operations.
    type Atomic: Sync + 'static;

    /// What it is now.
    fn load(atomic: &Self::Atomic) -> Self;

    /// As an atomic.
    ///
    /// # Safety
    /// The address is a multiple of the type's size, and is mapped for as long as the process lives.
    unsafe fn atomic(address: *mut Self) -> &'static Self::Atomic;
}

macro_rules! word {
    ($number:ty, $atomic:ty, $is_there:expr) => {
        impl Word for $number {
            type Atomic = $atomic;

            fn load(atomic: &Self::Atomic) -> Self {
                atomic.load(SeqCst)
            }

            unsafe fn atomic(address: *mut Self) -> &'static Self::Atomic {
                assert!($is_there, "this processor has no atomic operations of 128 bits");
                // SAFETY: as the caller says.
                unsafe { <$atomic>::from_ptr(address) }
            }
        }
    };
}

word!(u8, AtomicU8, true);
word!(i8, AtomicI8, true);
word!(u16, AtomicU16, true);
word!(i16, AtomicI16, true);
word!(u32, AtomicU32, true);
word!(i32, AtomicI32, true);
word!(u64, AtomicU64, true);
word!(i64, AtomicI64, true);
word!(usize, AtomicUsize, true);
word!(isize, AtomicIsize, true);
word!(u128, AtomicU128, has_atomics_of_128_bits());
word!(i128, AtomicI128, has_atomics_of_128_bits());

/// Whether this processor changes 128 bits in one operation.
#[must_use]
pub fn has_atomics_of_128_bits() -> bool {
    AtomicU128::is_lock_free()
}

/// What is done to a word, for languages without types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Only reads it.
    Load,
    /// Sets it. Also swaps: what was there is returned.
    Store,
    /// Sets it if it is as expected.
    CompareExchange {
        /// What it should be.
        expected: u128,
    },
    /// Adds, and begins anew after the largest number.
    Add,
    /// Each bit is set that is set in both.
    And,
    /// Each bit is set that is set in one or both.
    Or,
    /// Each bit is set that is set in one of both.
    Xor,
}

impl Host {
    /// Does an atomic operation with the word of 1, 2, 4, 8 or 16 bytes at an address of shared memory. What it was; of smaller
    /// words, the lower bits of `value` count.
    ///
    /// # Errors
    /// There is no such word, or the processor cannot do that.
    pub fn operate(
        &self,
        address: usize,
        bytes: usize,
        operation: Operation,
        value: u128,
    ) -> Result<u128, Error> {
        self.check_word(address, bytes)?;
        macro_rules! operate {
            ($number:ty) => {{
                // SAFETY: aligned and allocated, as was just checked.
                let word = unsafe { <$number as Word>::atomic(address as *mut $number) };
                let value = value as $number;
                u128::from(match operation {
                    Operation::Load => word.load(SeqCst),
                    Operation::Store => word.swap(value, SeqCst),
                    Operation::CompareExchange { expected } => word
                        .compare_exchange(expected as $number, value, SeqCst, SeqCst)
                        .unwrap_or_else(|other| other),
                    Operation::Add => word.fetch_add(value, SeqCst),
                    Operation::And => word.fetch_and(value, SeqCst),
                    Operation::Or => word.fetch_or(value, SeqCst),
                    Operation::Xor => word.fetch_xor(value, SeqCst),
                })
            }};
        }
        Ok(match bytes {
            1 => operate!(u8),
            2 => operate!(u16),
            4 => operate!(u32),
            8 => operate!(u64),
            _ => operate!(u128),
        })
    }

    /// Fails unless there is a word of so many bytes at an address of shared memory.
    pub(crate) fn check_word(&self, address: usize, bytes: usize) -> Result<(), Error> {
        if !matches!(bytes, 1 | 2 | 4 | 8 | 16) || !address.is_multiple_of(bytes) {
            return Err(Error::NoWord { address, bytes });
        }
        if bytes == 16 && !has_atomics_of_128_bits() {
            return Err(Error::Not128Bits);
        }
        self.bytes_at(address, bytes).map(|_| ())
    }
}
