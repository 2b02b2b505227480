//! Interpreters and what is written for them.

use super::super::case::{Case, Compared, Data, Kind, Need};

const PYTHON: Need = Need::Debian("python3", "/usr/bin/python3");
const NODE: Need = Need::Debian("nodejs", "node");
const JAVA: Need = Need::Debian("default-jdk-headless", "java");
const IN_TOOLS: &str = "{tools}/python/bin/python3";

pub(super) const CASES: &[Case] = &[
    Case::new(Kind::Interpreter, "python-start", &["/usr/bin/python3", "-c", "import re, random; print(1)"], &[PYTHON]),
    Case::new(
        Kind::Interpreter,
        "python-imports",
        &[
            "/usr/bin/python3",
            "-c",
            "import asyncio, email.mime.text, http.server, json, logging.config, sqlite3, ssl, unittest.mock, \
             urllib.request, xml.etree.ElementTree, concurrent.futures, multiprocessing.pool, decimal; print(1)",
        ],
        &[PYTHON],
    ),
    Case::new(
        Kind::Interpreter,
        "python-walk",
        &[
            "/usr/bin/python3",
            "-c",
            "import os\nlines = 0\nfor folder, folders, files in os.walk('tree'):\n  folders.sort()\n  \
             for name in sorted(files):\n    lines += open(os.path.join(folder, name)).read().count('\\n')\nprint(lines)",
        ],
        &[PYTHON],
    )
    .data(&[Data::Tree("tree", 2000)]),
    Case::new(
        Kind::Interpreter,
        "python-compileall",
        &["/usr/bin/python3", "-m", "compileall", "-q", "source"],
        &[PYTHON],
    )
    .prepare(
        "mkdir source; i=0; while [ $i -lt 400 ]; do
            echo \"def value(x):\n    return x * $i\" > source/unit_$i.py; i=$((i + 1)); done",
    )
    .writes(&["source/__pycache__"]),
    Case::new(Kind::Interpreter, "pip-list", &[IN_TOOLS, "-m", "pip", "--disable-pip-version-check", "list"], &[
        Need::Python("pip"),
    ]),
    Case::new(Kind::Interpreter, "pip-check", &[IN_TOOLS, "-m", "pip", "--disable-pip-version-check", "check"], &[
        Need::Python("pandas"),
    ]),
    Case::new(Kind::Interpreter, "node-start", &["node", "-e", "console.log(1)"], &[NODE]),
    Case::new(Kind::Interpreter, "node-typescript", &["node", "{tools}/node/node_modules/typescript/bin/tsc", "--noEmit", "one.ts"], &[
        NODE,
        Need::Node("typescript"),
    ])
    .prepare("echo 'const one: number = 1; console.log(one);' > one.ts"),
    Case::new(Kind::Interpreter, "node-eslint", &["node", "{tools}/node/node_modules/eslint/bin/eslint.js", "source"], &[
        NODE,
        Need::Node("eslint"),
    ])
    .prepare(
        // Settings for version 8 and for later ones.
        "echo '{\"root\": true}' > .eslintrc.json; echo 'module.exports = [{}];' > eslint.config.js
         mkdir source; i=0; while [ $i -lt 100 ]; do echo \"var value = $i;\" > source/unit_$i.js; i=$((i + 1)); done",
    ),
    Case::new(Kind::Interpreter, "node-express", &["node", "-e", "require('{tools}/node/node_modules/express'); require('{tools}/node/node_modules/webpack'); require('{tools}/node/node_modules/lodash'); console.log(1)"], &[
        NODE,
        Need::Node("express"),
        Need::Node("webpack"),
        Need::Node("lodash"),
    ]),
    Case::new(Kind::Interpreter, "java-start", &["java", "-Xshare:auto", "-version"], &[JAVA]),
    Case::new(Kind::Interpreter, "java-jar", &["java", "-jar", "one.jar"], &[JAVA])
        .prepare(
            "printf 'import java.nio.file.*; public class One { public static void main(String[] a) throws Exception {\n\
             long sum = 0; for (int i = 0; i < 300; i++) { Class<?> c = Class.forName(\"Unit\" + i); sum += c.getName().length(); }\n\
             System.out.println(sum); } }' > One.java
             i=0; while [ $i -lt 300 ]; do echo \"class Unit$i { int value = $i; }\" >> One.java; i=$((i + 1)); done
             javac One.java; printf 'Main-Class: One\\n' > manifest; jar cfm one.jar manifest *.class; rm *.class",
        ),
    Case::new(Kind::Interpreter, "ruby", &["ruby", "-e", "require 'json'; require 'net/http'; require 'erb'; require 'set'; require 'optparse'; require 'yaml'; puts 1"], &[
        Need::Debian("ruby", "ruby"),
    ]),
    Case::new(Kind::Interpreter, "perl", &["perl", "-ne", "$n{$1}++ while /([a-z]+_[a-z]+)/g; END { print scalar(keys %n), \"\\n\" }", "text"], &[
        Need::Debian("perl", "perl"),
    ])
    .data(&[Data::Text("text", 8 << 20)]),
    Case::new(Kind::Interpreter, "perl-modules", &["perl", "-e", "use IO::Socket; use File::Find; use Pod::Usage; use Encode; use Storable; use POSIX; use Time::Local; my $n = 0; find(sub { $n++ }, 'tree'); print \"$n\\n\""], &[
        Need::Debian("perl", "perl"),
    ])
    .data(&[Data::Tree("tree", 3000)]),
    Case::new(Kind::Interpreter, "php", &["php", "-r", "$n = 0; foreach (new RecursiveIteratorIterator(new RecursiveDirectoryIterator('tree', FilesystemIterator::SKIP_DOTS)) as $file) { $n += strlen(file_get_contents($file)); } echo $n;"], &[
        Need::Debian("php-cli", "php"),
    ])
    .data(&[Data::Tree("tree", 1500)])
    .compared(Compared::AllButMessages),
];
