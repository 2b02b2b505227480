//! Matroska files, byte by byte.

pub fn element(id: &[u8], content: &[u8]) -> Vec<u8> {
    [id, &((content.len() as u64) | 1 << 56).to_be_bytes(), content].concat()
}

/// One with frames of sound of this codec in laced blocks, without a default duration. `more` is told of its track.
pub fn sound(codec: &[u8], more: &[u8], frames: &[&[u8]], per_block: usize, frame_ms: usize) -> Vec<u8> {
    let versions = [element(&[0x42, 0x87], &[4]), element(&[0x42, 0x85], &[2])].concat();
    let kind = [element(&[0x42, 0x82], b"matroska"), versions].concat();
    let header = element(&[0x1A, 0x45, 0xDF, 0xA3], &kind);
    let scale = element(&[0x2A, 0xD7, 0xB1], &1_000_000_u32.to_be_bytes());
    let made_by = [element(&[0x4D, 0x80], b"x"), element(&[0x57, 0x41], b"x")].concat();
    let info = element(&[0x15, 0x49, 0xA9, 0x66], &[scale, made_by].concat());
    let audio =
        element(&[0xE1], &[element(&[0xB5], &48_000_f32.to_be_bytes()), element(&[0x9F], &[2])].concat());
    let track = [
        element(&[0xD7], &[1]),
        element(&[0x73, 0xC5], &[1]),
        element(&[0x83], &[2]),
        element(&[0x86], codec),
        audio,
        more.to_vec(),
    ];
    let tracks = element(&[0x16, 0x54, 0xAE, 0x6B], &element(&[0xAE], &track.concat()));
    let mut blocks = element(&[0xE7], &[0]);
    for (number, some) in frames.chunks(per_block).enumerate() {
        let time = (number * per_block * frame_ms) as i16;
        let [high, low] = time.to_be_bytes();
        // Xiph lacing: the lengths of all but the last.
        let mut block = vec![0x81, high, low, 0x80 | 0x02, some.len() as u8 - 1];
        block.extend(some[..some.len() - 1].iter().map(|frame| frame.len() as u8));
        some.iter().for_each(|frame| block.extend_from_slice(frame));
        blocks.extend(element(&[0xA3], &block));
    }
    let cluster = element(&[0x1F, 0x43, 0xB6, 0x75], &blocks);
    [header, element(&[0x18, 0x53, 0x80, 0x67], &[info, tracks, cluster].concat())].concat()
}
