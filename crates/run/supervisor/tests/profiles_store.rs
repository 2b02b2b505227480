//! The folder of access profiles: what is kept there is found again, and what others put there does no harm.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use forebay_profile::{Command, Kind, Level, Need, Origin, Profile, Scope, format};
use forebay_supervisor::profiles::store::{PROFILES_MAX, Store};
use forebay_testkit::skip;
use tempfile::TempDir;

struct Place {
    directory: TempDir,
    store: Store,
}

impl Place {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let store = Store::at(directory.path().join("state/forebay/profiles"));
        Self { directory, store }
    }

    fn with(profile: &Profile) -> Self {
        let place = Self::new();
        place.store.put(profile).unwrap();
        place
    }

    fn file(&self, profile: &Profile) -> PathBuf {
        self.store.path().join(profile.key().name())
    }

    fn files(&self) -> usize {
        fs::read_dir(self.store.path()).unwrap().count()
    }
}

/// A profile of a program of this name.
fn profile(name: &str) -> Profile {
    let program = format!("/usr/bin/{name}");
    let command = Command { program: program.as_bytes(), arguments: &[], directory: b"/" };
    let scope = Scope::of(&command, |_| false).remove(0);
    let need = Need { at_us: 1, path: program.clone().into_bytes(), kind: Kind::LookUp, range: 0..0 };
    Profile::new(scope.key, Origin::new(&[program.as_bytes()], b"/")).learn([&need], |_| None, 1)
}

#[test]
fn a_profile_is_kept_for_its_user_only() {
    let kept = profile("a");
    let place = Place::new();
    assert_eq!(place.store.get(kept.key()), None, "nothing was kept");
    assert!(!place.directory.path().join("state").exists(), "a search made the folder");
    place.store.put(&kept).unwrap();
    assert_eq!(place.store.get(kept.key()), Some(kept.clone()));
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(place.store.path().into()), mode(place.file(&kept))), (0o700, 0o600));
    assert_eq!(place.files(), 1, "a temporary file was left");
    assert_eq!(place.store.get(profile("b").key()), None);
}

#[test]
fn the_latest_profile_of_a_key_is_found() {
    let first = profile("a");
    let place = Place::with(&first);
    let second = first.learn(
        [&Need { at_us: 2, path: b"/etc/a".to_vec(), kind: Kind::Missing, range: 0..0 }],
        |_| None,
        2,
    );
    place.store.put(&second).unwrap();
    assert_eq!(place.store.get(second.key()), Some(second));
    assert_eq!(place.files(), 1);
}

#[test]
fn a_damaged_profile_is_removed() {
    let kept = profile("a");
    let whole = format::encode(&kept);
    let mut flipped = whole.clone();
    *flipped.last_mut().unwrap() ^= 1;
    let other = format::encode(&profile("b"));
    for damaged in [&whole[..whole.len() - 1], &flipped, &other, &[], &vec![0; format::BYTES_MAX + 1]] {
        let place = Place::with(&kept);
        fs::write(place.file(&kept), damaged).unwrap();
        assert_eq!(place.store.get(kept.key()), None);
        assert!(!place.file(&kept).exists(), "{} bytes are still there", damaged.len());
    }
}

#[test]
fn a_profile_of_another_version_is_left_until_it_is_replaced() {
    let kept = profile("a");
    let place = Place::with(&kept);
    let mut other = format::encode(&kept);
    other[8] = 0xff;
    fs::write(place.file(&kept), &other).unwrap();
    assert_eq!(place.store.get(kept.key()), None);
    assert_eq!(fs::read(place.file(&kept)).unwrap(), other);
    place.store.put(&kept).unwrap();
    assert_eq!(place.store.get(kept.key()), Some(kept));
}

/// And not waited for.
#[test]
fn a_fifo_or_link_in_the_place_of_a_profile_is_replaced() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let kept = profile("a");
    let place = Place::with(&kept);
    let elsewhere = place.directory.path().join("elsewhere");
    fs::rename(place.file(&kept), &elsewhere).unwrap();
    symlink(&elsewhere, place.file(&kept)).unwrap();
    assert_eq!(place.store.get(kept.key()), None, "a link was followed");
    let content = fs::read(&elsewhere).unwrap();
    place.store.put(&kept).unwrap();
    assert_eq!(fs::read(&elsewhere).unwrap(), content, "a link was written through");
    assert_eq!(place.store.get(kept.key()), Some(kept.clone()));

    fs::remove_file(place.file(&kept)).unwrap();
    mknodat(CWD, place.file(&kept), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    assert_eq!(place.store.get(kept.key()), None);
    place.store.put(&kept).unwrap();
    assert_eq!(place.store.get(kept.key()), Some(kept));
}

