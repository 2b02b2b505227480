//! What any bytes of a process that does not know the key do to both ends of a handshake. The fuzz target runs the same.

use forebay_channel::{
    ANSWER_BYTES, Answering, Dialing, HELLO_BYTES, JobKey, PROOF_BYTES, RANDOM_BYTES, Refusal,
};

fn taken<const N: usize>(data: &[u8]) -> [u8; N] {
    let mut taken = [0; N];
    taken.iter_mut().zip(data).for_each(|(to, from)| *to = *from);
    taken
}

/// Nothing that a stranger says is taken for a host's, whatever it has heard before.
pub fn says(data: &[u8]) {
    let key = JobKey::of(&[[3; RANDOM_BYTES], [4; RANDOM_BYTES]]);
    let hello = taken::<HELLO_BYTES>(data);
    match Answering::new(&key, 2, [5; RANDOM_BYTES], hello) {
        Ok((answering, answer)) => {
            assert_eq!(answer.len(), ANSWER_BYTES);
            let proof = taken::<PROOF_BYTES>(data.get(HELLO_BYTES..).unwrap_or_default());
            assert!(answering.finish(&proof).is_err(), "a stranger is taken for a host");
        }
        Err(refusal) => assert_ne!(refusal, Refusal::Key),
    }
    let dialing = Dialing::new(&key, 5, 2, [6; RANDOM_BYTES]);
    assert!(dialing.finish(&taken(data)).is_err(), "a stranger is taken for a host");
}

/// No bytes open as a frame of a connection.
pub fn sends(data: &[u8]) {
    let key = JobKey::of(&[[3; RANDOM_BYTES], [4; RANDOM_BYTES]]);
    let dialing = Dialing::new(&key, 5, 2, [6; RANDOM_BYTES]);
    let Ok((answering, answer)) = Answering::new(&key, 2, [5; RANDOM_BYTES], *dialing.hello()) else {
        return;
    };
    let Ok((mut dialer, proof)) = dialing.finish(&taken(&answer)) else { return };
    let mut listener = answering.finish(&taken(&proof)).expect("it is a host");
    for channel in [&mut dialer, &mut listener] {
        let mut bytes = data.to_vec();
        assert!(!matches!(channel.opener.open(&mut bytes), Ok(Some(_))), "a frame of a stranger opens");
    }
}
