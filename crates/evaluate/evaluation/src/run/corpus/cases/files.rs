//! Shells, coreutils, findutils, searches, archives, backups, pipelines, static programs, containers.

use super::super::case::{Case, Compared, Data, Kind, Need};
use super::{COREUTILS, GAWK, GREP, SHELL};

const FIND: Need = Need::Debian("findutils", "find");
const RIPGREP: Need = Need::Debian("ripgrep", "rg");
const TAR: Need = Need::Debian("tar", "tar");
const BUSYBOX: Need = Need::Debian("busybox-static", "busybox");
const GCC: Need = Need::Debian("gcc", "gcc");
const MUSL: Need = Need::Debian("musl-tools", "musl-gcc");

const TREE: &[Data] = &[Data::Tree("tree", 800)];
const LARGE_TREE: &[Data] = &[Data::Tree("tree", 2400)];
const TWO_TREES: &[Data] = &[Data::Tree("one", 400), Data::Tree("other", 400)];
const ABSENT: &str = "forebay_absent_symbol";

/// The source of a program that prints a checksum of each file that its arguments name; and a script behind that.
macro_rules! sums {
    ($then:literal) => {
        concat!(
            r#"cat > sums.c <<'END'
#include <stdio.h>
int main(int count, char **names) {
    for (int i = 1; i < count; i++) {
        FILE *file = fopen(names[i], "rb");
        unsigned sum = 0;
        for (int byte; file && (byte = getc(file)) != EOF;) sum = sum * 31 + byte;
        if (file) fclose(file);
        printf("%08x %s\n", sum, names[i]);
    }
    return 0;
}
END
"#,
            $then
        )
    };
}

