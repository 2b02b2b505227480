//! Views of one object: the same bytes, protections of their own, and faults that are served.

use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use forebay_vm::fault::{Fault, Serve, serve};
use forebay_vm::{
    Allowed, Element, Mapping, Mprotect, Object, ObjectName, Origin, PAGE_BYTES, Protection, Through,
    UserFaults, Views,
};

/// Version of the kernel.
fn kernel() -> (u32, u32) {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers =
        release.split(|other: char| !other.is_ascii_digit()).map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap(), numbers.next().unwrap())
}

fn write(address: usize, value: u64) {
    // SAFETY: a mapped address in a view of this test's; nothing refers to it.
    unsafe { ptr::write_volatile(address as *mut u64, value) }
}

fn read(address: usize) -> u64 {
    // SAFETY: as in `write`.
    unsafe { ptr::read_volatile(address as *const u64) }
}

#[test]
fn all_views_show_the_same_bytes() {
    let object = Object::new(3 * PAGE_BYTES + 1).unwrap();
    assert_eq!(object.bytes(), 4 * PAGE_BYTES);
    let views = Views::map(&object, 3, None).unwrap();
    write(views.address(1, 5_000), 7);
    for view in 0..3 {
        assert_eq!(read(views.address(view, 5_000)), 7);
        assert_eq!(views.locate(views.address(view, 5_000)), Some((view, 5_000)));
    }
    assert_eq!(read(views.privileged(5_000)), 7);
    assert_eq!(views.locate(views.privileged(0)), None);
    assert_eq!(views.locate(views.base() - 1), None);
}

#[test]
fn pages_exist_from_their_reservation_until_they_are_given_back() {
    let object = Object::sparse(64 << 20).unwrap();
    let views = Views::map_sparse(&object, 2, None).unwrap();
    let exist = || rustix::fs::fstat(&object).unwrap().st_blocks as usize * 512 / PAGE_BYTES;
    assert_eq!(exist(), 0);
    object.reserve(5 * PAGE_BYTES, 3_000 * PAGE_BYTES).unwrap();
    assert_eq!(exist(), 3_000);
    write(views.address(0, 6 * PAGE_BYTES), 7);
    views.give_back(5 * PAGE_BYTES, 2_900 * PAGE_BYTES).unwrap();
    assert_eq!((exist(), read(views.address(1, 6 * PAGE_BYTES))), (100, 0));
}

#[test]
fn core_files_have_of_the_views_what_is_shown() {
    let object = Object::sparse(8 * PAGE_BYTES).unwrap();
    let views = Views::map_sparse(&object, 2, None).unwrap();
    let is_left_out = |address: usize| {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut is_there = false;
        for line in maps.lines() {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let ends = range.map(|(start, end)| [start, end].map(|end| usize::from_str_radix(end, 16)));
            if let Some([Ok(start), Ok(end)]) = ends {
                is_there = (start..end).contains(&address);
            } else if let Some(flags) = line.strip_prefix("VmFlags:").filter(|_| is_there) {
                return flags.split(' ').any(|flag| flag == "dd");
            }
        }
        panic!("{address:#x} is not mapped");
    };
    let shown = views.address(1, 2 * PAGE_BYTES);
    assert!(!is_left_out(shown));
    views.keep_out_of_dumps().unwrap();
    let others = [views.base(), shown - 1, shown + PAGE_BYTES, views.privileged(0)];
    for is_shown in [true, false] {
        views.show_in_dumps(shown..shown + PAGE_BYTES, is_shown);
        assert_eq!(is_left_out(shown), !is_shown);
        assert!(others.into_iter().all(is_left_out));
    }
}

#[test]
fn views_are_mapped_where_they_are_wanted_or_not_at_all() {
    let object = Object::new(PAGE_BYTES).unwrap();
    // What other tests map at the same time is put right below what there is.
    let at = Views::probe(PAGE_BYTES, 2).unwrap() - (1 << 40);
    let views = Views::map(&object, 2, Some(at)).unwrap();
    assert_eq!(views.base(), at);
    let error = Views::map(&object, 2, Some(at)).unwrap_err().to_string();
    assert!(error.contains("cannot map 2 views of 4096 bytes at 0x"), "{error}");
    drop(views);
    Views::map(&object, 2, Some(at)).unwrap();
}

