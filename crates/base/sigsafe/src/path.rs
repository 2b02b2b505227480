//! Paths in fixed buffers.

/// A path of at most `N - 1` bytes, kept zero-terminated.
pub struct PathBuffer<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> PathBuffer<N> {
    /// An empty path.
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: [0; N], len: 0 }
    }

    /// Appends; `false` (and unchanged) where it does not fit.
    #[must_use]
    pub fn push(&mut self, bytes: &[u8]) -> bool {
        let end = self.len + bytes.len();
        let Some(room) = self.bytes.get_mut(self.len..end) else { return false };
        if end >= N {
            return false;
        }
        for (to, from) in room.iter_mut().zip(bytes) {
            *to = *from;
        }
        self.len = end;
        if let Some(terminator) = self.bytes.get_mut(end) {
            *terminator = 0;
        }
        true
    }

    /// Appends a decimal number; `false` where it does not fit.
    #[must_use]
    pub fn push_number(&mut self, number: u64) -> bool {
        let mut digits = [0; 20];
        self.push(crate::text::decimal(number, &mut digits))
    }

    /// The path without its terminator.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// Address of the terminated path.
    #[must_use]
    pub const fn as_ptr(&self) -> *const u8 {
        self.bytes.as_ptr()
    }

    /// Whether nothing was pushed.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Makes it empty.
    pub fn clear(&mut self) {
        self.len = 0;
        if let Some(first) = self.bytes.first_mut() {
            *first = 0;
        }
    }
}

impl<const N: usize> Default for PathBuffer<N> {
    fn default() -> Self {
        Self::new()
    }
}
