//! Executables as tools leave them that change a linked file: what the kernel and the loader read first lies behind everything else.

const PAGE: u64 = 4096;
const HEADER_BYTES: usize = 56;
const KIND_LOAD: u64 = 1;
const KIND_LOADER: u64 = 3;
const KIND_HEADERS: u64 = 6;

fn word(bytes: &[u8], at: usize, length: usize) -> u64 {
    bytes[at..at + length].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// The same program or library, with its program headers and the path of its loader at its end.
///
/// # Panics
/// When it is no 64-bit ELF file.
#[must_use]
pub fn headers_last(file: &[u8]) -> Vec<u8> {
    assert!(file.starts_with(b"\x7fELF\x02"), "a 64-bit ELF file");
    let (at, count) = (word(file, 32, 8) as usize, word(file, 56, 2) as usize);
    let mut headers: Vec<_> =
        file[at..at + count * HEADER_BYTES].chunks(HEADER_BYTES).map(<[u8]>::to_vec).collect();
    let kind = |header: &[u8]| word(header, 0, 4);
    let last = headers.iter().rposition(|header| kind(header) == KIND_LOAD).expect("something to load");
    let offset = (file.len() as u64).next_multiple_of(PAGE);
    let end = word(&headers[last], 16, 8) + word(&headers[last], 40, 8);
    let address = end.next_multiple_of(PAGE);
    let table = ((count + 1) * HEADER_BYTES) as u64;
    let loader = headers.iter().find(|header| kind(header) == KIND_LOADER).map(|header| {
        let (from, length) = (word(header, 8, 8) as usize, word(header, 32, 8) as usize);
        file[from..from + length].to_vec()
    });
    let loader = loader.unwrap_or_default();
    let header = |kind: u64, into: u64, length: u64, align: u64| {
        let at = [offset + into, address + into, address + into, length, length, align];
        let mut header = (kind | 4 << 32).to_le_bytes().to_vec();
        header.extend(at.iter().flat_map(|word| word.to_le_bytes()));
        header
    };
    for place in &mut headers {
        match kind(place) {
            KIND_HEADERS => *place = header(KIND_HEADERS, 0, table, 8),
            KIND_LOADER => *place = header(KIND_LOADER, table, loader.len() as u64, 1),
            _ => {}
        }
    }
    headers.insert(last + 1, header(KIND_LOAD, 0, table + loader.len() as u64, PAGE));
    let mut moved = file.to_vec();
    moved[at..at + count * HEADER_BYTES].fill(0);
    moved.resize(offset as usize, 0);
    moved.extend(headers.concat());
    moved.extend(loader);
    moved[32..40].copy_from_slice(&offset.to_le_bytes());
    moved[56..58].copy_from_slice(&(count as u16 + 1).to_le_bytes());
    moved
}
