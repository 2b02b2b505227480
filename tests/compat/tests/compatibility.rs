//! Real command lines do the same with `forebay run` as without: output, errors, status and files.

use std::process::Command;

use forebay_compat::fixtures::{digits, line_order, nothing, project, sources, texts};
use forebay_compat::{Case, Outcome, Scratch, commands, scripts};

/// Two versions of a tree.
fn versions(scratch: &Scratch) {
    for file in 0..40 {
        scratch.text(&format!("old/f{file}"), 60, file);
        scratch.text(&format!("new/f{file}"), 60, if file % 5 == 0 { file + 1000 } else { file });
    }
    scratch.file("new/added", "added\n").file("old/removed", "removed\n");
}

/// Fifty object files and an archive member list.
fn objects(scratch: &Scratch) {
    use std::sync::OnceLock;
    static OBJECTS: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    let objects = OBJECTS.get_or_init(|| {
        let place = Scratch::fresh(std::env::temp_dir().join(format!("forebay-objects-{}", std::process::id())));
        let mut names = Vec::new();
        for n in 0..50 {
            place.file(
                &format!("o{n}.c"),
                format!(
                    "static const char t[3000] = \"unit {n}\"; int v{n} = {n}; const char *name{n}(int i) {{ return t + i + v{n}; }}\n"
                ),
            );
            names.push(format!("o{n}.c"));
        }
        let made = Command::new("cc").args(["-c", "-g"]).args(&names).current_dir(place.path()).status();
        assert!(made.expect("a C compiler").success());
        (0..50).map(|n| std::fs::read(place.at(&format!("o{n}.o"))).expect("an object")).collect()
    });
    for (n, object) in objects.iter().enumerate() {
        scratch.file(&format!("o{n:02}.o"), object);
    }
}

/// A git repository with a short history.
fn repository(scratch: &Scratch) {
    sources(scratch);
    let script = "git init -q -b main . && git config gc.auto 0 && git add -A && git commit -qm one && \
                  for n in 1 2 3 4 5 6; do echo $n >> src/module$n/part1.txt; git commit -qam change-$n; done";
    assert!(
        git(Command::new("sh").args(["-c", script]).current_dir(scratch.path()))
            .status()
            .expect("sh")
            .success()
    );
}

fn git(command: &mut Command) -> &mut Command {
    for (name, value) in GIT {
        command.env(name, value);
    }
    command.env("HOME", "/nonexistent").env("GIT_CONFIG_NOSYSTEM", "1")
}

const GIT: [(&str, &str); 6] = [
    ("GIT_AUTHOR_NAME", "A"),
    ("GIT_AUTHOR_EMAIL", "a@example.org"),
    ("GIT_AUTHOR_DATE", "2001-01-01T00:00:00Z"),
    ("GIT_COMMITTER_NAME", "A"),
    ("GIT_COMMITTER_EMAIL", "a@example.org"),
    ("GIT_COMMITTER_DATE", "2001-01-01T00:00:00Z"),
];

/// A database with two tables and an index.
fn database(scratch: &Scratch) {
    let script = "create table t(id integer primary key, name text, v real); create table u(id, tag); \
                  with recursive n(i) as (select 1 union all select i+1 from n where i<20000) \
                  insert into t select i, 'name'||(i*7919%20011), i*0.5 from n; \
                  insert into u select id, id%17 from t; create index un on t(name);";
    let made = Command::new("sqlite3").arg(scratch.at("db")).arg(script).status();
    if let Ok(status) = made {
        assert!(status.success());
    }
}

// What programs themselves leave to chance.

/// Git's index holds inode numbers and times; its other files must agree.
fn without_index(outcome: &mut Outcome) {
    outcome.tree.retain(|path, _| !path.ends_with("index"));
}

fn byte_order(outcome: &mut Outcome) {
    outcome.stdout.sort_unstable();
}