#[test]
fn a_directory_in_the_place_of_a_profile_leaves_the_key_without_one() {
    let kept = profile("a");
    let place = Place::with(&kept);
    fs::remove_file(place.file(&kept)).unwrap();
    fs::create_dir(place.file(&kept)).unwrap();
    assert_eq!(place.store.get(kept.key()), None);
    place.store.put(&kept).unwrap_err();
    assert_eq!(place.files(), 1, "a temporary file was left");
    let other = profile("b");
    place.store.put(&other).unwrap();
    assert_eq!(place.store.get(other.key()), Some(other));
}

#[test]
fn what_others_could_have_written_is_not_used() {
    let kept = profile("a");
    let place = Place::with(&kept);
    fs::set_permissions(place.file(&kept), Permissions::from_mode(0o622)).unwrap();
    assert_eq!(place.store.get(kept.key()), None);
    fs::set_permissions(place.file(&kept), Permissions::from_mode(0o600)).unwrap();
    assert_eq!(place.store.get(kept.key()), Some(kept.clone()));

    fs::set_permissions(place.store.path(), Permissions::from_mode(0o720)).unwrap();
    assert_eq!(place.store.get(kept.key()), None);
    place.store.put(&kept).unwrap_err();
    fs::set_permissions(place.store.path(), Permissions::from_mode(0o700)).unwrap();

    let moved = place.directory.path().join("moved");
    fs::rename(place.store.path(), &moved).unwrap();
    symlink(&moved, place.store.path()).unwrap();
    assert_eq!(place.store.get(kept.key()), None, "the folder is a link");
    place.store.put(&kept).unwrap_err();
}

/// As root with the home of a user.
#[test]
fn the_folder_or_file_of_another_user_is_not_used() {
    let kept = profile("a");
    let place = Place::with(&kept);
    let give = |path: PathBuf| std::os::unix::fs::chown(path, Some(12_345), None).is_ok();
    if !rustix::process::geteuid().is_root() || !give(place.file(&kept)) {
        skip("the_folder_or_file_of_another_user_is_not_used", "giving a file to another user takes root");
        return;
    }
    assert_eq!(place.store.get(kept.key()), None);
    assert!(place.file(&kept).exists(), "another user's file was removed");
    assert!(give(place.store.path().into()));
    assert_eq!(place.store.get(kept.key()), None);
    place.store.put(&kept).unwrap_err();

    let home = TempDir::new().unwrap();
    assert!(give(home.path().into()));
    let theirs = Store::at(home.path().join("state/forebay/profiles"));
    theirs.put(&kept).unwrap_err();
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0, "a folder was made in another user's home");
}

#[test]
fn without_a_place_to_write_nothing_is_kept() {
    let kept = profile("a");
    let place = Place::new();
    fs::write(place.directory.path().join("state"), "not a directory").unwrap();
    place.store.put(&kept).unwrap_err();
    assert_eq!(place.store.get(kept.key()), None);
    assert_eq!(place.store.profiles().count(), 0);
    assert!(!place.store.is_off());
}

#[test]
fn the_profiles_used_longest_ago_are_dropped() {
    let profiles: Vec<Profile> = (0..PROFILES_MAX + 2).map(|number| profile(&format!("p{number}"))).collect();
    let place = Place::new();
    let start = SystemTime::now() - Duration::from_secs(1_000_000);
    for (profile, age) in profiles[..PROFILES_MAX].iter().zip(0..) {
        place.store.put(profile).unwrap();
        let file = fs::File::open(place.file(profile)).unwrap();
        file.set_modified(start + Duration::from_secs(age)).unwrap();
    }
    // What is used is new again.
    assert!(place.store.get(profiles[0].key()).is_some());
    place.store.put(&profiles[PROFILES_MAX]).unwrap();
    place.store.put(&profiles[PROFILES_MAX + 1]).unwrap();
    assert_eq!(place.files(), PROFILES_MAX);
    let is_kept = |number: usize| place.file(&profiles[number]).exists();
    assert_eq!(
        [0, 1, 2, 3, PROFILES_MAX, PROFILES_MAX + 1].map(is_kept),
        [true, false, false, true, true, true]
    );
}

