//! Bytes that a connection has not taken yet, in their order.

/// What is kept allocated while it is empty.
const KEPT_BYTES: usize = 16 << 10;

/// A queue of bytes.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    bytes: Vec<u8>,
    taken: usize,
}

impl Backlog {
    pub fn len(&self) -> usize {
        self.bytes.len() - self.taken
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn push(&mut self, bytes: &[u8]) {
        // What has been taken is moved over as seldom as that it costs nothing.
        if self.taken > self.bytes.len() / 2 {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// What comes next.
    pub fn pending(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }

    /// So many bytes of that are gone.
    pub fn take(&mut self, count: usize) {
        self.taken = self.bytes.len().min(self.taken + count);
        if self.is_empty() {
            self.bytes.clear();
            self.bytes.shrink_to(KEPT_BYTES);
            self.taken = 0;
        }
    }
}

impl std::io::Write for Backlog {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.push(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_in_the_order_in_which_they_went_in() {
        let mut backlog = Backlog::default();
        let (mut put, mut taken) = (0_u32, Vec::new());
        for round in 0..200_usize {
            let bytes: Vec<u8> = (0..round * 7 % 90)
                .map(|_| {
                    put += 1;
                    put as u8
                })
                .collect();
            backlog.push(&bytes);
            let count = backlog.len().min(round * 13 % 101);
            taken.extend_from_slice(&backlog.pending()[..count]);
            backlog.take(count);
        }
        taken.extend_from_slice(backlog.pending());
        let expected: Vec<u8> = (1..=put).map(|number| number as u8).collect();
        assert_eq!(taken, expected);
    }
}