commands! {
    cat_of_several_files: texts, ["cat", "a.txt", "empty", "long.txt", "data.bin", "no-newline"] => cold_names();
    cat_of_a_missing_file: texts, ["cat", "a.txt", "missing", "b.txt"];
    cat_numbers_standard_input: texts, ["cat", "-n", "-"] => stdin("one\ntwo\nthree");
    cp_keeps_everything: sources, ["cp", "-a", "src", "copy"] => cold_names();
    cp_onto_existing: texts, ["cp", "--backup", "a.txt", "b.txt"];
    cp_with_plain_reads: texts, ["cp", "--reflink=never", "--sparse=always", "data.bin", "copy"];
    mv_renames: sources, ["mv", "-v", "src/module1", "src/module2", "src/empty"];
    rm_of_a_tree: sources, ["rm", "-rv", "src/module3", "src/hard"] => cold_names();
    ls_of_a_tree: sources, ["ls", "-lR", "--time-style=+%s", "src"] => cold_names();
    du_counts: sources, ["du", "-a", "--apparent-size", "src"] => cold_names();
    sort_of_a_large_file: texts, ["sort", "-S", "1M", "-T", ".", "-k3,3", "-k1n", "long.txt"];
    sort_in_place: texts, ["sort", "-n", "-o", "numbers", "numbers"];
    wc_counts: texts, ["wc", "a.txt", "b.txt", "long.txt", "data.bin", "empty"];
    head_stops_early: texts, ["head", "-n", "100", "long.txt", "a.txt"];
    tail_seeks_to_the_end: texts, ["tail", "-n", "50", "long.txt", "no-newline"];
    split_makes_pieces: texts, ["split", "-l", "5000", "long.txt", "piece-"];
    md5sum_of_files: texts, ["md5sum", "a.txt", "long.txt", "data.bin"];
    sha256sum_of_files: texts, ["sha256sum", "a.txt", "long.txt", "data.bin"];
    cksum_of_files: texts, ["cksum", "a.txt", "long.txt", "data.bin"];
    b2sum_of_files: texts, ["b2sum", "a.txt", "long.txt", "data.bin"];
    tac_reverses: texts, ["tac", "long.txt"];
    nl_numbers: texts, ["nl", "-ba", "long.txt"];
    cut_takes_fields: texts, ["cut", "-d", " ", "-f", "2,4-", "long.txt"];
    paste_joins_lines: texts, ["paste", "a.txt", "b.txt", "numbers"];
    od_dumps: texts, ["od", "-A", "x", "-t", "x1z", "-j", "70000", "-N", "300000", "data.bin"];
    base64_encodes: texts, ["base64", "data.bin"];
    dd_with_seeks: texts, ["dd", "if=data.bin", "of=out.bin", "bs=7777", "skip=11", "seek=3", "count=90", "status=none"];
    dd_into_a_file_without_truncation: texts,
        ["dd", "if=a.txt", "of=long.txt", "bs=512", "conv=notrunc", "oflag=append", "status=none"];
    dd_with_direct_reads: texts, ["dd", "if=data.bin", "bs=4096", "count=100", "iflag=direct", "status=none"];
    install_copies: sources, ["install", "-D", "-m", "750", "src/run.sh", "usr/bin/run"];
    ln_makes_links: sources, ["ln", "-s", "src/module1", "src/run.sh", "src/empty"];
    truncate_shrinks: texts, ["truncate", "-s", "1000", "a.txt", "long.txt", "made"];
    touch_sets_times: texts, ["touch", "-d", "@900000000", "a.txt", "made"];
    stat_prints: sources, ["stat", "-c", "%n %s %a %h %F %Y", "src/run.sh", "src/module0/first", "src/hard", "src"];
    shred_overwrites: texts, ["shred", "-n0", "-z", "a.txt"];
    cmp_finds_the_difference: versions, ["cmp", "old/f5", "new/f5"];
    readlink_resolves: sources, ["readlink", "-f", "src/module4/first", "src/../src/run.sh"];
    tsort_orders: texts, ["tsort", "numbers"];
    fmt_wraps: texts, ["fmt", "-w", "50", "long.txt"];
    factor_from_standard_input: texts, ["factor"] => stdin("60\n97\n1000000007\n");
    grep_through_a_tree: sources, ["grep", "-rn", "heron", "src"] => cold_names();
    grep_counts: texts, ["grep", "-c", "mill.*stone", "a.txt", "long.txt", "data.bin"];
    grep_of_zero_terminated_lines: texts, ["grep", "-zac", "a", "data.bin"];
    grep_without_a_match: texts, ["grep", "nothing-like-this", "a.txt", "long.txt"];
    grep_of_a_missing_file: texts, ["grep", "-s", "mill", "missing", "a.txt"];
    sed_in_place: sources, ["sed", "-i", "s/mill/MILL/g", "src/module1/part1.txt", "src/module2/part2.txt"];
    awk_sums: texts, ["awk", "{ n[$2] += $1 } END { for (i = 0; i < 97; i++) print i, n[i] }", "long.txt"];
    find_runs_a_program: sources, ["find", "src", "-name", "part3.txt", "-exec", "wc", "-c", "{}", ";"];
    find_by_time_and_size: sources, ["find", "src", "-size", "+1k", "-printf", "%p %s %m %n\n"] => cold_names();
    find_deletes: sources, ["find", "src", "-name", "part5*", "-delete"];
    tar_creates: sources, ["tar", "--sort=name", "-cf", "out.tar", "src"] => cold_names();
    tar_compresses: sources, ["tar", "--sort=name", "-I", "gzip -n", "-cf", "out.tgz", "src"] => needs(&["gzip"]);
    diff_of_trees: versions, ["diff", "-ru", "old", "new"] => cold_names();
    perl_reads_and_writes: texts,
        ["perl", "-e", "open F,'long.txt'; open O,'>out'; my %n; while(<F>){ $n{$1}++ if /(\\w+)$/ } \
          print O \"$_ $n{$_}\\n\" for sort keys %n; seek F,1000,0; print scalar <F>"];
    python_imports: nothing,
        ["python3", "-c", "import json, decimal, email.message, http.client, sqlite3, xml.dom.minidom; print(json.dumps({'a': 1}))"] => cold_names();
    python_reads_files: sources,
        ["python3", "-c", "import os\nfor d, s, f in sorted(os.walk('src')):\n  for n in sorted(f):\n    print(d, n, len(open(d+'/'+n).read()))"] => cold_names();
    python_threads: sources,
        ["python3", "-c", "import glob, concurrent.futures as c\nn = sorted(glob.glob('src/*/*.txt'))\n\
          with c.ThreadPoolExecutor(6) as p: print(list(p.map(lambda f: sum(open(f,'rb').read()), n)))"];
    python_processes: sources,
        ["python3", "-c", "import glob, multiprocessing as m\ndef f(n): return sum(open(n,'rb').read())\n\
          if __name__ == '__main__':\n  with m.Pool(3) as p: print(p.map(f, sorted(glob.glob('src/*/*.txt'))))"];
    python_subprocesses: texts,
        ["python3", "-c", "import subprocess as s\nfor f in 'a.txt','b.txt','missing': r = s.run(['wc','-l',f], capture_output=True); print(r)"];
    python_maps_files: texts,
        ["python3", "-c", "import mmap\nf = open('data.bin','r+b'); m = mmap.mmap(f.fileno(), 0)\n\
          print(sum(m[i] for i in range(0, len(m), 4096))); m[5000:5003] = b'new'; m.flush()"];
    python_database: nothing,
        ["python3", "-c", "import sqlite3\nc = sqlite3.connect('db'); c.execute('create table t(a)'); \
          c.executemany('insert into t values(?)', [(i,) for i in range(5000)]); c.commit()\n\
          print(c.execute('select sum(a), count(*) from t').fetchall())"];
    python_asyncio: nothing,
        ["python3", "-c", "import asyncio\nasync def main():\n  p = await asyncio.create_subprocess_exec('cat', '/etc/passwd', stdout=-1)\n\
          o, _ = await p.communicate()\n  print(len(o), p.returncode)\nasyncio.run(main())"];
    sqlite_queries: database,
        ["sqlite3", "-readonly", "db", "select tag, count(*), sum(v) from t join u using(id) group by tag; select id from t where name = 'name5'"];
    sqlite_updates: database,
        ["sqlite3", "db", "begin; update t set v = v + 1 where id % 3 = 0; delete from u where tag = 4; commit; pragma integrity_check; select sum(v) from t"];
    sqlite_write_ahead_log: database,
        ["sqlite3", "db", "pragma journal_mode=wal; insert into u values(1, 2); pragma wal_checkpoint(truncate); select count(*) from u"];
    git_log: repository, ["git", "log", "--stat", "-p"] => env("GIT_PAGER", "cat").normalise(without_index).cold_names();
    git_diff_of_revisions: repository, ["git", "diff", "HEAD~5", "HEAD"] => normalise(without_index);
    git_fsck: repository, ["git", "fsck", "--full", "--strict", "--no-progress"] => normalise(without_index).cold_names();
    git_blame: repository, ["git", "blame", "src/module1/part1.txt"] => normalise(without_index);
    git_clone: repository, ["git", "clone", "-q", "--no-hardlinks", ".", "copy"] => env(GIT[3].0, GIT[3].1).env(GIT[4].0, GIT[4].1).env(GIT[5].0, GIT[5].1).normalise(without_index);
    git_grep: repository, ["git", "grep", "-c", "heron"] => normalise(without_index).cold_names();
    gcc_compiles_and_links: project, ["sh", "-c", "cc -O1 -o prog *.c && ./prog"];
    ld_of_fifty_objects: objects, ["sh", "-c", "ld -r -o all.o o*.o"] => needs(&["ld"]).cold_names();
    ar_nm_and_ranlib: objects, ["sh", "-c", "ar rcsD lib.a o*.o && nm lib.a && ar t lib.a"] => needs(&["ar"]);
    strip_rewrites: objects, ["strip", "-g", "o00.o", "o01.o", "o02.o", "o03.o"];
    objdump_disassembles: objects, ["objdump", "-d", "o00.o", "o07.o", "o49.o"];
    readelf_prints: objects, ["readelf", "-a", "o10.o", "o20.o"];
    make_in_parallel: project, ["make", "-j2"];
    jq_filters: |s: &Scratch| { s.file("a.json", format!("[{}]", (0..9000).map(|n| format!("{{\"n\":{n}}}")).collect::<Vec<_>>().join(","))); },
        ["jq", "-c", "map(.n) | add", "a.json"];
    file_identifies: texts, ["file", "a.txt", "data.bin", "empty"];
    vim_edits_in_batch: texts, ["vim", "-u", "NONE", "-i", "NONE", "-n", "-es", "-c", "%s/mill/WHEEL/g", "-c", "wq", "a.txt"];
    openssl_digests: texts, ["openssl", "dgst", "-sha512", "long.txt", "data.bin"];
    bc_calculates: |s: &Scratch| { s.file("sum.bc", "s=0\nfor(i=0;i<500;i++) s+=i^3\ns\nquit\n"); }, ["bc", "-q", "sum.bc"];
    m4_expands: |s: &Scratch| { s.file("a.m4", "define(`x', `y $1')x(1)x(2)\n"); }, ["m4", "a.m4"];
    tcl_reads: texts, ["sh", "-c", "echo 'set f [open long.txt]; puts [string length [read $f]]; exec wc -l a.txt > n' | tclsh"] => needs(&["tclsh"]);
    java_version: nothing, ["java", "-version"] => normalise(digits);
    node_reads: texts, ["node", "-e", "console.log(require('fs').readFileSync('long.txt').length)"];
    node_promises: sources,
        ["node", "-e", "const f=require('fs').promises;(async()=>{for(const d of (await f.readdir('src')).sort())console.log(d,(await f.lstat('src/'+d)).size>0)})()"];
    go_version: nothing, ["go", "version"];
    gdb_in_batch: project,
        ["sh", "-c", "cc -g -o prog *.c && gdb -q -batch -nx -ex 'break unit3' -ex run -ex bt -ex kill ./prog 2>&1 | grep -c unit3"] => needs(&["gdb"]);
    strace_traces: texts, ["strace", "-o", "/dev/null", "-f", "cat", "a.txt"];
    cmake_configures: |s: &Scratch| { project(s); s.file("CMakeLists.txt", "cmake_minimum_required(VERSION 3.10)\nproject(p NONE)\nfile(GLOB c *.c)\nlist(LENGTH c n)\nmessage(\"${n}\")\n"); },
        ["cmake", "-S", ".", "-B", "/dev/null/none"];
    zip_archives: sources, ["zip", "-X", "-r", "-q", "out.zip", "src"];
    cpio_archives: sources, ["sh", "-c", "find src | sort | cpio -o -H newc --reproducible > out.cpio"] => needs(&["cpio"]);
    xxd_or_hexdump: texts, ["hexdump", "-C", "-n", "200000", "data.bin"];
    iconv_converts: texts, ["iconv", "-f", "utf-8", "-t", "utf-16", "long.txt"];
    getent_reads_databases: nothing, ["getent", "passwd", "root", "daemon"];
    ldd_prints: nothing, ["sh", "-c", "ldd /bin/sh | sed 's/(0x.*//'"];
    id_prints: nothing, ["id"];
    the_loader_reports_the_programs_own_libraries: nothing,
        ["sh", "-c", "LD_TRACE_LOADED_OBJECTS=1 ls | sed 's/(0x.*//'; LD_DEBUG=libs ls 2>&1 | grep 'calling init' | sed 's/.*://'"];
    date_of_a_file: texts, ["date", "-r", "a.txt", "+%s"];
    true_succeeds: nothing, ["true"];
    false_fails: nothing, ["false"];
    env_is_untouched: nothing, ["env"];
    printenv_of_preload: nothing, ["printenv", "LD_PRELOAD", "FOREBAY_SESSION"];
    env_keeps_the_users_preload: nothing, ["env", "LD_PRELOAD=libm.so.6", "sh", "-c", "echo $LD_PRELOAD; env; cat /etc/hostname"];
    env_without_variables: nothing, ["env", "-i", "/usr/bin/env"];
    env_with_many_variables: nothing, ["bash", "-c", "for i in $(seq 64) $(seq 130 160); do export V$i=$i; sh -c 'env | wc -l'; done; \
        export LD_PRELOAD=libm.so.6 A= Z=z; sh -c 'env; echo $LD_PRELOAD' | sort"];
    nice_runs: texts, ["nice", "-n", "5", "sh", "-c", "nice; wc long.txt"];
    nohup_runs: texts, ["nohup", "wc", "long.txt"];
    setsid_runs: texts, ["setsid", "-w", "wc", "long.txt"];
    timeout_kills: texts, ["timeout", "-s", "INT", "2", "sh", "-c", "cat long.txt | wc; sleep 10"];
    stdbuf_preloads: texts, ["stdbuf", "-o0", "head", "-c", "3000", "long.txt"];
    busybox_static: texts, ["busybox", "md5sum", "long.txt"];
    prlimit_of_descriptors: sources, ["sh", "-c", "ulimit -n 16; grep -rc mill src | sort"];
    limit_of_address_space: sources, ["sh", "-c", "ulimit -v 200000; grep -rc mill src | sort"];
    limit_of_file_size: texts, ["bash", "-c", "ulimit -f 100; trap '' XFSZ; cat long.txt > out; echo $?"];
    limit_of_processes: texts, ["sh", "-c", "ulimit -u 4000 2>/dev/null; wc long.txt | cat"];
    limit_of_time: texts, ["sh", "-c", "ulimit -t 20; sha256sum data.bin"];
}

