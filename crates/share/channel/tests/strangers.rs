//! What a process that does not know the key can do with a connection: nothing.

use forebay_channel::{
    ANSWER_BYTES, Answering, Channel, Dialing, HELLO_BYTES, JobKey, NotOurs, PROOF_BYTES, RANDOM_BYTES,
    Refusal, TEXT_BYTES_MAX, random,
};

fn key(of: u8) -> JobKey {
    JobKey::of(&[[of; RANDOM_BYTES], [7; RANDOM_BYTES]])
}

fn fixed<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().unwrap()
}

/// Both ends of a connection from host 5 to host 2.
fn connection() -> (Channel, Channel) {
    let dialing = Dialing::new(&key(1), 5, 2, random().unwrap());
    let (answering, answer) = Answering::new(&key(1), 2, random().unwrap(), *dialing.hello()).unwrap();
    assert_eq!(answering.from(), 5);
    let (dialer, proof) = dialing.finish(&fixed::<ANSWER_BYTES>(&answer)).unwrap();
    (dialer, answering.finish(&fixed::<PROOF_BYTES>(&proof)).unwrap())
}

fn sealed(channel: &mut Channel, text: &[u8]) -> Vec<u8> {
    let mut frame = vec![];
    channel.sealer.seal(&mut frame, |frame| frame.extend(text));
    frame
}

#[test]
fn texts_of_all_lengths_arrive_in_pieces_and_together() {
    let (mut dialer, mut listener) = connection();
    let texts: Vec<Vec<u8>> = [0, 1, 18, 4_096, TEXT_BYTES_MAX].map(|bytes| vec![9; bytes]).into();
    let all: Vec<u8> = texts.iter().flat_map(|text| sealed(&mut dialer, text)).collect();
    let (mut arrived, mut opened) = (vec![], vec![]);
    for piece in all.chunks(977) {
        arrived.extend(piece);
        while let Some((text, used)) = listener.opener.open(&mut arrived).unwrap() {
            opened.push(text.to_vec());
            arrived.drain(..used);
        }
    }
    assert_eq!((opened, arrived), (texts, vec![]));
    let mut back = sealed(&mut listener, b"back");
    assert_eq!(dialer.opener.open(&mut back).unwrap().unwrap().0, b"back");
}

#[test]
fn a_frame_that_was_changed_repeated_reordered_or_reflected_does_not_open() {
    fn refused(change: impl Fn(&mut Channel, Vec<u8>, Vec<u8>) -> Vec<u8>) {
        let (mut dialer, mut listener) = connection();
        let (first, second) = (sealed(&mut dialer, b"first"), sealed(&mut dialer, b"second"));
        let mut frame = change(&mut listener, first, second);
        assert_eq!(listener.opener.open(&mut frame).unwrap_err(), NotOurs);
    }
    for byte in 0..25 {
        // A shorter length is one that is authenticated too; a longer one leaves the frame unfinished.
        refused(|_, mut first, second| {
            first[byte] ^= 1;
            [first, second, vec![0; TEXT_BYTES_MAX * 2]].concat()
        });
    }
    refused(|_, _, second| second);
    refused(|listener, mut first, _| {
        let copy = first.clone();
        listener.opener.open(&mut first).unwrap();
        copy
    });
    refused(|listener, _, _| sealed(listener, b"its own"));
}

#[test]
fn who_does_not_know_the_key_is_refused_on_both_ends() {
    let dialing = Dialing::new(&key(1), 5, 2, random().unwrap());
    let (answering, answer) = Answering::new(&key(2), 2, random().unwrap(), *dialing.hello()).unwrap();
    assert_eq!(dialing.clone().finish(&fixed(&answer)).err(), Some(Refusal::Key));
    // It cannot prove anything to the listener either, with any bytes.
    assert_eq!(answering.finish(&[0; PROOF_BYTES]).err(), Some(Refusal::Key));
    // An answer to another hello is none.
    let (_, answer) = Answering::new(&key(1), 2, random().unwrap(), *dialing.hello()).unwrap();
    let again = Dialing::new(&key(1), 5, 2, random().unwrap());
    assert_eq!(again.finish(&fixed(&answer)).err(), Some(Refusal::Key));
}

#[test]
fn a_hello_of_another_program_version_or_host_is_refused() {
    let good = *Dialing::new(&key(1), 5, 2, random().unwrap()).hello();
    let refused = |index: usize, value: u8| {
        let mut hello = good;
        hello[index] = value;
        Answering::new(&key(1), 2, random().unwrap(), hello).err()
    };
    assert_eq!(refused(0, b'F'), Some(Refusal::Stranger));
    assert_eq!(refused(7, 9), Some(Refusal::Version { theirs: 9 }));
    assert_eq!(refused(10, 3), Some(Refusal::Ranks { from: 5, to: 3 }));
    assert!(refused(8, 4).is_none(), "a host that claims another rank fails at its proof");
    assert_eq!(HELLO_BYTES, 44);
}
