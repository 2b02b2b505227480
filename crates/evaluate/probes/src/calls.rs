//! System calls that do next to nothing.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::os::unix::process::parent_id;

use rustix::process::getppid;

use crate::memory::Passes;
use crate::{Case, Error};

const COST: (&str, &str) = ("cost", "ns");
/// Calls between two looks at the clock.
const CALLS: u32 = 256;

/// A call without arguments, by itself and through a function, and a read of one byte.
pub fn cases() -> Result<Vec<Case>, Error> {
    let zeros = File::open("/dev/zero").map_err(Error::refused("open /dev/zero"))?;
    Ok(vec![
        case("getppid", || {
            std::hint::black_box(getppid());
        }),
        case("getppid of the C library", || {
            std::hint::black_box(parent_id());
        }),
        case("read 1 byte of /dev/zero", move || {
            // It cannot fail, and a failure would show in the time.
            let _ = std::hint::black_box(zeros.read_at(&mut [0; 1], 0));
        }),
    ])
}

fn case(name: &str, call: impl Fn() + 'static) -> Case {
    let mut passes = Passes::default();
    Case::new("system call", name, COST, move || {
        let seconds = passes.seconds(&mut || (0..CALLS).for_each(|_| call()));
        Ok(seconds * 1e9 / f64::from(CALLS))
    })
}