#[test]
fn turned_off_the_store_neither_gives_nor_takes() {
    let (first, second) = (profile("a"), profile("b"));
    let place = Place::new();
    assert!(!place.store.is_off());
    place.store.set_off(true).unwrap();
    assert!(place.store.is_off());
    place.store.put(&first).unwrap();
    assert_eq!(place.store.profiles().count(), 0);
    place.store.set_off(false).unwrap();
    place.store.set_off(false).unwrap();
    place.store.put(&first).unwrap();
    place.store.set_off(true).unwrap();
    place.store.put(&second).unwrap();
    assert_eq!(place.store.get(first.key()), None);
    assert!(place.store.profiles().eq([first.clone()]), "a list shows what is kept");
    place.store.set_off(false).unwrap();
    assert_eq!((place.store.get(first.key()), place.store.get(second.key())), (Some(first), None));
}

#[test]
fn what_is_forgotten_is_gone() {
    let (first, second, third) = (profile("a"), profile("b"), profile("c"));
    let place = Place::new();
    assert!(!place.store.forget(first.key()));
    for one in [&first, &second, &third] {
        place.store.put(one).unwrap();
    }
    assert_eq!(place.store.profiles().count(), 3);
    assert!(place.store.forget(first.key()));
    assert_eq!(place.store.get(first.key()), None);
    assert_eq!(place.store.forget_all(), 2);
    assert_eq!(place.store.profiles().count(), 0);
}

/// What a killed process leaves does not stay for ever, and two writers at once leave one whole profile.
#[test]
fn writers_at_once_leave_a_whole_profile() {
    let kept = profile("a");
    let place = Place::with(&kept);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let _ = place.store.put(&kept);
                    assert_eq!(place.store.get(kept.key()).as_ref(), Some(&kept));
                }
            });
        }
    });
    let names: Vec<_> =
        fs::read_dir(place.store.path()).unwrap().map(|one| one.unwrap().file_name()).collect();
    assert_eq!(names, [OsStr::new(&kept.key().name())]);
}

#[test]
fn a_run_teaches_all_profiles_of_its_command_and_the_most_specific_one_is_used() {
    let place = Place::new();
    let scopes = |arguments: &[&[u8]]| {
        let command = Command { program: b"/usr/bin/tool", arguments, directory: b"/work" };
        Scope::of(&command, |_| false)
    };
    let need = |path: &str| Need { at_us: 1, path: path.into(), kind: Kind::Missing, range: 0..0 };
    let teach = |arguments: &[&[u8]], needs: &[Need]| {
        let origin = Origin::new(&[b"tool", arguments[0], arguments[1]], b"/work");
        place.store.teach(&scopes(arguments), &origin, true, needs, |_| None, 7);
    };
    let found =
        |arguments: &[&[u8]]| place.store.most_specific(&scopes(arguments)).map(|(profile, _)| profile);
    assert_eq!(found(&[b"sub", b"-a"]), None);
    teach(&[b"sub", b"-a"], &[need("/etc/tool"), need("/work/a")]);
    assert_eq!(place.files(), 3);
    teach(&[b"sub", b"-b"], &[need("/etc/tool"), need("/work/b")]);
    assert_eq!(place.files(), 4);
    let paths = |profile: Profile| {
        let paths = profile.entries().iter().map(|entry| String::from_utf8(entry.path.clone()).unwrap());
        (profile.key().level, profile.runs(), paths.collect::<Vec<_>>())
    };
    let own = |arguments: &[&[u8]]| paths(found(arguments).unwrap());
    let words = |words: &[&str]| words.iter().map(|word| word.to_string()).collect::<Vec<_>>();
    assert_eq!(own(&[b"sub", b"-a"]), (Level::Whole, 1, words(&["/etc/tool", "/work/a"])));
    assert_eq!(own(&[b"sub", b"-b"]), (Level::Whole, 1, words(&["/etc/tool", "/work/b"])));
    assert_eq!(own(&[b"sub", b"-c"]), (Level::Subject, 2, words(&["/etc/tool"])));
    assert_eq!(own(&[b"other"]), (Level::Program, 2, words(&["/etc/tool"])));
    assert_eq!(found(&[b"other"]).unwrap().origin().command()[2], b"-b", "the latest command");
    teach(&[b"third", b"-c"], &[need("/work/c")]);
    assert_eq!(place.files(), 5, "a profile that knows nothing was kept");
}