pub(super) const CASES: &[Case] = &[
    Case::new(Kind::Files, "cat", &["sh", "-c", "cat $(find tree -type f | sort)"], &[COREUTILS, SHELL]).data(TREE),
    Case::new(Kind::Files, "cp-r", &["cp", "-r", "tree", "copy"], &[COREUTILS]).data(TREE).writes(&["copy"]),
    Case::new(Kind::Files, "mv-rm", &["sh", "-c", "cp -r tree copy && rm -r copy"], &[COREUTILS, SHELL])
        .data(TREE)
        .writes(&["copy"]),
    Case::new(Kind::Files, "ls-lr", &["ls", "-lR", "--time-style=+", "tree"], &[COREUTILS])
        .data(&[Data::Tree("tree", 4000)]),
    Case::new(Kind::Files, "du", &["du", "-a", "tree"], &[COREUTILS]).data(&[Data::Tree("tree", 4000)]),
    Case::new(Kind::Files, "md5sum", &["sh", "-c", "md5sum $(find tree -type f | sort)"], &[COREUTILS, SHELL]).data(TREE),
    Case::new(Kind::Files, "wc-sequential", &["wc", "-l", "text"], &[COREUTILS])
        .data(&[Data::Text("text", 150 << 20)]),
    Case::new(Kind::Files, "tac", &["tac", "text"], &[COREUTILS]).data(&[Data::Text("text", 20 << 20)]),
    Case::new(Kind::Files, "sort", &["sort", "-o", "sorted", "text"], &[COREUTILS])
        .data(&[Data::Text("text", 12 << 20)])
        .writes(&["sorted"]),
    Case::new(Kind::Files, "find-name", &["find", "tree", "-name", "*.h"], &[FIND])
        .data(&[Data::Tree("tree", 5000)]),
    Case::new(Kind::Files, "find-size", &["find", "tree", "-size", "+20k"], &[FIND])
        .data(&[Data::Tree("tree", 5000)]),
    Case::new(Kind::Files, "find-exec", &["find", "tree", "-name", "*.h", "-exec", "head", "-n1", "{}", "+"], &[FIND])
        .data(&[Data::Tree("tree", 3000)]),
    Case::new(Kind::Files, "diff-r", &["diff", "-rq", "one", "other"], &[Need::Debian("diffutils", "diff")])
        .data(TWO_TREES)
        .prepare("rm -r other; cp -r one other"),
    Case::new(Kind::Files, "file", &["sh", "-c", "file $(find tree -type f | sort)"], &[Need::Debian("file", "file"), SHELL])
        .data(TREE),
    Case::new(
        Kind::Files,
        "shell-loop",
        &["sh", "-c", "for file in $(find tree -name '*.h' | sort); do read -r line < $file; echo \"$line\"; done"],
        &[SHELL],
    )
    .data(LARGE_TREE),
    Case::new(
        Kind::Files,
        "shell-processes",
        &["sh", "-c", "for file in $(find tree -name '*.h' | sort); do head -c 99 $file; done"],
        &[SHELL, COREUTILS],
    )
    .data(TREE),
    Case::new(Kind::Search, "grep-r", &["grep", "-r", ABSENT, "tree"], &[GREP]).data(&[Data::Tree("tree", 3000)]).status(1),
    Case::new(Kind::Search, "grep-l-few", &["grep", "-rlE", "cache_[a-z]+\\(", "tree"], &[GREP]).data(TREE),
    Case::new(Kind::Search, "rg-one-thread", &["rg", "-j1", ABSENT, "tree"], &[RIPGREP])
        .data(LARGE_TREE)
        .status(1),
    Case::new(Kind::Search, "rg-threads", &["rg", "-j4", ABSENT, "tree"], &[RIPGREP])
        .data(LARGE_TREE)
        .status(1),
    Case::new(Kind::Search, "fd", &["fdfind", "-e", "h", ".", "tree"], &[Need::Debian("fd-find", "fdfind")])
        .data(&[Data::Tree("tree", 5000)])
        .compared(Compared::Files),
    Case::new(Kind::Search, "ctags", &["ctags", "-R", "-f", "tags", "tree"], &[Need::Debian("universal-ctags", "ctags")])
        .data(TREE)
        .writes(&["tags"]),
    Case::new(Kind::Archive, "tar-create", &["tar", "cf", "made.tar", "tree"], &[TAR])
        .data(LARGE_TREE)
        .writes(&["made.tar"]),
    Case::new(Kind::Archive, "tar-extract", &["tar", "xf", "made.tar", "-C", "out"], &[TAR])
        .data(LARGE_TREE)
        .prepare("tar cf made.tar tree; mkdir out")
        .writes(&["out/tree"]),
    Case::new(Kind::Archive, "tar-list-gz", &["tar", "tzf", "made.tgz"], &[TAR])
        .data(LARGE_TREE)
        .prepare("tar czf made.tgz tree"),
    Case::new(Kind::Archive, "zip", &["zip", "-qrX", "made.zip", "tree"], &[Need::Debian("zip", "zip")])
        .data(TREE)
        .writes(&["made.zip"]),
    Case::new(Kind::Archive, "unzip", &["unzip", "-q", "made.zip", "-d", "out"], &[Need::Debian("unzip", "unzip")])
        .data(LARGE_TREE)
        .prepare("tar cf - tree | (mkdir in; cd in; tar xf -; zip -qrX ../made.zip tree)")
        .writes(&["out"]),
    Case::new(Kind::Archive, "xz", &["xz", "-dkc", "text.xz"], &[Need::Debian("xz-utils", "xz")])
        .data(&[Data::Text("text", 30 << 20)])
        .prepare("xz -1 text"),
    Case::new(Kind::Archive, "zstd-many", &["sh", "-c", "zstd -q -c $(find tree -name '*.h' | sort)"], &[Need::Debian("zstd", "zstd"), SHELL])
        .data(LARGE_TREE),
    Case::new(Kind::Archive, "rsync", &["rsync", "-a", "tree/", "copy/"], &[Need::Debian("rsync", "rsync")])
        .data(TREE)
        .writes(&["copy"]),
    Case::new(Kind::Archive, "rsync-same", &["rsync", "-a", "--dry-run", "--checksum", "one/", "other/"], &[
        Need::Debian("rsync", "rsync"),
    ])
    .data(TWO_TREES)
    .prepare("rm -r other; cp -a one other"),
    Case::new(
        Kind::Archive,
        "borg-create",
        &["borg", "create", "--files-cache=disabled", "--timestamp", "2024-01-01T00:00:00", "repository::one", "tree"],
        &[Need::Debian("borgbackup", "borg")],
    )
    .data(TREE)
    .prepare("borg init -e none kept")
    .restore("rm -rf repository .cache/borg .config/borg; cp -a kept repository")
    .environment(&[("BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK", "yes"), ("BORG_RELOCATED_REPO_ACCESS_IS_OK", "yes")])
    .compared(Compared::Files),
    Case::new(
        Kind::Archive,
        "restic-backup",
        &["restic", "-q", "-r", "repository", "--no-cache", "backup", "--dry-run", "tree"],
        &[Need::Debian("restic", "restic")],
    )
    .data(TREE)
    .prepare("restic -q -r repository --no-cache init")
    .environment(&[("RESTIC_PASSWORD", "word")])
    .compared(Compared::Files),
    Case::new(Kind::Static, "busybox-grep", &["busybox", "grep", "-r", ABSENT, "tree"], &[BUSYBOX])
        .data(TREE)
        .status(1),
    Case::new(Kind::Static, "musl-static", &["sh", "-c", "./sums $(find tree -type f | sort)"], &[MUSL, SHELL])
        .data(TREE)
        .prepare(sums!("musl-gcc -O2 -static -o sums sums.c")),
    Case::new(Kind::Static, "musl-dynamic", &["sh", "-c", "./sums $(find tree -type f | sort)"], &[MUSL, SHELL])
        .data(TREE)
        .prepare(sums!("musl-gcc -O2 -o sums sums.c")),
    Case::new(
        Kind::Static,
        "go-static",
        &["{tools}/node/node_modules/esbuild/bin/esbuild", "--bundle", "source/index.js", "--outfile=made.js"],
        &[Need::Node("esbuild")],
    )
    .prepare(
        "mkdir source; i=0; while [ $i -lt 600 ]; do
            echo \"export const value = $i;\" > source/unit_$i.js
            echo \"import { value as v$i } from './unit_$i.js'; console.log(v$i);\" >> source/index.js; i=$((i + 1)); done",
    )
    .writes(&["made.js"])
    .compared(Compared::AllButMessages),
    Case::new(Kind::Static, "glibc-static", &["sh", "-c", "./sums $(find tree -type f | sort)"], &[GCC, SHELL])
        .data(TREE)
        .prepare(sums!("gcc -O2 -static -o sums sums.c")),
    Case::new(
        Kind::Pipeline,
        "find-xargs-wc",
        &["sh", "-c", "find tree -name '*.c' -print0 | sort -z | xargs -0 wc -l | tail -n 3"],
        &[FIND, COREUTILS, SHELL],
    )
    .data(LARGE_TREE),
    Case::new(
        Kind::Pipeline,
        "tar-gzip",
        &["sh", "-c", "tar cf - tree | gzip -1n | wc -c"],
        &[TAR, COREUTILS, SHELL],
    )
    .data(TREE),
    Case::new(
        Kind::Pipeline,
        "grep-awk-sort",
        &["sh", "-c", "grep -rho '[a-z]*_[a-z]*(' tree | gawk '{ n[$0]++ } END { for (w in n) print n[w], w }' | sort -rn | head"],
        &[GREP, GAWK, COREUTILS, SHELL],
    )
    .data(TREE),
    Case::new(Kind::Container, "container-grep", &["grep", "-r", ABSENT, "tree"], &[GREP])
        .data(TREE)
        .status(1),
    Case::new(Kind::Container, "container-tar", &["sh", "-c", "tar cf - tree | sha256sum"], &[TAR, COREUTILS, SHELL])
        .data(TREE),
    Case::new(
        Kind::Container,
        "container-python",
        &["/usr/bin/python3", "-c", "import json, asyncio, http.client, xml.dom.minidom, sqlite3; print(len(json.dumps({})))"],
        &[Need::Debian("python3", "/usr/bin/python3")],
    ),
];
