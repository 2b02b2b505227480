//! Programs of many kinds do the same with `forebay run` as without: backups, databases, interpreters, linkers, media, terminals.
//!
//! Files that a program numbers or dates by itself, such as those of a backup, are removed at the end of its line.

use forebay_compat::fixtures::{nothing, project, sources, texts};
use forebay_compat::{Scratch, commands, scripts};

/// Both a tree and single files.
fn files(scratch: &Scratch) {
    texts(scratch);
    sources(scratch);
}

/// A folder of mail.
fn mail(scratch: &Scratch) {
    for part in 0..8 {
        scratch.text("body", 60, part);
        let body = std::fs::read_to_string(scratch.at("body")).expect("what was just written");
        let head = format!(
            "From: a@example.org\nTo: b@example.org\nSubject: part {part}\nMessage-ID: <{part}@example.org>\n\
             Date: Mon, 1 Jan 2001 00:00:0{part} +0000\n\n"
        );
        scratch.file(&format!("mail/cur/{part}:2,S"), head + &body);
    }
    for folder in ["mail/new", "mail/tmp"] {
        std::fs::create_dir(scratch.at(folder)).expect("a folder");
    }
}

/// Sixty modules of node's, each of two files.
fn modules(scratch: &Scratch) {
    texts(scratch);
    for module in 0..60 {
        let folder = format!("node_modules/m{module}");
        scratch.file(&format!("{folder}/index.js"), "exports.value = require('./lib/one').value + 1;\n");
        scratch.file(
            &format!("{folder}/lib/one.js"),
            "exports.value = require('fs').readFileSync('a.txt').length;\n",
        );
    }
}

/// What is read into a store of keys and values.
fn keys_and_values(scratch: &Scratch) {
    let mut text = String::from("VERSION=3\nformat=print\ntype=btree\nmapsize=16777216\nHEADER=END\n");
    for key in 0..20_000 {
        text.push_str(&format!(" key{key:08}\n value of {key} and more\n"));
    }
    scratch.file("text", text + "DATA=END\n");
}

/// A program that adds up the bytes of files.
fn adder(scratch: &Scratch) {
    files(scratch);
    let source = r#"#include <stdio.h>
#include <stdlib.h>
int main(int count, char **names) {
    long sum = 0;
    for (int i = 1; i < count; i++) {
        FILE *file = fopen(names[i], "r");
        for (int byte; file && (byte = getc(file)) != EOF;) sum += byte;
        if (file) fclose(file);
    }
    printf("%ld\n", sum);
    fflush(stdout);
    return system("wc -l a.txt") != 0;
}
"#;
    scratch.file("adder.c", source);
}

/// Adds up the lengths of files in several threads.
fn java_source(scratch: &Scratch) {
    sources(scratch);
    let source = r#"import java.nio.file.*;
import java.util.stream.*;
public class One {
    public static void main(String[] arguments) throws Exception {
        try (Stream<Path> paths = Files.walk(Path.of("src"))) {
            System.out.println(paths.filter(Files::isRegularFile).sorted().parallel().mapToLong(path -> {
                try { return Files.readAllBytes(path).length; } catch (Exception e) { throw new RuntimeException(e); }
            }).sum());
        }
        System.exit(3);
    }
}
"#;
    scratch.file("One.java", source);
}

/// Pixels without a head.
fn pixels(scratch: &Scratch) {
    scratch.noise("data.bin", 1_500_000, 4);
    for picture in 1..=4 {
        let mut bytes = vec![0; 120_000];
        fastrand::Rng::with_seed(picture).fill(&mut bytes);
        scratch.file(&format!("{picture}.ppm"), [b"P6\n200 200\n255\n", &bytes[..]].concat());
    }
}

