//! Storage that is no local disk: what the program asks of it stays the same, and hints help there too.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use forebay_compat::mounted::{Mounted, launch, launch_in, remote};
use forebay_compat::run::{Side, find_program};
use forebay_compat::{Outcome, Scratch, guests::build, in_some_run, root, scratch, skip, switch};
use forebay_lab::{Opens, Profile, SlowDisk, Stats};

/// Runs a command on a disk that was made cold: what came of it, and what the disk has served.
fn on(disk: &SlowDisk, test: &str, side: Side, argv: &[&str]) -> (Outcome, Stats) {
    disk.make_cold().expect("make the disk cold");
    disk.reset_stats().expect("count from zero");
    let outcome = launch(&Scratch::fresh(scratch::base().join(test)), side, argv);
    (outcome, disk.stats().expect("what was served"))
}

/// Both sides: the outcomes are the same, and the statistics of both are told.
fn compare(disk: &SlowDisk, test: &str, argv: &[&str]) -> ((Outcome, Stats), (Outcome, Stats)) {
    let [without, with] = [Side::Without, Side::With].map(|side| on(disk, test, side, argv));
    assert_eq!(without.0.stdout, with.0.stdout, "{argv:?}");
    assert_eq!((without.0.status, &without.0.stderr), (with.0.status, &with.0.stderr), "{argv:?}");
    assert_eq!(without.0.tree, with.0.tree, "{argv:?}");
    (without, with)
}

/// Folders with more names than one call gives.
fn folders(root: &Path) {
    for folder in ["first", "second"] {
        fs::create_dir(root.join(folder)).expect("make a folder");
        for number in 0..200 {
            fs::write(root.join(folder).join(format!("{number:0200}")), "x").expect("write a file");
        }
    }
}

#[test]
fn folders_are_listed_from_their_beginning() {
    const NAME: &str = "folders_are_listed_from_their_beginning";
    let Some(disk) = remote(NAME, folders) else { return };
    let root = disk.mount_point().to_str().expect("a path in UTF-8").to_owned();
    for argv in [&["find", &root, "-ls"][..], &["ls", "-lR", &root], &["du", "-a", &root]] {
        let _ = in_some_run(|| {
            let (_, (with, stats)) = compare(&disk, NAME, argv);
            assert_eq!(stats.listings_astray, 0, "{argv:?}: {stats:?}");
            with.wanted(|with| with.figure("forks") > 0.0)
        });
    }
}

#[test]
fn an_original_asks_a_remote_file_system_for_nothing_of_forebay_s_own() {
    const NAME: &str = "an_original_asks_for_nothing";
    let Some(disk) = remote(NAME, |root| {
        fs::write(root.join("data"), vec![1; 4 << 20]).expect("write the data");
    }) else {
        return;
    };
    let reader = build("reads_apart");
    let data = disk.mount_point().join("data");
    let argv = [&reader, &data].map(|path| path.to_str().expect("a path in UTF-8"));
    let (without, with) = compare(&disk, NAME, &argv);
    assert_eq!(with.1.attributes, without.1.attributes, "{:?} {:?}", without.1, with.1);
}

/// Four folders of forty small files.
fn small_files(root: &Path) {
    for folder in 0..4 {
        let folder = root.join("tree").join(folder.to_string());
        fs::create_dir_all(&folder).expect("make a folder");
        for number in 0..40 {
            let content = format!("{} of {}\n", number, folder.display()).repeat(40);
            fs::write(folder.join(number.to_string()), content).expect("write a file");
        }
    }
}

