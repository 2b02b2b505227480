//! Databases in files.

use super::super::case::{Case, Compared, Kind, Need};

const SQLITE: &[Need] = &[Need::Debian("sqlite3", "sqlite3")];
const POSTGRES: &[Need] = &[
    Need::Debian("postgresql-15", "/usr/lib/postgresql/15/bin/postgres"),
    Need::Debian("util-linux", "setpriv"),
];
const IN_TOOLS: &str = "{tools}/python/bin/python3";

/// Two tables of 300,000 rows, the second in another order, with an index.
const TABLES: &str = "sqlite3 data.db \"
    create table items(id integer primary key, name text, value integer);
    create table orders(id integer primary key, item integer, amount integer);
    with recursive n(i) as (select 1 union all select i + 1 from n where i < 300000)
        insert into items select i, printf('item %d with a name of some length %d', i, i * 7919), i * 7919 % 100003 from n;
    with recursive n(i) as (select 1 union all select i + 1 from n where i < 300000)
        insert into orders select i, i * 7919 % 300000, i % 97 from n;
    create index by_value on items(value); create index by_item on orders(item); vacuum;\"";

/// A cluster with a table, owned by a user that may run the server.
const CLUSTER: &str = "as='setpriv --reuid=65534 --regid=65534 --clear-groups'; mkdir cluster; chown 65534:65534 cluster
    $as /usr/lib/postgresql/15/bin/initdb -D cluster -A trust --no-sync >/dev/null
    printf \"create table items as select i as id, md5(i::text) as name, i * 7919 %% 100003 as value from generate_series(1, 150000) i;\\n\
        create index by_value on items(value);\\ncheckpoint;\\n\" |
        $as /usr/lib/postgresql/15/bin/postgres --single -D cluster postgres >/dev/null";

/// Runs a query without a server.
const fn postgres(name: &'static str, command: &'static [&'static str]) -> Case {
    Case::new(Kind::Database, name, command, POSTGRES).prepare(CLUSTER).compared(Compared::Files)
}

pub(super) const CASES: &[Case] = &[
    Case::new(Kind::Database, "sqlite-scan", &["sqlite3", "data.db", "select count(*), sum(length(name)) from items"], SQLITE)
        .prepare(TABLES),
    Case::new(
        Kind::Database,
        "sqlite-lookups",
        &[
            "sqlite3",
            "data.db",
            "with recursive n(i) as (select 1 union all select i + 1 from n where i < 700)
             select sum(length(name)) from n, items where id = i * 104729 % 300000",
        ],
        SQLITE,
    )
    .prepare(TABLES),
    Case::new(
        Kind::Database,
        "sqlite-join",
        &[
            "sqlite3",
            "data.db",
            "select count(*), sum(amount) from items join orders on item = items.id where value between 500 and 1500",
        ],
        SQLITE,
    )
    .prepare(TABLES),
    Case::new(Kind::Database, "sqlite-dump", &["sqlite3", "data.db", ".dump"], SQLITE).prepare(TABLES),
    Case::new(Kind::Database, "lmdb-dump", &["mdb_dump", "-p", "store"], &[Need::Debian("lmdb-utils", "mdb_dump")])
        .prepare(
            "mkdir store; { printf 'VERSION=3\\nformat=print\\ntype=btree\\nmapsize=268435456\\nHEADER=END\\n'
             i=0; while [ $i -lt 250000 ]; do printf ' key%08d\\n value %d and more of it, so that pages fill\\n' $i $i; i=$((i + 1)); done
             echo DATA=END; } | mdb_load store",
        ),
    Case::new(
        Kind::Database,
        "lmdb-lookups",
        &[
            IN_TOOLS,
            "-c",
            "import lmdb\nstore = lmdb.open('store', readonly=True, lock=False, max_dbs=0)\nwith store.begin() as reads:\n  \
             print(sum(len(reads.get(b'%08d' % (i * 104729 % 100000))) for i in range(1500)))",
        ],
        &[Need::Python("lmdb")],
    )
    .prepare(
        "{tools}/python/bin/python3 -c \"
import lmdb
store = lmdb.open('store', map_size=1 << 28)
with store.begin(write=True) as writes:
    for i in range(100000): writes.put(b'%08d' % i, b'x' * 400)
\"",
    ),
    Case::new(
        Kind::Database,
        "duckdb",
        &[
            IN_TOOLS,
            "-c",
            "import duckdb\nbase = duckdb.connect('data.duckdb', read_only=True)\n\
             print(base.execute('select value % 10 as digit, count(*), sum(id) from items group by digit order by digit').fetchall())",
        ],
        &[Need::Python("duckdb")],
    )
    .prepare(
        "{tools}/python/bin/python3 -c \"
import duckdb
base = duckdb.connect('data.duckdb')
base.execute('create table items as select i as id, md5(i::varchar) as name, i * 7919 % 100003 as value from range(500000) t(i)')
base.close()
\"",
    ),
    postgres("postgres-scan", &[
        "sh",
        "-c",
        "echo 'select count(*), sum(length(name)) from items' | setpriv --reuid=65534 --regid=65534 --clear-groups \
         /usr/lib/postgresql/15/bin/postgres --single -D cluster postgres",
    ]),
    postgres("postgres-index", &[
        "sh",
        "-c",
        "echo 'select sum(length(name)) from items where value between 500 and 1500' | \
         setpriv --reuid=65534 --regid=65534 --clear-groups /usr/lib/postgresql/15/bin/postgres --single -D cluster postgres",
    ]),
];