commands! {
    ripgrep_with_threads: sources, ["rg", "--no-config", "--sort=path", "-c", "heron", "src"] => cold_names();
    ripgrep_with_one_thread: sources, ["rg", "--no-config", "-j1", "-n", "mill.*stone", "src/module3"] => cold_names();
    valgrind_runs: texts, ["valgrind", "-q", "--tool=none", "md5sum", "a.txt", "long.txt"];
    perl_walks_stores_and_forks: sources,
        ["perl", "-MFile::Find", "-MStorable=store,retrieve", "-MPOSIX", "-MIO::Handle", "-e", r#"
            find(sub { $s{$File::Find::name} = -s if -f }, 'src'); store(\%s, 'kept');
            print scalar(keys %{retrieve('kept')}), "\n"; unlink 'kept';
            for $n (1 .. 4) {
                STDOUT->flush; pipe($r, $w);
                if (!fork) { open $f, '<', "src/module$n/part3.txt"; @l = <$f>; print $w scalar(@l), "\n"; $w->flush; POSIX::_exit($n) }
                close $w; print <$r>; wait; print $? >> 8, "\n"
            }"#] => cold_names();
    ruby_reads_with_threads_and_forks: files,
        ["ruby", "-rjson", "-rdigest/sha2", "-e", r#"
            n = Hash.new(0)
            Dir.glob('src/**/*.txt').sort.each { |f| File.foreach(f) { |l| n[l.split.last] += 1 } }
            puts JSON.generate(n.sort.to_h)
            puts %w[a.txt b.txt long.txt].map { |f| Thread.new { Digest::SHA256.file(f).hexdigest } }.map(&:value)
            puts %x(wc -l a.txt)
            $stdout.flush
            p Process.wait2(fork { exit! 3 })[1].exitstatus"#] => cold_names();
    php_reads_and_writes: files,
        ["php", "-r", r#"
            foreach (glob('src/*/*.txt') as $f) $n[$f] = md5_file($f);
            echo json_encode($n), PHP_EOL;
            $h = fopen('long.txt', 'r'); fseek($h, 5000); echo fgets($h), strlen(stream_get_contents($h)), PHP_EOL;
            file_put_contents('out', array_reverse(file('b.txt')));
            echo shell_exec('wc -l < a.txt');
            exit(4);"#] => cold_names();
    node_requires_many_modules: modules,
        ["node", "-e", r#"
            let n = 0;
            for (let m = 0; m < 60; m++) n += require('m' + m).value;
            console.log(n);
            const { Worker } = require('worker_threads'), c = require('child_process');
            const w = "require('worker_threads').parentPort.postMessage(require('fs').readFileSync('long.txt').length)";
            new Worker(w, { eval: true }).on('message', v => {
                console.log(v, c.execSync('wc -l a.txt').toString(), c.spawnSync('sh', ['-c', 'exit 7']).status);
            });"#] => cold_names();
    java_runs_threads: java_source, ["java", "One.java"] => needs(&["javac"]).seconds(60);
    python_packs_in_processes: sources,
        ["python3", "-c", r#"
import ctypes, glob, lzma, multiprocessing, shelve, tarfile, tempfile
def one(name): return len(open(name).read())
if __name__ == '__main__':
    with multiprocessing.get_context('spawn').Pool(2) as pool: pass
    with multiprocessing.get_context('fork').Pool(2) as pool: print(sum(pool.map(one, sorted(glob.glob('src/*/*.txt')))))
    with tempfile.TemporaryFile() as file:
        with tarfile.open(fileobj=file, mode='w:xz', preset=0) as archive: archive.add('src')
        file.seek(0)
        with tarfile.open(fileobj=file) as archive: print(len(archive.getmembers()))
    print(ctypes.CDLL(None).strlen(b'weir'))"#] => cold_names();
}

scripts! {
    rsync_copies_and_updates: sources, "sh",
        "rsync -aH src/ copy && rsync -a --checksum --delete --itemize-changes src/module1/ copy/module2/ && rsync -rn --stats src/ copy | head -3"
        => needs(&["rsync"]).cold_names();
    // The archive has a file of two names under the one that borg comes to first, by the numbers of inodes.
    borg_makes_a_backup: sources, "sh",
        "export BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK=yes BORG_BASE_DIR=$HOME/borg; borg init -e none r && \
         borg create --timestamp 2001-01-01T00:00:00 r::one src && borg list --format '{mode} {size} {path}{NL}' r::one | \
         grep -v -e src/hard -e module0/part1 | sort && \
         mkdir back && cd back && borg extract ../r::one && cd .. && diff -r src back/src; echo $?; rm -rf r"
        => needs(&["borg"]).cold_names().seconds(60);
    restic_makes_a_backup: sources, "sh",
        "export RESTIC_PASSWORD=x RESTIC_CACHE_DIR=$HOME/restic; restic init -q -r r && restic -q -r r backup src && \
         restic -q -r r restore latest --target back && diff -r src back/src; echo $?; rm -rf r"
        => needs(&["restic"]).cold_names().seconds(60);
    notmuch_searches_mail: mail, "sh",
        "export NOTMUCH_CONFIG=$HOME/config; printf \"[database]\\npath=$PWD/mail\\n[user]\\nname=a\\nprimary_email=a@example.org\\n[new]\\ntags=unread\\n\" > $NOTMUCH_CONFIG; \
         notmuch new 2>/dev/null | grep -c Added; notmuch tag +seen -- tag:unread and heron; notmuch count tag:seen; \
         notmuch search --output=messages heron and subject:part | sort; notmuch show --format=text id:3@example.org | sed 's/filename:.*//'; \
         rm -rf mail/.notmuch"
        => needs(&["notmuch"]).cold_names();
    hdf5_tools_read_and_write: nothing, "sh",
        "printf 'INPUT-CLASS TEXTIN\\nRANK 2\\nDIMENSION-SIZES 100 30\\nPATH /one/numbers\\nOUTPUT-CLASS IN\\nOUTPUT-SIZE 32\\n' > config; \
         seq 3000 > numbers.txt; h5import numbers.txt -c config -o a.h5 > /dev/null && h5dump -d /one/numbers a.h5 && h5ls -r a.h5 && \
         h5repack -f GZIP=6 a.h5 b.h5 && h5diff a.h5 b.h5; echo $?; rm a.h5 b.h5"
        => needs(&["h5import", "h5dump"]);
    pictures_are_converted_and_labelled: pixels, "sh",
        "for n in 1 2 3 4; do /usr/bin/convert $n.ppm -strip -quality 80 $n.jpg; done; /usr/bin/convert 1.ppm -resize 50% -blur 0x2 -rotate 30 -strip b.ppm; \
         exiftool -q -overwrite_original -Artist=forebay -Comment=weir 1.jpg 2.jpg; exiftool -s -Artist -Comment -ImageSize *.jpg"
        => needs(&["/usr/bin/convert", "exiftool"]).cold_names();
    ffmpeg_encodes_and_decodes: pixels, "sh",
        "ffmpeg -nostdin -v error -f rawvideo -pix_fmt gray -s 100x100 -r 25 -i data.bin -bitexact -c:v mpeg4 -threads 2 -q:v 5 a.avi && \
         ffmpeg -nostdin -v error -i a.avi -threads 2 -vf scale=50:50 -bitexact -f framemd5 - ; ffprobe -v error -show_entries stream=nb_frames,width a.avi"
        => needs(&["ffmpeg"]);
    every_linker_links: project, "sh",
        "cc -g -c *.c; for linker in bfd gold lld mold; do cc -fuse-ld=$linker -Wl,--build-id -o $linker *.o && ./$linker; echo $linker $?; done; rm *.o"
        => needs(&["ld.gold", "ld.lld", "mold"]).cold_names();
    lmdb_stores_and_copies: keys_and_values, "sh",
        "mkdir store copy; mdb_load -f text store && mdb_dump -p store | cmp - text; mdb_stat store | tail -5; \
         mdb_copy store copy && mdb_dump -p copy | md5sum; rm -r store copy"
        => needs(&["mdb_load"]);
    sqlite_joins_dumps_and_copies: nothing, "sh",
        "sqlite3 db 'pragma cache_size=50; create table t(id integer primary key, name text); create table u(id, tag); \
         with recursive n(i) as (select 1 union all select i+1 from n where i<20000) insert into t select i, hex(i*7919) from n; \
         insert into u select id, id%17 from t order by name; create index ui on u(id);'; \
         sqlite3 db 'select tag, count(*), max(name) from t join u using(id) group by tag order by tag'; sqlite3 db .dump | sqlite3 db2; \
         sqlite3 db2 'pragma integrity_check; select count(*) from u'; sqlite3 db '.backup db3'; sqlite3 db3 'select sum(tag) from u'"
        => needs(&["sqlite3"]);
    postgres_answers_without_a_server: nothing, "sh",
        "p=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -1); [ -n \"$p\" ] || { echo none; exit; }; $p/initdb -D cluster -A trust --no-sync > /dev/null; \
         printf 'create table t as select i as id, md5(i::text) as name from generate_series(1, 20000) i;\\ncreate index n on t(name);\\ncheckpoint;\\n' | \
         $p/postgres --single -c log_checkpoints=off -D cluster postgres > /dev/null; \
         echo 'select count(*), sum(id), min(name) from t where name > md5(chr(65));' | $p/postgres --single -c log_checkpoints=off -D cluster postgres; rm -r cluster"
        => without_root().seconds(60);
    tmux_has_sessions: texts, "sh",
        "export TMUX_TMPDIR=$HOME; tmux -L one -f /dev/null new-session -d -x 80 -y 24 'wc -l < long.txt > out; stty size >> out; tmux -L one wait-for -S done; sleep 60' && \
         tmux -L one wait-for done && cat out; tmux -L one list-sessions -F '#{session_windows}'; tmux -L one kill-server"
        => needs(&["tmux"]);
    script_gives_a_terminal: texts, "sh", "script -qec 'stty size; wc -l a.txt; cat b.txt | md5sum; exit 5' /dev/null; echo $?" => needs(&["script"]);
    flock_waits_in_turn: texts, "sh",
        "exec 9> lock; flock 9; (flock -n lock echo taken || echo busy $?) 9>&-; (flock -w 20 lock sh -c 'wc -l < long.txt; cat order' 9>&-) & \
         wc -l < a.txt; echo first > order; flock -u 9; wait; flock -s lock flock -s -n lock wc -c b.txt"
        => needs(&["flock"]);
    time_limits_in_time_limits: texts, "sh",
        "timeout 2 sh -c 'cat long.txt | md5sum; sleep 20'; echo $?; timeout --foreground 20 setsid -w sh -c 'wc -l < long.txt; exit 9'; echo $?; \
         timeout -k 0.1 2 sh -c 'trap : TERM; cat a.txt | md5sum; sleep 20 & wait; wait'; echo $?";
    musl_programs_dynamic_and_static: adder, "sh",
        "musl-gcc -O1 -o dynamic adder.c && musl-gcc -static -O1 -o static adder.c && ./dynamic long.txt src/*/*.txt && ./static long.txt missing; echo $?"
        => needs(&["musl-gcc"]).cold_names();
    busybox_is_a_shell_with_all_its_programs: files, "sh",
        "busybox sh -c 'find src -name \"*3.txt\" | sort | xargs md5sum | tee sums | wc -l; tar c src | tar t | wc -l; awk \"{ n += \\$1 } END { print n }\" long.txt; \
         gzip -c a.txt | zcat | cmp - a.txt; /usr/bin/sort b.txt | head -3; exit 6'; echo $?"
        => needs(&["busybox"]).cold_names();
    fd_finds_and_runs: sources, "sh", "fdfind -e txt part3 src | sort; fdfind -x wc -c \\; part5 src | sort" => needs(&["fdfind"]).cold_names();
    zip_round_trip: sources, "sh",
        "zip -X -q -r a.zip src && unzip -tq a.zip && unzip -q a.zip -d out && diff -r src out/src && python3 -m zipfile -l a.zip | wc -l; rm a.zip"
        => needs(&["zip", "unzip", "python3"]).cold_names();
    debian_packages_are_built_and_read: sources, "sh",
        "mkdir -p p/DEBIAN p/usr/share && cp -r src p/usr/share && printf 'Package: weir\\nVersion: 1\\nArchitecture: all\\nMaintainer: a <a@example.org>\\nDescription: one\\n' > p/DEBIAN/control && \
         dpkg-deb --root-owner-group -b p one.deb && dpkg-deb -c one.deb | wc -l && dpkg-deb -x one.deb out && diff -r p/usr out/usr; rm one.deb; dpkg-query -W -f '${Status}\\n' bash"
        => needs(&["dpkg-deb"]).cold_names();
    make_calls_make: files, "sh",
        "mkdir sub; printf 'all: one two\\n\\t@cat one two\\none two: %%: src/module1/part1.txt\\n\\t@wc -l < $< > $@\\n\\t@$(MAKE) -s -C sub\\n' > Makefile; \
         printf 'all:\\n\\t@echo in sub\\n' > sub/Makefile; make -j3 -Otarget | sort; make -q; echo $?"
        => needs(&["make"]);
    mounts_of_its_own: texts, "sh",
        "[ $(id -u) = 0 ] || exit 0; unshare -m sh -c 'mkdir m && mount -t tmpfs none m && cp a.txt m && wc -l m/a.txt; chroot m /none; echo $?'; ls m; \
         unshare -p -f --kill-child sh -c 'echo $$; cat long.txt | md5sum & wait'; rmdir m"
        => needs(&["unshare"]);
    debuggers_and_tracers_inside: project, "sh",
        "cc -g -o prog *.c && gdb -q -batch -nx -ex 'break unit3' -ex run -ex bt -ex 'info inferiors' -ex kill ./prog 2>/dev/null | grep -v process; \
         strace -f -e trace=openat -o calls ./prog && grep -c prog calls; strace -f -c -o /dev/null sh -c './prog | cat'; rm -f calls"
        => needs(&["gdb", "strace"]);
}
