//! What happens when the library is loaded, before the program's own code runs.

use core::sync::atomic::Ordering;

use forebay_protocol::layout::{Off, feature};

use crate::objects::ProgramHeaders;
use crate::{
    accesses, environment, faults, held, interpose, original, patch, record_locks, role, session, timing,
    unforked,
};

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn(i32, *mut *mut u8, *mut *mut u8) = start;

extern "C" fn start(_count: i32, _arguments: *mut *mut u8, environment: *mut *mut u8) {
    if environment.is_null() {
        return;
    }
    // SAFETY: glibc hands constructors the kernel's own array, behind whose null the auxiliary vector stands.
    let (headers, name) = unsafe { (program_headers(environment), environment::take(environment)) };
    let (Some(headers), Some(name)) = (headers, name) else { return };
    if !session::attach(name) {
        return;
    }
    let Some(header) = session::header() else { return };
    record_locks::begin();
    header.processes_assisted.fetch_add(1, Ordering::Relaxed);
    if header.enabled.load(Ordering::Relaxed) == 0 {
        original::count_off(Off::Disabled);
    }
    if original::is_confined(header) {
        original::count_off(Off::Confined);
        return;
    }
    if !original::begin(header) || !role::begin_original() {
        return;
    }
    // SAFETY: the kernel's string, or null.
    unsafe { accesses::begin(headers.program) };
    // SAFETY: constructors run when the loader has done its work and before the program could start a thread.
    unsafe { timing::find_sequences(headers) };
    // SAFETY: as above.
    let patched = unsafe { patch::apply(&header.patches, headers) };
    if patched.signals {
        // SAFETY: the program's own headers; this runs in its main thread.
        unsafe { faults::begin_program(headers.memory_bytes()) };
    } else {
        faults::rule_out();
    }
    if patched.mappings {
        unforked::begin();
    } else {
        held::see_no_mappings();
    }
    if patched.sites == 0 {
        header.missing.fetch_or(feature::PATCHING, Ordering::Relaxed);
        record_locks::may_be_taken();
        // SAFETY: as above.
        unsafe { interpose::apply(headers) };
    }
}

const AT_PHDR: usize = 3;
const AT_PHNUM: usize = 5;
const AT_EXECFN: usize = 31;

/// # Safety
/// `environment` is the array that the kernel made, with the auxiliary vector behind it.
unsafe fn program_headers(environment: *mut *mut u8) -> Option<ProgramHeaders> {
    let mut headers = ProgramHeaders { address: 0, count: 0, program: core::ptr::null() };
    // SAFETY: the caller's; the vector ends with a zero entry.
    unsafe {
        let mut at = environment;
        while !(*at).is_null() {
            at = at.add(1);
        }
        let mut vector = at.add(1).cast::<[usize; 2]>();
        while (*vector)[0] != 0 {
            match *vector {
                [AT_PHDR, value] => headers.address = value,
                [AT_PHNUM, value] => headers.count = value,
                [AT_EXECFN, value] => headers.program = value as *const u8,
                _ => {}
            }
            vector = vector.add(1);
        }
    }
    (headers.address != 0).then_some(headers)
}
