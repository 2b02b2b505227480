//! What builds the project: one version, which `rust-toolchain.toml` names.
#![forbid(unsafe_code)]

use forebay_tidy::sources::text;
use forebay_tidy::workspace::Workspace;

#[test]
fn workflows_build_with_the_toolchain_of_the_repository() {
    let root = Workspace::load().root;
    let pinned = text(&root.join("rust-toolchain.toml"));
    let channel = pinned.lines().find_map(|line| line.strip_prefix("channel = \"")?.strip_suffix('"'));
    let (release, _) =
        channel.and_then(|channel| channel.rsplit_once('.')).expect("a channel such as 1.95.0");
    let mut images = 0;
    for name in ["ci.yml", "release.yml"] {
        for line in text(&root.join(".github/workflows").join(name)).lines() {
            let Some((_, image)) = line.split_once(" rust:") else { continue };
            assert!(image.starts_with(&format!("{release}-")), "{name}: rust:{image} is not Rust {release}");
            images += 1;
        }
    }
    assert!(images > 0, "no workflow names an image of Rust");
}