scripts! {
    uniq_comm_and_join: texts, "sh", "cut -d' ' -f3 long.txt | sort | uniq -c; sort a.txt > x; sort b.txt > y; comm x y | wc; join -j1 x y";
    ls_of_own_descriptors: texts, "sh", "ls -l /proc/self/fd 3<a.txt 4<b.txt | awk '{print $9}' | sort -n | tail -n +2 | grep -v '^[5-9]'";
    xargs_in_parallel: sources, "sh", "find src -name '*.txt' | sort | xargs -P 4 -n 5 md5sum | sort" => cold_names();
    tar_extracts: sources, "sh", "tar cf - src | (mkdir out && tar xpf - -C out); tar cf a.tar src && tar tf a.tar | wc -l" => cold_names();
    tar_appends_and_compares: sources, "sh", "tar cf a.tar src/module1 && tar rf a.tar src/module2 && tar df a.tar && tar xf a.tar -O | md5sum; rm a.tar";
    gzip_round_trip: texts, "sh", "gzip -nk9 long.txt && gzip -t long.txt.gz && zcat long.txt.gz | cmp - long.txt";
    xz_round_trip: texts, "sh", "xz -k1 -T2 a.txt data.bin && xz -dc a.txt.xz | cmp - a.txt; xz -l data.bin.xz | wc -l" => needs(&["xz"]);
    zstd_round_trip: texts, "sh", "zstd -q -T2 long.txt data.bin && zstd -qdc long.txt.zst | cmp - long.txt" => needs(&["zstd"]);
    bzip2_round_trip: texts, "sh", "bzip2 -k long.txt && bzcat long.txt.bz2 | cmp - long.txt" => needs(&["bzip2"]);
    patch_applies: versions, "sh", "diff -ru old new > p; cd old && patch -p1 < ../p; cd .. && diff -r old new" => needs(&["patch"]).cold_names();
    git_life: sources, "sh", "git init -q -b main . && git add -A && git commit -qm one && echo more >> src/run.sh && git status --short && \
        git diff && git commit -qam two && git log --format='%H %s' && git gc -q && git count-objects -v && git tag t && git branch b && git checkout -q b && git stash list"
        => env(GIT[0].0, GIT[0].1).env(GIT[1].0, GIT[1].1).env(GIT[2].0, GIT[2].1).env(GIT[3].0, GIT[3].1)
           .env(GIT[4].0, GIT[4].1).env(GIT[5].0, GIT[5].1).normalise(without_index).cold_names();
    make_twice: project, "sh", "make -s && ./prog && make && touch shared.h && make -s -j3 && ./prog" => cold_names();
    pipelines: texts, "sh", "cat a.txt b.txt | tr a-z A-Z | grep MILL | sort -r | head -20 | tee kept | wc -l; cat kept";
    pipe_status: texts, "bash", "cat long.txt | head -1; echo ${PIPESTATUS[*]}; set -o pipefail; false | cat a.txt | wc -l; echo $?";
    here_documents: texts, "sh", "cat - a.txt <<END | wc\n$(cat b.txt)\nEND\nread x y <<E\none two\nE\necho $x";
    subshells: texts, "sh", "(cd / && cat $OLDPWD/a.txt | wc -l; exit 3); echo $?; x=$(head -3 b.txt; echo end); echo \"$x\"; { wc -l; } < a.txt";
    background_jobs: texts, "bash", "for f in a.txt b.txt long.txt; do (wc -c $f > $f.n; exit 7) & p=\"$p $!\"; done; for i in $p; do wait $i; echo $?; done; cat *.n";
    traps: texts, "bash", "trap 'echo usr1 $(wc -l < a.txt)' USR1; trap 'echo leaving' EXIT; trap 'echo chld' CHLD; kill -USR1 $$; cat b.txt | wc; kill -USR1 $$; trap - CHLD; exit 5";
    shared_offsets: texts, "sh", "( cat & cat & wait ) < long.txt" => normalise(byte_order);
    shared_offset_in_turn: texts, "sh", "{ head -c 5000; echo; echo ---; dd bs=1 count=10 status=none; echo; read line; echo \"$line\"; wc -c; } < long.txt";
    process_substitution: versions, "bash", "diff <(cat old/f* | sort) <(cat new/f* | sort); tee >(wc -l > n) < old/f1 | wc; sleep 0.2; cat n";
    coprocess: texts, "bash", "coproc C { while read l; do echo \"got $l\"; done; }; for i in $(head -5 numbers); do echo $i >&${C[1]}; read -u ${C[0]} r; echo $r; done";
    named_pipes: texts, "sh", "mkfifo p q; cat long.txt > p & tr a-z A-Z < p > q & md5sum < q; wait";
    heavy_exec: nothing, "sh", "i=0; while [ $i -lt 100 ]; do /bin/true; i=$((i+1)); done; echo $i";
    other_name: texts, "bash", "(exec -a another sh -c 'echo $0; cat a.txt | wc'); (exec -a -login cat b.txt)";
    shebang: sources, "sh", "src/run.sh one two; printf '#!/usr/bin/env python3\\nprint(open(\"src/run.sh\").read())\\n' > p; chmod +x p; ./p";
    dash_and_bash: sources, "dash", "for s in dash bash; do for f in src/module*/part2.txt; do $s -c 'while read a b; do n=$((${n:-0}+1)); done < $1; echo $n' x $f; done; done" => needs(&["dash", "bash"]);
    loop_over_lines: texts, "bash", "n=0; while read -r a rest; do n=$((n + 10#$a % 7)); done < a.txt; echo $n; mapfile -t l < b.txt; echo ${#l[@]} ${l[7]}";
    redirections: texts, "bash", "exec 3<>a.txt; read -u 3 l; echo \"$l\"; echo NEW >&3; cat <&3 | wc; exec 3>&-; cat nothere 2>&1 >/dev/null; echo err >&2; cat a.txt > o 2>&1; { cat b.txt; cat miss; } &> all";
    killed_by_a_signal: texts, "sh", "sh -c 'cat a.txt | wc; kill -TERM $$'; echo $?; sh -c 'kill -9 $$'; echo $?; kill -SEGV $$";
    stops_and_continues: texts, "bash", "sleep 0.3 & kill -STOP $!; kill -CONT $!; wait $!; echo $?; cat a.txt | wc";
    web_server: sources, "bash", "python3 - <<'E'\nimport http.server, threading, urllib.request, functools\nh = functools.partial(http.server.SimpleHTTPRequestHandler, directory='src')\nh.func.log_message = lambda *a: None\ns = http.server.ThreadingHTTPServer(('127.0.0.1', 0), h)\nthreading.Thread(target=s.serve_forever).start()\nfor m in range(12):\n  for p in range(8):\n    print(len(urllib.request.urlopen(f'http://127.0.0.1:{s.server_port}/module{m}/part{p}.txt').read()))\ns.shutdown()\nE" => needs(&["python3"]);
    web_server_as_a_process: sources, "bash", ": > log; cd src; python3 -u -m http.server --bind 127.0.0.1 0 > ../log 2>/dev/null & p=$!; cd ..; \
        for i in $(seq 400); do port=$(sed -n 's/.*port \\([0-9]*\\).*/\\1/p' log); [ -n \"$port\" ] && break; sleep 0.05; done; \
        for m in 1 2 3; do curl -s http://127.0.0.1:$port/module$m/part1.txt | md5sum; done; kill $p; wait $p; echo $?; rm log" => needs(&["python3", "curl"]);
    certificates: nothing, "sh", "openssl genrsa 1024 2>/dev/null | openssl rsa -check -noout; echo hello | openssl enc -aes-128-cbc -K 00 -iv 00 2>/dev/null | base64" => needs(&["openssl"]);
    cmake_builds: |s: &Scratch| { project(s); s.file("CMakeLists.txt", "cmake_minimum_required(VERSION 3.10)\nproject(p C)\nfile(GLOB c *.c)\nadd_executable(prog ${c})\n"); },
        "sh", "cmake -S . -B build > /dev/null && cmake --build build -j2 > /dev/null && build/prog; rm -rf build" => needs(&["cmake"]);
    ninja_builds: |s: &Scratch| { project(s); s.file("build.ninja", "rule cc\n command = cc -c -o $out $in\nbuild a.o: cc unit1.c\nbuild b.o: cc unit2.c\nbuild c.o: cc main.c\n"); },
        "sh", "ninja -j1 | tail -1; rm .ninja_log .ninja_deps" => needs(&["ninja"]);
    rustc_compiles: |s: &Scratch| { s.file("a.rs", "fn main() { println!(\"{}\", std::fs::read_to_string(\"a.rs\").unwrap().len()); }"); },
        "sh", "HOME=/root rustc -C codegen-units=1 a.rs && ./a; rm -f a" => needs(&["rustc"]);
    socat_moves_data: texts, "sh", "socat -u OPEN:long.txt - | md5sum" => needs(&["socat"]);
    netcat_moves_data: texts, "sh", "nc -l 127.0.0.1 39111 > got & sleep 0.3; nc -N 127.0.0.1 39111 < long.txt; wait; md5sum got" => needs(&["nc"]);
    unordered_output: sources, "sh", "find src -type f | xargs -P 4 -n 3 cat | sort | md5sum" => normalise(line_order);
    process_group: texts, "bash", "set -m; (wc long.txt; ps -o pgid= -p $BASHPID > /dev/null) & wait; jobs; kill -0 -$$ 2>/dev/null || echo gone";
    read_with_a_time_limit: texts, "bash", "sleep 3 | { read -t 0.2 x; echo $?; }; cat a.txt | wc";
    umask_and_modes: texts, "sh", "umask 077; cat a.txt > p; mkdir d; umask 0; cp b.txt q; stat -c '%n %a' p d q";
    chain_of_shells: texts, "sh", "sh -c 'sh -c \"sh -c \\\"cat a.txt | wc -l; exit 9\\\"\"'; echo $?";
}

#[test]
fn a_static_program_is_left_alone() {
    let program = forebay_compat::guests::build_as("raw_syscalls", forebay_compat::guests::Kind::Static);
    let _ = Case::new("a_static_program_is_left_alone", [program.into_os_string(), "data.bin".into()])
        .setup(texts)
        .check();
}
