//! Version control over a history of many commits.

use super::super::case::{Case, Compared, Data, Kind, Need};

const GIT: &[Need] = &[Need::Debian("git", "git")];

const TREE: &[Data] = &[Data::Tree("tree", 1200)];

/// The same author, committer and times everywhere, and nothing done in the background.
const ALWAYS_THE_SAME: &[(&str, &str)] = &[
    ("GIT_AUTHOR_NAME", "A"),
    ("GIT_AUTHOR_EMAIL", "a@example.org"),
    ("GIT_AUTHOR_DATE", "2024-01-01T00:00:00Z"),
    ("GIT_COMMITTER_NAME", "A"),
    ("GIT_COMMITTER_EMAIL", "a@example.org"),
    ("GIT_COMMITTER_DATE", "2024-01-01T00:00:00Z"),
    ("GIT_CONFIG_COUNT", "4"),
    ("GIT_CONFIG_KEY_0", "gc.auto"),
    ("GIT_CONFIG_VALUE_0", "0"),
    ("GIT_CONFIG_KEY_1", "safe.directory"),
    ("GIT_CONFIG_VALUE_1", "*"),
    ("GIT_CONFIG_KEY_2", "maintenance.auto"),
    ("GIT_CONFIG_VALUE_2", "false"),
    ("GIT_CONFIG_KEY_3", "init.defaultBranch"),
    ("GIT_CONFIG_VALUE_3", "main"),
];

/// Forty-five commits, each of which changes twenty files, as loose objects; and a script behind that.
macro_rules! history {
    ($then:literal) => {
        concat!(
            "cd tree; git init -q; git add .; git commit -qm first; set -- $(git ls-files)
            i=0; while [ $i -lt 45 ]; do
                j=0; while [ $j -lt 20 ]; do
                    echo \"/* change $i */\" >> $1; set -- \"$@\" $1; shift; j=$((j + 1))
                done
                git commit -qam \"change $i\"; i=$((i + 1))
            done
            ",
            $then
        )
    };
}
const LOOSE: &str = history!("");
const PACKED: &str = history!("git repack -qad; git update-index -q --refresh");

const fn git(name: &'static str, command: &'static [&'static str]) -> Case {
    Case::new(Kind::History, name, command, GIT).data(TREE).prepare(PACKED).environment(ALWAYS_THE_SAME)
}

pub(super) const CASES: &[Case] = &[
    git("git-status", &["git", "-C", "tree", "status", "--short"]).data(&[Data::Tree("tree", 3000)]),
    git("git-log-patch", &["git", "-C", "tree", "log", "-p"]),
    git("git-log-loose", &["git", "-C", "tree", "log", "--stat", "-n", "25"]).prepare(LOOSE),
    git("git-grep", &["git", "-C", "tree", "grep", "-c", "cache"]),
    git("git-diff", &["git", "-C", "tree", "diff", "--stat", "HEAD~30"]),
    git("git-clone", &["git", "clone", "-q", "--bare", "--no-local", "tree", "clone"]).writes(&["clone"]),
    git("git-fsck", &["git", "-C", "tree", "fsck", "--no-progress"]).prepare(LOOSE),
    git("git-archive", &["git", "-C", "tree", "archive", "-o", "../made.tar", "HEAD"]).writes(&["made.tar"]),
    git("git-checkout", &["sh", "-c", "cd tree; git checkout -q HEAD~25 && git checkout -q main"]),
    git(
        "git-blame",
        &["sh", "-c", "cd tree; for file in $(git ls-files | head -n 12); do git blame $file; done"],
    )
    .compared(Compared::AllButMessages),
];