#[test]
fn an_object_is_found_by_its_name_and_nothing_else_is() {
    let object = Object::sparse(2 * PAGE_BYTES).unwrap();
    let name: ObjectName = object.name().unwrap().to_string().parse().unwrap();
    let (one, other) =
        (Mapping::new(&object).unwrap(), Mapping::new(&Object::named(&name).unwrap()).unwrap());
    assert_eq!((one.bytes(), other.bytes()), (2 * PAGE_BYTES, 2 * PAGE_BYTES));
    write(one.address() + PAGE_BYTES, 7);
    assert_eq!(read(other.address() + PAGE_BYTES), 7);
    // The descriptor is there, and is of another object.
    let text = name.to_string();
    let words: Vec<&str> = text.split(' ').collect();
    let mistaken = [words[0], words[1], "1", words[3]].join(" ").parse().unwrap();
    assert!(Object::named(&mistaken).is_err());
    for text in ["", "1 2 3", "1 2 3 4 5", "a b c d"] {
        assert!(text.parse::<ObjectName>().is_err(), "{text}");
    }
    drop(object);
    assert!(Object::named(&name).is_err());
}

#[test]
fn a_child_that_is_forked_has_no_views() {
    let object = Object::new(PAGE_BYTES).unwrap();
    let views = Views::map(&object, 1, None).unwrap();
    write(views.address(0, 0), 7);
    for address in [views.address(0, 0), views.privileged(0)] {
        // SAFETY: the child reads, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // A test binary may have a handler for it.
            // SAFETY: signal and _exit can be called in the child of a process with threads.
            unsafe {
                libc::signal(libc::SIGSEGV, libc::SIG_DFL);
                libc::_exit((read(address) != 7).into());
            }
        }
        let mut status = 0;
        // SAFETY: it is a child of this process, and the status a local.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSEGV, "{status:#x}");
    }
}

/// Serves a fault by allowing what was done, and counts.
struct Allow {
    protection: Box<dyn Protection>,
    reads: AtomicUsize,
    writes: AtomicUsize,
}

impl Serve for Allow {
    fn serve(&self, fault: Fault) -> bool {
        let (count, allowed) =
            if fault.is_write { (&self.writes, Allowed::Writing) } else { (&self.reads, Allowed::Reading) };
        count.fetch_add(1, Relaxed);
        self.protection.set(fault.address & !(PAGE_BYTES - 1), PAGE_BYTES, allowed).is_ok()
    }
}

fn serve_all(views: &Views, protection: Box<dyn Protection>) -> &'static Allow {
    let allow = Box::leak(Box::new(Allow { protection, reads: 0.into(), writes: 0.into() }));
    let area = views.base()..views.base() + views.count() * views.bytes();
    std::mem::forget(serve(area, allow.protection.signal(), allow).unwrap());
    allow
}

fn a_vpage_faults_until_it_may(protection: impl FnOnce(&Views) -> Box<dyn Protection>) {
    let object = Object::new(4 * PAGE_BYTES).unwrap();
    // Faults may come as long as the process lives.
    let views = Box::leak(Box::new(Views::map(&object, 2, None).unwrap()));
    write(views.privileged(PAGE_BYTES), 42);
    let allow = serve_all(views, protection(views));
    let faults = || (allow.reads.load(Relaxed), allow.writes.load(Relaxed));
    let (first, second) = (views.address(0, PAGE_BYTES), views.address(1, PAGE_BYTES));

    assert_eq!((read(first), faults()), (42, (1, 0)));
    assert_eq!((read(first), faults()), (42, (1, 0)));
    write(first, 43);
    assert_eq!(faults(), (1, 1));
    write(first, 44);
    assert_eq!(faults(), (1, 1), "it may write now");
    assert_eq!((read(second), faults()), (44, (2, 1)), "the other view has a protection of its own");

    allow.protection.set(first, PAGE_BYTES, Allowed::Reading).unwrap();
    allow.protection.set(first, PAGE_BYTES, Allowed::Reading).unwrap();
    assert_eq!((read(first), faults()), (44, (2, 1)));
    write(first, 45);
    assert_eq!(faults(), (2, 2));
    allow.protection.set(first, PAGE_BYTES, Allowed::Nothing).unwrap();
    allow.protection.set(first, PAGE_BYTES, Allowed::Nothing).unwrap();
    assert_eq!((read(views.privileged(PAGE_BYTES)), faults()), (45, (2, 2)), "the contents stay");
    write(first, 46);
    assert_eq!((read(second), faults()), (46, (2, 3)));

    // Several pages at a time, of which one may be used already.
    let pages = [0, 1, 2, 3].map(|page| views.address(0, page * PAGE_BYTES));
    let all = |before, allowed| {
        allow.protection.change(pages[0], pages.len() * PAGE_BYTES, before, allowed).unwrap();
    };
    all(Allowed::Nothing, Allowed::Reading);
    assert_eq!((pages.map(read)[1], faults()), (46, (2, 3)));
    pages.iter().for_each(|page| write(*page, 47));
    assert_eq!(faults(), (2, 7));
    all(Allowed::Writing, Allowed::Reading);
    assert_eq!((pages.map(read), faults()), ([47; 4], (2, 7)));
    all(Allowed::Reading, Allowed::Writing);
    pages.iter().for_each(|page| write(*page, 48));
    assert_eq!(faults(), (2, 7));
    all(Allowed::Writing, Allowed::Nothing);
    // What was said of them before is not so: a thread faults, and all is well.
    all(Allowed::Reading, Allowed::Writing);
    pages.iter().for_each(|page| write(*page, 49));
    assert_eq!(pages.map(read), [49; 4]);
    all(Allowed::Writing, Allowed::Nothing);
    let (reads, writes) = faults();
    assert_eq!((pages.map(read), faults()), ([49; 4], (reads + 4, writes)));
}

