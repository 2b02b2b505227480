//! Bytes that a connection has not taken yet, in their order.

/// What may wait for a client that reads slowly, in bytes. What is due beyond that waits in the session's buffers.
const BACKLOG_BYTES_MAX: usize = 256 << 10;
/// The part of the memory for buffers that backlogs may have beside it.
const SHARE_PARTS: u64 = 8;
/// What is kept allocated while it is empty.
const KEPT_BYTES: usize = 16 << 10;

/// A queue of bytes.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    bytes: Vec<u8>,
    taken: usize,
}

/// The sum of them.
#[derive(Debug, Default)]
pub(crate) struct Backlogs {
    bytes: usize,
    /// How many are not empty.
    count: usize,
}

impl Backlogs {
    /// One of them has changed.
    pub fn note(&mut self, before: usize, after: usize) {
        self.bytes = self.bytes + after - before;
        self.count = self.count + usize::from(after > 0) - usize::from(before > 0);
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// How much more one may have that has so much. All may have [`BACKLOG_BYTES_MAX`] until their sum is a share of the memory
    /// for buffers; up to two of those, only those that have less than others; and from there on, only those that have nothing:
    /// a frame each, as those are not cut.
    pub fn room(&self, bytes: usize, memory_bytes: u64) -> usize {
        let share = usize::try_from(memory_bytes / SHARE_PARTS).unwrap_or(usize::MAX);
        let most = match self.bytes / share.max(1) {
            0 => BACKLOG_BYTES_MAX,
            1 => BACKLOG_BYTES_MAX.min(share / self.count.max(1)),
            _ => 0,
        };
        if bytes == 0 { most.max(1) } else { most.saturating_sub(bytes) }
    }

    pub fn has_room(&self, bytes: usize, memory_bytes: u64) -> bool {
        self.room(bytes, memory_bytes) > 0
    }
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
    fn a_few_slow_clients_have_much_and_many_have_little_each() {
        const MEMORY: u64 = 64 << 20;
        let mut all = Backlogs::default();
        let mut each = vec![0; 1000];
        for round in 0..10_000 {
            let one = &mut each[round % 1000];
            while all.has_room(*one, MEMORY) {
                all.note(*one, *one + 1400);
                *one += 1400;
            }
        }
        let most = (MEMORY / 4) as usize + each.len() * 1400;
        assert!(all.bytes() <= most && all.bytes() >= 8 << 20, "{} bytes", all.bytes());
        assert!(!all.has_room(5_000, MEMORY) && all.has_room(0, MEMORY));
        each.iter().for_each(|one| all.note(*one, 0));
        assert_eq!((all.bytes, all.count), (0, 0));
        assert!(all.has_room(BACKLOG_BYTES_MAX - 1, MEMORY) && !all.has_room(BACKLOG_BYTES_MAX, MEMORY));
    }

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
