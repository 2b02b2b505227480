//! Numbers in files and tables, with the packages that most people read them with.

use super::super::case::{Case, Data, Kind, Need};

const IN_TOOLS: &str = "{tools}/python/bin/python3";

/// A table of 200,000 rows.
const TABLE: &str = "gawk 'BEGIN { print \"id,name,value\"; for (i = 0; i < 200000; i++) print i \",name\" i * 7919 % 10007 \",\" i * 31 % 997 }' > data.csv";

const fn python(name: &'static str, command: &'static [&'static str], needs: &'static [Need]) -> Case {
    Case::new(Kind::Science, name, command, needs)
}

pub(super) const CASES: &[Case] = &[
    python("numpy-memmap", &[
        IN_TOOLS,
        "-c",
        "import numpy\narray = numpy.memmap('array', dtype='u8', mode='r')\n\
         at = (numpy.arange(1200, dtype='u8') * 1048573) % len(array)\nprint(sum(int(array[i]) & 255 for i in at))",
    ], &[Need::Python("numpy")])
    .data(&[Data::Random("array", 256)]),
    python("pandas-csv", &[
        IN_TOOLS,
        "-c",
        "import pandas\ntable = pandas.read_csv('data.csv')\nprint(table.groupby('name').value.sum().head())",
    ], &[Need::Python("pandas"), super::GAWK])
    .prepare(TABLE),
    python("polars-csv", &[
        IN_TOOLS,
        "-c",
        "import polars\ntable = polars.read_csv('data.csv')\nprint(table['value'].sum(), table.height)",
    ], &[Need::Python("polars"), super::GAWK])
    .prepare(TABLE),
    python("h5py", &[
        IN_TOOLS,
        "-c",
        "import h5py\nwith h5py.File('data.h5') as file:\n  print(sum(float(file[name][0, 0]) for name in file))",
    ], &[Need::Python("h5py")])
    .prepare(HDF5),
    Case::new(Kind::Science, "h5dump", &["h5dump", "-A", "data.h5"], &[
        Need::Debian("hdf5-tools", "h5dump"),
        Need::Python("h5py"),
    ])
    .prepare(HDF5),
];

/// Five hundred arrays in one file.
const HDF5: &str = "{tools}/python/bin/python3 -c \"
import h5py, numpy
with h5py.File('data.h5', 'w') as file:
    for i in range(500):
        made = file.create_dataset('array%03d' % i, data=numpy.full((64, 64), i, dtype='f8'), chunks=(16, 64))
        made.attrs['unit'] = 'm' * 300
\"";