#[test]
fn a_child_is_not_where_its_parent_is() {
    let origin = Origin::here().unwrap();
    assert!(origin.is_here());
    // SAFETY: the child looks at a word, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: as above.
        unsafe { libc::_exit(origin.is_here().into()) };
    }
    let mut status = -1;
    // SAFETY: it is a child of this process, and the status a local.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    assert!(origin.is_here());
}

#[test]
fn a_vpage_faults_until_it_may_by_userfaultfd() {
    let object = Object::new(PAGE_BYTES).unwrap();
    let views = Views::map(&object, 1, None).unwrap();
    match UserFaults::new(&views) {
        Ok(_) => a_vpage_faults_until_it_may(|views| Box::new(UserFaults::new(views).unwrap())),
        // Only there it may be refused.
        Err(error) => assert!(kernel() < (6, 4), "{error}"),
    }
}

/// Counts faults where a page did not exist, and lets it exist.
struct Exist {
    views: &'static Views,
    protection: UserFaults,
    faults: AtomicUsize,
}

impl Serve for Exist {
    fn serve(&self, fault: Fault) -> bool {
        self.faults.fetch_add(1, Relaxed);
        let page = fault.address & !(PAGE_BYTES - 1);
        let change = || self.protection.set(page, PAGE_BYTES, Allowed::Writing).is_ok();
        let (_, offset) = self.views.locate(page).unwrap();
        !change() && self.views.populate(offset, PAGE_BYTES).is_ok() && change()
    }
}

#[test]
fn a_page_that_does_not_exist_faults_by_userfaultfd() {
    let object = Object::sparse(8 * PAGE_BYTES).unwrap();
    let views: &'static Views = Box::leak(Box::new(Views::map_sparse(&object, 2, None).unwrap()));
    let protection = match UserFaults::new(views) {
        Ok(protection) => protection,
        Err(error) => return assert!(kernel() < (6, 4), "{error}"),
    };
    let exist: &'static Exist = Box::leak(Box::new(Exist { views, protection, faults: 0.into() }));
    let area = views.base()..views.base() + 2 * views.bytes();
    std::mem::forget(serve(area, exist.protection.signal(), exist).unwrap());
    let faults = || exist.faults.load(Relaxed);
    for round in 1..4 {
        for (page, view) in [(3, 0), (7, 1)] {
            let address = views.address(view, page * PAGE_BYTES);
            let before = faults();
            assert_eq!((read(address), faults()), (0, before + 1), "page {page} in round {round}");
            write(address, 7);
            assert_eq!(faults(), before + 1);
            exist.protection.change(address, PAGE_BYTES, Allowed::Writing, Allowed::Reading).unwrap();
        }
        // Also where a page was write-protected before.
        views.give_back(0, 8 * PAGE_BYTES).unwrap();
    }
}

#[test]
fn a_vpage_faults_until_it_may_by_mprotect() {
    a_vpage_faults_until_it_may(|views| Box::new(Mprotect::new(views).unwrap()));
}

#[test]
fn the_sum_is_the_same_through_all_views_and_through_one() {
    let object = Object::new(3 * PAGE_BYTES).unwrap();
    for count in [1, 8, 512] {
        let views = Views::map(&object, count, None).unwrap();
        let mut expected = (0, 0u64);
        for offset in 0..3 * PAGE_BYTES {
            let value = (offset * 7 % 251) as u8;
            // SAFETY: in the privileged view, which nobody else uses.
            unsafe { (views.privileged(offset) as *mut u8).write_volatile(value) };
            expected.0 += u64::from(value);
            expected.1 = expected.1.wrapping_add(u64::from(value) << (offset % 8 * 8));
        }
        for through in [Through::AllViews, Through::OneView] {
            let sums = (views.sum(Element::Byte, through), views.sum(Element::Word, through));
            assert_eq!(sums, expected, "{count} views, {through:?}");
        }
    }
}
