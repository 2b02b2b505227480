//! Numbers that are reduced, and how.

use bytemuck::Pod;

use crate::Error;

/// What becomes of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// Their sum. Integers begin anew after the largest one.
    Sum,
    /// Their product, likewise.
    Product,
    /// The smaller one, or what is no number (NaN) if one of them is not.
    Min,
    /// The larger one, likewise.
    Max,
    /// The bits that are set in both; of integers.
    And,
    /// The bits that are set in one or both; of integers.
    Or,
    /// The bits that are set in one of both; of integers.
    Xor,
}

/// The type of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "they are Rust's own names")]
pub enum NumberType {
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
}

/// A type of number that is reduced.
pub trait Number: Pod {
    /// Its name.
    const TYPE: NumberType;

    /// What becomes of two.
    #[must_use]
    fn reduced(self, other: Self, reduction: Reduction) -> Self;
}

macro_rules! integer {
    ($number:ty, $name:ident) => {
        impl Number for $number {
            const TYPE: NumberType = NumberType::$name;

            fn reduced(self, other: Self, reduction: Reduction) -> Self {
                match reduction {
                    Reduction::Sum => self.wrapping_add(other),
                    Reduction::Product => self.wrapping_mul(other),
                    Reduction::Min => self.min(other),
                    Reduction::Max => self.max(other),
                    Reduction::And => self & other,
                    Reduction::Or => self | other,
                    Reduction::Xor => self ^ other,
                }
            }
        }
    };
}

macro_rules! float {
    ($number:ty, $name:ident) => {
        impl Number for $number {
            const TYPE: NumberType = NumberType::$name;

            fn reduced(self, other: Self, reduction: Reduction) -> Self {
                match reduction {
                    Reduction::Product => self * other,
                    // `min` and `max` would drop what is no number.
                    Reduction::Min if self.is_nan() || self < other => self,
                    Reduction::Max if self.is_nan() || self > other => self,
                    Reduction::Min | Reduction::Max => other,
                    // Bits are refused before.
                    _ => self + other,
                }
            }
        }
    };
}

integer!(i8, I8);
integer!(u8, U8);
integer!(i16, I16);
integer!(u16, U16);
integer!(i32, I32);
integer!(u32, U32);
integer!(i64, I64);
integer!(u64, U64);
float!(f32, F32);
float!(f64, F64);

impl NumberType {
    /// Fails where numbers of this type cannot be reduced so, or so many bytes are not some of them.
    pub(super) fn check(self, reduction: Reduction, bytes: usize) -> Result<(), Error> {
        let is_of_bits = matches!(reduction, Reduction::And | Reduction::Or | Reduction::Xor);
        if is_of_bits && matches!(self, Self::F32 | Self::F64) {
            return Err(Error::NoReduction);
        }
        let size = self.bytes();
        if bytes.is_multiple_of(size) { Ok(()) } else { Err(Error::NoNumbers { bytes, size }) }
    }

    /// Bytes of a number.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }

    /// Reduces the numbers of `into` with those of `other`, one by one. Neither need be aligned.
    pub(super) fn reduce(self, reduction: Reduction, into: &mut [u8], other: &[u8]) {
        fn each<T: Number>(reduction: Reduction, into: &mut [u8], other: &[u8]) {
            let size = size_of::<T>();
            for (into, other) in into.chunks_exact_mut(size).zip(other.chunks_exact(size)) {
                let [one, other] = [&*into, other].map(bytemuck::pod_read_unaligned::<T>);
                into.copy_from_slice(bytemuck::bytes_of(&one.reduced(other, reduction)));
            }
        }
        match self {
            Self::I8 => each::<i8>(reduction, into, other),
            Self::U8 => each::<u8>(reduction, into, other),
            Self::I16 => each::<i16>(reduction, into, other),
            Self::U16 => each::<u16>(reduction, into, other),
            Self::I32 => each::<i32>(reduction, into, other),
            Self::U32 => each::<u32>(reduction, into, other),
            Self::I64 => each::<i64>(reduction, into, other),
            Self::U64 => each::<u64>(reduction, into, other),
            Self::F32 => each::<f32>(reduction, into, other),
            Self::F64 => each::<f64>(reduction, into, other),
        }
    }
}