#[test]
fn programs_that_read_a_tree_have_hints_for_most_of_it() {
    const NAME: &str = "programs_that_read_a_tree_have_hints";
    const FILES: f64 = 160.0;
    let Some(disk) = remote(NAME, small_files) else { return };
    let tree = disk.mount_point().join("tree").display().to_string();
    for opens in [Opens::default(), Opens { at_once: true, ..Opens::default() }] {
        disk.set_opens(opens).expect("say what opens are");
        // A copy checks that what it opens is what it has looked up, and goes on in folders that it makes.
        for argv in
            [&["grep", "-rc", "7", &tree][..], &["tar", "cf", "out.tar", &tree], &["cp", "-r", &tree, "copy"]]
        {
            let _ = in_some_run(|| {
                let (_, (with, _)) = compare(&disk, NAME, argv);
                let hinted = with.figure("hints_used") + with.figure("hints_late");
                let is_helped = with.wanted(|with| hinted > FILES && with.figure("forks") < 16.0);
                is_helped.map_err(|seen| format!("{opens:?} {argv:?}: {seen}"))
            });
        }
    }
}

/// A program that reads 40 files and ends before the next one, for which requests of one kind get no answer.
fn ends_before_what_is_held(kind: &str) {
    let test = format!("held_{kind}");
    let names: Vec<String> = (0..40).map(|number| format!("file{number}")).collect();
    let held: Vec<String> = (0..20).map(|number| format!("held-{kind}-{number}")).collect();
    let Some(disk) = remote(&test, |root| {
        for (number, name) in names.iter().enumerate() {
            // The last one tells the program to end.
            fs::write(root.join(name), if number == 39 { "end" } else { "go on" }).expect("write a file");
        }
        held.iter().for_each(|name| fs::write(root.join(name), "go on").expect("write a file"));
    }) else {
        return;
    };
    let guest = build("ends_early");
    let paths: Vec<String> =
        names.iter().chain(&held).map(|name| disk.mount_point().join(name).display().to_string()).collect();
    let mut argv = vec![guest.to_str().expect("a path in UTF-8")];
    argv.extend(paths.iter().map(String::as_str));
    // The run ends while the held requests are unanswered: nothing answers them before that.
    let (without, with) = compare(&disk, &test, &argv);
    assert_eq!(without.0.status, 0);
    assert!(with.0.figure("forks") > 0.0, "no speculation");
    assert!(with.1.look_ups > without.1.look_ups, "no held file was reached: {:?}", with.1);
    let deadline = Instant::now() + Duration::from_secs(20);
    let supervisors = disk.stats().expect("what was served");
    disk.set_latency(false).expect("answer what was held");
    while let Some(left) = users(disk.mount_point()) {
        assert!(Instant::now() < deadline, "{left} is left, {supervisors:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A process that has something below `folder` open.
fn users(folder: &Path) -> Option<String> {
    let processes = fs::read_dir("/proc").expect("list processes").flatten();
    processes.map(|process| process.path()).find_map(|process| {
        let descriptors = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        let uses = |link: &Path| fs::read_link(link).is_ok_and(|target| target.starts_with(folder));
        let is_user = descriptors.map(|entry| entry.path()).any(|link| uses(&link));
        is_user.then(|| fs::read_to_string(process.join("comm")).unwrap_or_default())
    })
}

#[test]
fn a_look_up_that_is_never_answered_holds_nothing_up() {
    ends_before_what_is_held("lookup");
}

#[test]
fn an_open_that_is_never_answered_holds_nothing_up() {
    ends_before_what_is_held("open");
}

#[test]
fn a_read_that_is_never_answered_holds_nothing_up() {
    ends_before_what_is_held("read");
}

/// A slow disk; says why where there is none.
fn slow_disk(test: &str) -> Option<SlowDisk> {
    if switch("FOREBAY_COMPAT_PLAIN") {
        skip(test, "both sides run without forebay");
        return None;
    }
    SlowDisk::start(Profile::Ssd1Ms, 512 << 20).map_err(|why| skip(test, why.to_string())).ok()
}

/// Look-ups of files, some in each of many folders: the device reads once for those of a folder. The hints that were used, and the
/// stalls that they are taken to have spared, where at least `wanted` hints were used.
fn looked_up(disk: &SlowDisk, test: &str, files: u32, wanted: f64) -> (f64, f64) {
    let path = |folder, file| disk.mount_point().join(format!("{folder}/inner/{file}")).display().to_string();
    let paths: Vec<_> =
        (0..FOLDERS).flat_map(|folder| (0..files).map(move |file| path(folder, file))).collect();
    let argv: Vec<_> = ["stat", "-c", "%s"].into_iter().chain(paths.iter().map(String::as_str)).collect();
    let outcome = in_some_run(|| {
        let (outcome, _) = on(disk, test, Side::With, &argv);
        outcome.wanted(|it| it.figure("hints_used") >= wanted)
    });
    let spared = outcome.figure("stalls_before") - outcome.figure("stalls_after");
    (outcome.figure("hints_used"), spared)
}

const FOLDERS: u32 = 300;
const FILES: u32 = 16;

#[test]
fn hints_spare_as_many_stalls_as_made_the_device_read() {
    const NAME: &str = "hints_spare_as_many_stalls_as_made_the_device_read";
    let Some(disk) = slow_disk(NAME) else { return };
    let fill = |root: &Path| {
        for folder in 0..FOLDERS {
            let folder = root.join(format!("{folder}/inner"));
            fs::create_dir_all(&folder).expect("make a folder");
            (0..FILES).for_each(|file| fs::write(folder.join(file.to_string()), "x").expect("write a file"));
        }
    };
    disk.fill(fill).expect("fill the slow disk");
    let (used, spared) = looked_up(&disk, NAME, 1, 50.0);
    assert!(spared >= used / 2.0, "{spared} stalls by {used} hints that had the device read");
    let (used, spared) = looked_up(&disk, NAME, FILES, 300.0);
    assert!(spared <= used / 4.0, "{spared} stalls by {used} hints, most of which read what others had read");
}

/// Each would have an account of its own that pays for a first speculation.
#[test]
fn children_that_a_program_forks_have_its_account() {
    const NAME: &str = "children_that_a_program_forks_have_its_account";
    const CHILDREN: u32 = 60;
    let Some(disk) = slow_disk(NAME) else { return };
    let place = Scratch::fresh(scratch::base().join(format!("{NAME}-source")));
    let data = place.noise("data", 48 << 20, 7).at("data");
    let copied = disk.fill(|root| fs::copy(data, root.join("data")));
    let _ = copied.expect("fill the slow disk").expect("copy the data");
    let [guest, data] = [build("reads_in_children"), disk.mount_point().join("data")];
    let [guest, data] = [guest, data].map(|path| path.display().to_string());
    let (outcome, _) = on(&disk, NAME, Side::With, &[&guest, &data, &CHILDREN.to_string()]);
    let (stalls, forks) = (outcome.figure("stalls_before"), outcome.figure("forks"));
    assert!(stalls >= f64::from(CHILDREN), "{:?}", outcome.totals());
    assert!(forks >= 1.0 && forks <= f64::from(CHILDREN) / 3.0, "{forks} forks for nothing");
}

/// Reads single blocks of a file of a file system on the slow disk: as the file system has no reads that do not wait, hints must
/// be made in another way. `make` puts the file system on the disk, and `mount` mounts it.
fn is_helped(
    test: &str,
    tool: Option<&str>,
    make: impl FnOnce(&Path, &Path),
    mount: impl Fn(&Path, &Path) -> Mounted,
) {
    if let Some(tool) = tool.filter(|tool| find_program(tool.as_ref()).is_none()) {
        return skip(test, format!("{tool} is not installed: run `scripts/setup test`"));
    }
    let Some(disk) = slow_disk(test) else { return };
    let place = Scratch::fresh(scratch::base().join(format!("{test}-source")));
    let source = place.path().join("source");
    fs::create_dir(&source).expect("make a folder");
    place.noise("source/data", 48 << 20, 7);
    disk.fill(|root| make(&source, root)).expect("fill the slow disk");
    reads_alike(test, &disk, &place, mount, "reads_apart", &[], |with| {
        // Of 400 reads.
        with.figure("hints_used") > 200.0
    });
}

/// A speculator goes on past calls that make sockets, pipes and events, and past a service that does not run.
#[test]
fn descriptors_that_lead_to_no_file_end_no_speculator() {
    const NAME: &str = "descriptors_that_lead_to_no_file_end_no_speculator";
    let Some(disk) = slow_disk(NAME) else { return };
    let place = Scratch::fresh(scratch::base().join(format!("{NAME}-source")));
    place.noise("data", 48 << 20, 7);
    let fill = |root: &Path| fs::copy(place.path().join("data"), root.join("data"));
    disk.fill(fill).expect("fill the slow disk").expect("write the data");
    let guest = build("asks_between");
    let data = disk.mount_point().join("data");
    let argv = [&guest, &data].map(|path| path.to_str().expect("a path in UTF-8"));
    let _ = in_some_run(|| {
        let (_, (with, _)) = compare(&disk, NAME, &argv);
        assert_eq!(with.figure("speculator_ends/call_not_emulated"), 0.0, "{:?}", with.totals());
        // Sixteen reads lie between such calls.
        with.wanted(|with| with.figure("hints_used") > 40.0)
    });
}

/// A guest reads a file of a file system on the slow disk, without forebay and, in some run as is wanted, with it.
fn reads_alike(
    test: &str,
    disk: &SlowDisk,
    place: &Scratch,
    mount: impl Fn(&Path, &Path) -> Mounted,
    guest: &str,
    arguments: &[&str],
    wanted: impl Fn(&Outcome) -> bool,
) {
    let reader = build(guest);
    let at = place.path().join("mounted");
    let run = |side| {
        // A fresh mount has nothing in memory.
        disk.make_cold().expect("make the disk cold");
        let mounted = mount(disk.mount_point(), &at);
        let data = at.join("data").display().to_string();
        let scratch = Scratch::fresh(scratch::base().join(test));
        let argv = [&[reader.to_str().expect("a path in UTF-8"), &data], arguments].concat();
        let outcome = launch(&scratch, side, &argv);
        drop(mounted);
        outcome
    };
    let without = run(Side::Without);
    let _ = in_some_run(|| {
        let with = run(Side::With);
        assert_eq!((without.status, &without.stdout), (with.status, &with.stdout));
        with.wanted(&wanted)
    });
}

#[test]
fn an_overlay_has_hints() {
    let make = |source: &Path, root: &Path| {
        for folder in ["lower", "upper", "work"] {
            fs::create_dir(root.join(folder)).expect("make a folder");
        }
        let _ = fs::copy(source.join("data"), root.join("lower/data")).expect("copy the data");
    };
    let mount = |root: &Path, at: &Path| {
        let path = |name| root.join(name).display().to_string();
        let options =
            format!("lowerdir={},upperdir={},workdir={}", path("lower"), path("upper"), path("work"));
        Mounted::new(&["-t", "overlay", "overlay", "-o", &options], at)
    };
    is_helped("an_overlay_has_hints", None, make, mount);
}

/// Makes an image of a folder with a tool, which takes the two paths in either order.
fn make_image(tool: &str, arguments: &[&str], [source, image]: [&Path; 2], image_first: bool) {
    let paths = if image_first { [image, source] } else { [source, image] };
    let mut command = Command::new(tool);
    let (before, after) = if image_first { (arguments, &[][..]) } else { (&[][..], arguments) };
    let made = command.args(before).args(paths).args(after).output().expect("make an image");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// Mounts an image through a loop device.
fn mount_image(kind: &str, image: &Path, at: &Path) -> Mounted {
    // Past the cache, so that the loop device serves many requests at once, as the disk below does.
    let mut attach = Command::new("losetup");
    attach.args(["--find", "--show", "--read-only", "--direct-io=on"]).arg(image);
    let attached = attach.output().expect("start losetup");
    assert!(attached.status.success(), "{}", String::from_utf8_lossy(&attached.stderr));
    let device = String::from_utf8_lossy(&attached.stdout).trim().to_owned();
    let mounted = Mounted::new(&["-t", kind, "-o", "ro", &device], at);
    // The device goes with the mount.
    let _ = Command::new("losetup").args(["--detach", &device]).status();
    mounted
}

fn image_is_helped(test: &str, kind: &str, tool: &str, arguments: &[&str], image_first: bool) {
    let make = |source: &Path, root: &Path| {
        make_image(tool, arguments, [source, &root.join("image")], image_first);
    };
    let mount = |root: &Path, at: &Path| mount_image(kind, &root.join("image"), at);
    is_helped(test, Some(tool), make, mount);
}

#[test]
fn squashfs_has_hints() {
    let options = ["-quiet", "-no-progress", "-noappend"];
    image_is_helped("squashfs_has_hints", "squashfs", "mksquashfs", &options, false);
}

/// squashfs keeps three blocks that it has unpacked, and puts many small files into one.
#[test]
fn files_that_share_a_block_do_not_have_it_read_for_each() {
    const NAME: &str = "files_that_share_a_block";
    if find_program("mksquashfs".as_ref()).is_none() {
        return skip(NAME, "mksquashfs is not installed: run `scripts/setup test`");
    }
    let Some(disk) = slow_disk(NAME) else { return };
    let place = Scratch::fresh(scratch::base().join(format!("{NAME}-source")));
    for number in 0..600 {
        place.noise(&format!("source/{}/{number}", number / 50), 4000, number);
    }
    let source = place.path().join("source");
    let make = |root: &Path| {
        make_image(
            "mksquashfs",
            &["-quiet", "-no-progress", "-noappend"],
            [&source, &root.join("image")],
            false,
        )
    };
    disk.fill(make).expect("fill the slow disk");
    let at = place.path().join("mounted");
    let run = |side| {
        disk.make_cold().expect("make the disk cold");
        let mounted = mount_image("squashfs", &disk.mount_point().join("image"), &at);
        disk.reset_stats().expect("count from zero");
        let scratch = Scratch::fresh(scratch::base().join(NAME));
        let outcome = launch(&scratch, side, &["grep", "-rc", "needle", &at.display().to_string()]);
        let stats = disk.stats().expect("what was served");
        drop(mounted);
        (outcome, stats)
    };
    let without = run(Side::Without);
    let _ = in_some_run(|| {
        let with = run(Side::With);
        assert_eq!((without.0.status, &without.0.stdout), (with.0.status, &with.0.stdout));
        // Each time, a block would be read for most of the files.
        let reads_max = without.1.reads * 3 / 2 + 16;
        let reads = with.1.reads;
        let outcome = with.0.wanted(|with| with.figure("forks") > 0.0)?;
        if reads <= reads_max {
            Ok(outcome)
        } else {
            Err(format!("{reads} reads, at most {reads_max} expected"))
        }
    });
}

#[test]
fn erofs_has_hints() {
    image_is_helped("erofs_has_hints", "erofs", "mkfs.erofs", &[], true);
}

/// A file system that is written to, in an image on the slow disk: the data is copied to it through a mount.
fn written_is_helped(test: &str, kind: &str, options: &str) {
    let tool = format!("mkfs.{kind}");
    let make = |source: &Path, root: &Path| {
        let image = root.join("image");
        // The least that xfs can have.
        fs::File::create(&image).and_then(|file| file.set_len(300 << 20)).expect("make an image");
        let made = Command::new(&tool).arg("-q").arg(&image).output().expect("make a file system");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let at = source.with_file_name("written");
        let image = image.display().to_string();
        let _mounted = Mounted::new(&["-t", kind, "-o", &format!("loop,{options}"), &image], &at);
        let mut data = fs::read(source.join("data")).expect("read the data");
        // Half of it is noise, so that it can be compressed. The program reads the first bytes of blocks.
        data.chunks_mut(4096).for_each(|block| block[2048..].fill(0));
        fs::write(at.join("data"), data).expect("write the data");
    };
    let mount = |root: &Path, at: &Path| mount_image(kind, &root.join("image"), at);
    is_helped(test, Some(&tool), make, mount);
}

#[test]
fn xfs_has_hints() {
    written_is_helped("xfs_has_hints", "xfs", "noatime");
}

#[test]
fn compressed_btrfs_has_hints() {
    written_is_helped("compressed_btrfs_has_hints", "btrfs", "noatime,compress-force=zstd");
}

/// A loop device that reads through the cache serves one request after the other, and the kernel reads ahead below it.
#[test]
fn a_mapped_file_behind_the_cache_of_a_loop_device_is_left_to_the_kernel() {
    const NAME: &str = "mapped_behind_a_loop_device";
    const READS: f64 = 1000.0;
    if find_program("mkfs.erofs".as_ref()).is_none() {
        return skip(NAME, "mkfs.erofs is not installed: run `scripts/setup test`");
    }
    let Some(disk) = slow_disk(NAME) else { return };
    let place = Scratch::fresh(scratch::base().join(format!("{NAME}-source")));
    place.noise("source/data", 48 << 20, 7);
    let source = place.path().join("source");
    let make = |root: &Path| make_image("mkfs.erofs", &[], [&source, &root.join("image")], true);
    disk.fill(make).expect("fill the slow disk");
    let mount = |root: &Path, at: &Path| {
        Mounted::new(&["-o", "loop,ro", &root.join("image").display().to_string()], at)
    };
    reads_alike(NAME, &disk, &place, mount, "mapped", &[&READS.to_string()], |with| {
        with.figure("forks") > 0.0 && with.figure("hints_data") < READS / 20.0
    });
}

/// After a program has changed its root, or its user, nothing is looked up for it that it could not look up itself.
fn is_not_looked_up_as_before(change: &str) {
    /// Files that the program reads before the change.
    const BEFORE: u64 = 40;
    /// And after it.
    const AFTER: u64 = 200;
    let test = format!("changes_{change}");
    let number_files = |folder: &Path, count| {
        fs::create_dir_all(folder).expect("make a folder");
        (0..count).for_each(|number| fs::write(folder.join(number.to_string()), "content").expect("write"));
    };
    let Some(other) = remote(&test, |root| {
        number_files(&root.join("before"), BEFORE);
        number_files(&root.join("tree"), AFTER);
        // Open to root alone.
        fs::set_permissions(root.join("tree"), Permissions::from_mode(0o700)).expect("set a mode");
    }) else {
        return;
    };
    let elsewhere = other.mount_point().strip_prefix("/").expect("an absolute path");
    let Some(disk) = remote(&test, |root| {
        number_files(&root.join("after"), AFTER);
        number_files(&root.join(elsewhere).join("tree"), AFTER);
    }) else {
        return;
    };
    let guest = build("changes_identity");
    let argv = [&guest, disk.mount_point(), other.mount_point()];
    let mut argv: Vec<&str> = argv.iter().map(|path| path.to_str().expect("a path in UTF-8")).collect();
    argv.push(change);
    let run = |side| {
        disk.make_cold().expect("make the disk cold");
        // A speculator needs it, in the new root too.
        let _processes = Mounted::new(&["-t", "proc", "proc"], &disk.mount_point().join("proc"));
        on(&other, &test, side, &argv)
    };
    let without = run(Side::Without);
    let _ = in_some_run(|| {
        let with = run(Side::With);
        assert_eq!((without.0.status, &without.0.stdout), (with.0.status, &with.0.stdout));
        // What comes before the change may be opened for the program, too, by each speculation.
        let before = (with.0.figure("forks") as u64 + 1) * BEFORE;
        assert!(with.1.opens <= without.1.opens + before, "{:?}", with.1);
        with.0.wanted(|with| with.figure("forks") > 0.0)
    });
}

#[test]
fn nothing_is_looked_up_in_a_root_that_the_program_has_left() {
    is_not_looked_up_as_before("root");
}

#[test]
fn nothing_is_looked_up_with_rights_that_the_program_has_given_up() {
    is_not_looked_up_as_before("user");
}

#[test]
fn nothing_is_read_that_the_program_reads_after_a_sleep() {
    const NAME: &str = "nothing_is_read_after_a_sleep";
    /// Files that the program reads before the sleep, and as many after it.
    const FILES: u64 = 40;
    let Some(disk) = remote(NAME, |root| {
        for folder in ["before", "after"] {
            fs::create_dir(root.join(folder)).expect("make a folder");
            (0..FILES).for_each(|number| {
                fs::write(root.join(folder).join(number.to_string()), "content").expect("write a file");
            });
        }
    }) else {
        return;
    };
    let guest = build("sleeps_between");
    disk.make_cold().expect("make the disk cold");
    disk.reset_stats().expect("count from zero");
    let place = Scratch::fresh(scratch::base().join(NAME));
    let argv = [&guest, disk.mount_point()].map(|path| path.to_str().expect("a path in UTF-8"));
    std::thread::scope(|scope| {
        let run = scope.spawn(|| launch(&place, Side::With, &argv));
        let deadline = Instant::now() + Duration::from_secs(60);
        let is_asleep = || place.path().join("cwd/asleep").exists();
        while !(run.is_finished() || is_asleep() && users(disk.mount_point()).is_none()) {
            assert!(Instant::now() < deadline, "the program does not sleep");
            std::thread::sleep(Duration::from_millis(2));
        }
        let stats = disk.stats().expect("what was served");
        let was_asleep = !run.is_finished();
        let outcome = run.join().expect("the run");
        assert!(outcome.status == 0 && outcome.figure("forks") > 0.0, "{:?}", outcome.totals());
        // Each file before the sleep is opened for the program and for a hint of each speculator, and one more time to see whether
        // data stays. Those behind the sleep would be looked up, too.
        let opens_max = (outcome.figure("forks") as u64 + 1) * FILES + 1;
        assert!(was_asleep && stats.opens <= opens_max && stats.look_ups < 2 * FILES, "{stats:?}");
    });
}

#[test]
fn a_working_directory_can_be_unmounted_when_forebay_has_ended() {
    const NAME: &str = "a_working_directory_can_be_unmounted";
    if !root() || switch("FOREBAY_COMPAT_PLAIN") {
        return skip(NAME, "only root may mount, and both sides must differ");
    }
    let place = Scratch::fresh(scratch::base().join(NAME));
    for round in 0..20 {
        let at = place.path().join("mounted");
        let mounted = Mounted::new(&["-t", "tmpfs", "tmpfs"], &at);
        // As long as it takes that the supervisor's other processes have just been started, more or less.
        let pause = format!("sleep 0.00{}", round % 5);
        let outcome = launch_in(&at, &place, Side::With, &[], &["sh", "-c", &pause]);
        assert_eq!(outcome.status, 0);
        let unmounted = Command::new("umount").arg(&at).output().expect("start umount");
        assert!(unmounted.status.success(), "round {round}: {}", String::from_utf8_lossy(&unmounted.stderr));
        std::mem::forget(mounted);
    }
}

/// What the executor has open then belongs to no speculation: it reads blocks beside those that the program waited for.
#[test]
fn what_is_read_ahead_can_be_unmounted() {
    const NAME: &str = "what_is_read_ahead_can_be_unmounted";
    if !root() {
        return skip(NAME, "only root may mount");
    }
    let Some(disk) = slow_disk(NAME) else { return };
    let filled = disk.fill(|root| {
        fs::write(root.join("data"), vec![7; 128 << 20]).and_then(|()| fs::create_dir(root.join("out")))
    });
    filled.expect("fill the slow disk").expect("write the data");
    let guest = build("unmounts").display().to_string();
    let place = Scratch::fresh(scratch::base().join(NAME));
    let _ = in_some_run(|| {
        disk.make_cold().expect("make the disk cold");
        let outcome = launch_in(disk.mount_point(), &place, Side::With, &[], &[&guest, "data"]);
        assert!(!String::from_utf8_lossy(&outcome.stdout).contains("-1"), "{outcome:?}");
        outcome.wanted(|it| it.figure("neighbour_reads") > 0.0)
    });
}
