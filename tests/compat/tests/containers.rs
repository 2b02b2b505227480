//! Programs in a root of their own, as containers have one: an overlay whose layers lie on several file systems. `forebay run` stands
//! outside of it, inside, or is the first process of a process namespace.

use std::fs;
use std::path::Path;

use forebay_compat::mounted::launch_in;
use forebay_compat::run::Side;
use forebay_compat::{Outcome, Scratch, in_some_run, root, scratch, skip, switch};
use forebay_lab::{Profile, SlowDisk};

const FILES: u64 = 240;

/// Makes the root below the first argument, which is an empty folder, of the layer that is the second one over this root; enters it
/// in the way that is the third one, and runs the rest there, in the working directory of before.
const ENTER: &str = r#"
set -e
memory=$1 layer=$2 way=$3; shift 3
cwd=$(pwd -P)
mount -t tmpfs tmpfs "$memory"
mkdir "$memory/upper" "$memory/work" "$memory/root"
mount -t overlay overlay -o "lowerdir=$layer:/,upperdir=$memory/upper,workdir=$memory/work" "$memory/root"
cd "$memory/root"
mount -t proc proc proc
mount --rbind /dev dev
for folder in "$KEPT" "$BUILT"; do
    mkdir -p ".$folder"
    mount --rbind "$folder" ".$folder"
done
if [ "$way" = pivot ]; then
    mkdir former
    pivot_root . former
    umount -l former
fi
exec chroot . sh -c 'cd "$0" && exec "$@"' "$cwd" "$@"
"#;

/// Where `forebay run` stands.
#[derive(Clone, Copy)]
enum Place {
    Outside,
    Inside,
    FirstProcess,
}

/// Searches a tree that lies on a layer of its own, on the slow disk.
fn searches(test: &str, place: Place, way: &str) -> Option<(Outcome, Outcome)> {
    if !root() || switch("FOREBAY_COMPAT_PLAIN") {
        skip(test, "only root may mount, and both sides must differ");
        return None;
    }
    let disk = SlowDisk::start(Profile::Ssd1Ms, 64 << 20).map_err(|why| skip(test, why.to_string())).ok()?;
    let fill = |root: &Path| {
        for number in 0..FILES {
            let folder = root.join("layer/cold-tree").join((number / 60).to_string());
            fs::create_dir_all(&folder).expect("make a folder");
            fs::write(folder.join(number.to_string()), format!("{number}\n").repeat(1000))
                .expect("write a file");
        }
    };
    disk.fill(fill).expect("fill the slow disk");
    let layer = disk.mount_point().join("layer").display().to_string();
    let run = |side| {
        disk.make_cold().expect("make the disk cold");
        let kept = Scratch::fresh(scratch::base().join(test));
        let [memory, cwd] = ["memory", "cwd"].map(|name| {
            let folder = kept.path().join(name);
            fs::create_dir(&folder).expect("make a folder");
            folder
        });
        let built = forebay_testkit::artifacts::forebay().expect("build forebay and its agent");
        let built = built.ancestors().nth(2).expect("a build directory").display().to_string();
        let (kept_at, memory) = (kept.path().display().to_string(), memory.display().to_string());
        let (kept_at, built) = (format!("KEPT={kept_at}"), format!("BUILT={built}"));
        let mut enter = vec!["env", &kept_at, &built, "unshare", "-m"];
        if matches!(place, Place::FirstProcess) {
            enter.extend(["-p", "-f"]);
        }
        enter.extend(["sh", "-c", ENTER, "sh", &memory, &layer, way]);
        let search = ["grep", "-rc", "7", "/cold-tree"];
        match place {
            Place::Outside => launch_in(&cwd, &kept, side, &[], &[&enter[..], &search].concat()),
            Place::Inside | Place::FirstProcess => launch_in(&cwd, &kept, side, &enter, &search),
        }
    };
    let [without, with] = [Side::Without, Side::With].map(run);
    let said = |outcome: &Outcome| {
        String::from_utf8_lossy(&[&outcome.stdout[..], &outcome.stderr].concat()).into_owned()
    };
    assert_eq!((without.status, said(&without)), (with.status, said(&with)));
    assert_eq!(without.status, 0, "{}", said(&without));
    Some((without, with))
}

/// The output is the same, and most files have hints.
fn is_helped(test: &str, place: Place, way: &str) {
    let _ = in_some_run(|| {
        let Some((_, with)) = searches(test, place, way) else { return Ok(None) };
        with.wanted(|with| with.figure("hints_used") > FILES as f64 / 2.0).map(Some)
    });
}

#[test]
fn a_changed_root_with_forebay_outside_has_hints() {
    is_helped("a_changed_root_outside", Place::Outside, "chroot");
}

#[test]
fn a_changed_root_with_forebay_inside_has_hints() {
    is_helped("a_changed_root_inside", Place::Inside, "chroot");
}

#[test]
fn a_root_that_took_the_place_of_another_with_forebay_outside_has_hints() {
    is_helped("a_pivoted_root_outside", Place::Outside, "pivot");
}

#[test]
fn a_root_that_took_the_place_of_another_with_forebay_inside_has_hints() {
    is_helped("a_pivoted_root_inside", Place::Inside, "pivot");
}

#[test]
fn forebay_as_the_first_process_changes_nothing() {
    let _ = searches("the_first_process", Place::FirstProcess, "pivot");
}
