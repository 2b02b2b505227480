//! Relocatable objects with references to each other and debugging information, as a kernel is linked from.
//!
//! The modules are generated as assembly, which GNU `as` turns into real objects. `as` comes with the same package as the
//! linker and takes a few milliseconds a module; a compiler would take ten times as long.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::Error;
use crate::harness::interrupt::Interrupt;
use crate::harness::random::Random;

const FUNCTIONS_MEDIAN: f64 = 18.0;
const FUNCTIONS_SPREAD: f64 = 0.7;
const FUNCTIONS_MIN: usize = 6;
const FUNCTIONS_MAX: usize = 60;

const WORDS: [&str; 24] = [
    "alloc", "bind", "cache", "commit", "device", "entry", "filter", "flush", "handle", "index", "journal",
    "lookup", "map", "notify", "page", "queue", "range", "release", "route", "scan", "sync", "table",
    "update", "verify",
];

/// The names of `count` objects in the order they are linked.
pub(crate) fn names(count: usize) -> Vec<String> {
    (0..count).map(|module| format!("module_{module:04}.o")).collect()
}

/// The symbol that an executable made of the objects starts at.
pub(crate) fn entry() -> String {
    symbol(0, 0)
}

/// Puts `count` objects into `folder`, which must exist.
pub(crate) fn write(folder: &Path, count: usize, interrupt: &Interrupt) -> Result<(), Error> {
    let next = AtomicUsize::new(0);
    let assemble_share = || loop {
        let module = next.fetch_add(1, Ordering::Relaxed);
        if module >= count {
            return Ok(());
        }
        interrupt.check()?;
        assemble(&folder.join(&names(count)[module]), &assembly(module, count))?;
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(assemble_share)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("an assembling thread does not panic"))
    })
}

fn assemble(object: &Path, assembly: &str) -> Result<(), Error> {
    let command = format!("as -o {}", object.display());
    let start = |source| Error::Start { command: command.clone(), source };
    let mut child = Command::new("as")
        .arg("-o")
        .arg(object)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => Error::Missing { program: "as", package: "binutils" },
            _ => start(source),
        })?;
    // An assembler that ends before it has read everything tells why by its status.
    let _ = child.stdin.take().expect("it was piped").write_all(assembly.as_bytes());
    let output = child.wait_with_output().map_err(start)?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr).chars().take(600).collect();
    Err(Error::Failed { command, status: output.status.to_string(), stderr })
}

fn symbol(module: usize, function: usize) -> String {
    let word = |number: usize| WORDS[number % WORDS.len()];
    format!("{}_{}_{module:04}_{function:02}", word(module * 7 + function), word(module + function * 5 + 3))
}

/// The number of functions in a module is known without generating it, so that others can call them.
fn functions_of(module: usize) -> usize {
    let mut random = Random::new(module as u64 ^ 0x5eed);
    (random.log_normal(FUNCTIONS_MEDIAN, FUNCTIONS_SPREAD) as usize).clamp(FUNCTIONS_MIN, FUNCTIONS_MAX)
}

/// The text of one module: code, read-only and writable data, unwind tables, DWARF 4 debugging information.
fn assembly(module: usize, modules: usize) -> String {
    let mut writer = Assembly {
        random: Random::new(module as u64),
        module,
        modules,
        text: String::with_capacity(128 * 1024),
        strings: String::new(),
        string_count: 0,
        debug: String::new(),
        debug_names: Vec::new(),
        line: 10,
    };
    writer.write();
    writer.text
}

struct Assembly {
    random: Random,
    module: usize,
    modules: usize,
    text: String,
    strings: String,
    string_count: usize,
    debug: String,
    debug_names: Vec<String>,
    line: usize,
}

/// One line of assembly; writing to a `String` cannot fail.
macro_rules! line {
    ($text:expr, $($argument:tt)*) => {
        let _ = writeln!($text, $($argument)*);
    };
}

impl Assembly {
    fn write(&mut self) {
        line!(self.text, "\t.file \"module_{:04}.c\"", self.module);
        line!(self.text, "\t.file 1 \"module_{:04}.c\"", self.module);
        line!(self.text, "\t.text\n.Ltext_start:");
        let functions = functions_of(self.module);
        for function in 0..functions {
            self.function(function);
        }
        line!(self.text, ".Ltext_end:");
        self.data(functions);
        self.debug_sections();
        line!(self.text, "\t.section .note.GNU-stack,\"\",@progbits");
    }

    fn function(&mut self, function: usize) {
        let name = symbol(self.module, function);
        line!(self.text, "\t.p2align 4\n\t.globl {name}\n\t.type {name}, @function\n{name}:");
        line!(self.text, "\t.loc 1 {} 1\n\t.cfi_startproc", self.line);
        line!(self.text, "\tpushq %rbx\n\t.cfi_def_cfa_offset 16\n\t.cfi_offset 3, -16\n\tmovq %rdi, %rbx");
        let first_line = self.line;
        for block in 0..2 + self.random.below(10) {
            self.line += 1 + self.random.below(4);
            line!(self.text, "\t.loc 1 {} {}", self.line, 2 + self.random.below(20));
            self.block(function, block);
        }
        line!(
            self.text,
            "\tpopq %rbx\n\t.cfi_def_cfa_offset 8\n\tret\n\t.cfi_endproc\n\t.size {name}, .-{name}"
        );
        line!(self.text, ".Lend_{function}:");
        self.debug_function(&name, function, first_line);
        self.line += 3;
    }

    fn block(&mut self, function: usize, block: usize) {
        let number = self.random.below(1 << 16);
        let table = self.module;
        match self.random.below(6) {
            0 | 1 => {
                let module = self.random.below(self.modules);
                let callee = symbol(module, self.random.below(functions_of(module)));
                line!(self.text, "\tmovq %rbx, %rdi\n\tmovl ${number}, %esi\n\tcall {callee}");
            }
            2 => {
                let string = self.string();
                line!(self.text, "\tleaq .Lstring_{string}(%rip), %rdi\n\tmovl %eax, {}(%rbx)", number % 256);
            }
            3 => {
                line!(self.text, "\tcmpl ${number}, 16(%rbx)\n\tjle .Lskip_{function}_{block}");
                line!(
                    self.text,
                    "\timull $37, 8(%rbx), %eax\n\taddl %eax, 24(%rbx)\n.Lskip_{function}_{block}:"
                );
            }
            4 => {
                line!(
                    self.text,
                    "\tmovq table_{table:04}+{}(%rip), %rax\n\txorq %rax, 32(%rbx)",
                    number % 8 * 8
                );
            }
            _ => {
                line!(self.text, "\tmovl state_{table:04}(%rip), %edx\n\tleal 1(%rdx,%rax,4), %edx");
                line!(self.text, "\tmovl %edx, state_{table:04}(%rip)");
            }
        }
    }

    /// A message, now and then one that other modules have too, so that the linker has something to merge.
    fn string(&mut self) -> usize {
        let words = [*self.random.pick(&WORDS), *self.random.pick(&WORDS)];
        let shared = self.random.below(3) == 0;
        let number = if shared { self.random.below(8) } else { self.module * 1000 + self.string_count };
        line!(
            self.strings,
            ".Lstring_{}:\n\t.string \"{}: cannot {} %d ({number})\\n\"",
            self.string_count,
            words[0],
            words[1]
        );
        self.string_count += 1;
        self.string_count - 1
    }

    fn data(&mut self, functions: usize) {
        let module = self.module;
        line!(self.text, "\t.section .rodata.str1.1,\"aMS\",@progbits,1\n{}", self.strings);
        line!(
            self.text,
            "\t.data\n\t.p2align 5\n\t.globl table_{module:04}\n\t.type table_{module:04}, @object"
        );
        line!(self.text, "table_{module:04}:");
        for entry in 0..8 + self.random.below(24) {
            line!(self.text, "\t.quad {}\n\t.quad {entry}", symbol(module, self.random.below(functions)));
        }
        line!(self.text, "\t.size table_{module:04}, .-table_{module:04}");
        line!(self.text, "\t.local state_{module:04}\n\t.comm state_{module:04},64,32");
    }

    /// The number of a name in `.debug_str`.
    fn debug_name(&mut self, name: String) -> usize {
        self.debug_names.push(name);
        self.debug_names.len() - 1
    }

    fn debug_function(&mut self, name: &str, function: usize, first_line: usize) {
        let label = self.debug_name(name.to_owned());
        line!(self.debug, "\t.uleb128 2\n\t.long .Lname_{label}\n\t.byte 1\n\t.value {first_line}");
        line!(self.debug, "\t.quad {name}\n\t.quad .Lend_{function}-{name}");
        for variable in 0..1 + self.random.below(8) {
            let word = *self.random.pick(&WORDS);
            let name = if variable < 2 { word.to_owned() } else { format!("{word}_{function}_{variable}") };
            let label = self.debug_name(name);
            line!(
                self.debug,
                "\t.uleb128 3\n\t.long .Lname_{label}\n\t.byte 1\n\t.value {}",
                first_line + variable
            );
            line!(self.debug, "\t.uleb128 2\n\t.byte 0x91\n\t.sleb128 -{}", 8 * (variable % 7 + 1));
        }
        line!(self.debug, "\t.byte 0");
    }

    /// DWARF 4, sections 7.5 (information), 7.20 (address ranges). The line table is made by the assembler.
    fn debug_sections(&mut self) {
        let producer = self.debug_name("GNU AS".to_owned());
        let unit = self.debug_name(format!("module_{:04}.c", self.module));
        let folder = self.debug_name("/usr/src/modules".to_owned());
        line!(
            self.text,
            "\t.section .debug_info,\"\",@progbits\n.Linfo:\n\t.long .Linfo_end-.Linfo_start\n.Linfo_start:"
        );
        line!(self.text, "\t.value 4\n\t.long .Labbreviations\n\t.byte 8");
        line!(
            self.text,
            "\t.uleb128 1\n\t.long .Lname_{producer}\n\t.byte 12\n\t.long .Lname_{unit}\n\t.long .Lname_{folder}"
        );
        line!(self.text, "\t.quad .Ltext_start\n\t.quad .Ltext_end-.Ltext_start\n\t.long .Llines");
        line!(self.text, "{}\t.byte 0\n.Linfo_end:", self.debug);
        self.abbreviations();
        line!(
            self.text,
            "\t.section .debug_aranges,\"\",@progbits\n\t.long 44\n\t.value 2\n\t.long .Linfo\n\t.byte 8, 0\n\t.value 0, 0"
        );
        line!(self.text, "\t.quad .Ltext_start, .Ltext_end-.Ltext_start, 0, 0");
        line!(self.text, "\t.section .debug_line,\"\",@progbits\n.Llines:");
        line!(self.text, "\t.section .debug_str,\"MS\",@progbits,1");
        for (number, name) in self.debug_names.iter().enumerate() {
            line!(self.text, ".Lname_{number}:\n\t.string \"{name}\"");
        }
    }

    fn abbreviations(&mut self) {
        const COMPILE_UNIT: (u8, &[(u8, u8)]) = (
            0x11,
            &[
                (0x25, 0x0e),
                (0x13, 0x0b),
                (0x03, 0x0e),
                (0x1b, 0x0e),
                (0x11, 0x01),
                (0x12, 0x07),
                (0x10, 0x17),
            ],
        );
        const SUBPROGRAM: (u8, &[(u8, u8)]) =
            (0x2e, &[(0x03, 0x0e), (0x3a, 0x0b), (0x3b, 0x05), (0x11, 0x01), (0x12, 0x07)]);
        const VARIABLE: (u8, &[(u8, u8)]) = (0x34, &[(0x03, 0x0e), (0x3a, 0x0b), (0x3b, 0x05), (0x02, 0x18)]);
        line!(self.text, "\t.section .debug_abbrev,\"\",@progbits\n.Labbreviations:");
        for (number, ((tag, attributes), children)) in
            [(COMPILE_UNIT, 1), (SUBPROGRAM, 1), (VARIABLE, 0)].into_iter().enumerate()
        {
            line!(self.text, "\t.uleb128 {}\n\t.uleb128 {tag}\n\t.byte {children}", number + 1);
            for (attribute, form) in attributes {
                line!(self.text, "\t.uleb128 {attribute}\n\t.uleb128 {form}");
            }
            line!(self.text, "\t.byte 0, 0");
        }
        line!(self.text, "\t.byte 0");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_always_the_same_text() {
        assert_eq!(assembly(5, 40), assembly(5, 40));
        assert_ne!(assembly(5, 40), assembly(6, 40));
    }

    #[test]
    fn symbols_are_unique() {
        let mut symbols: Vec<String> = (0..600)
            .flat_map(|module| (0..functions_of(module)).map(move |function| symbol(module, function)))
            .collect();
        let all = symbols.len();
        symbols.sort();
        symbols.dedup();
        assert_eq!(symbols.len(), all);
    }

    #[test]
    fn the_objects_link_to_an_executable() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), 12, &Interrupt::watch()).unwrap();
        let linked = Command::new("ld")
            .args(["-o", "linked", "-e", &entry()])
            .args(names(12))
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(linked.status.success(), "{}", String::from_utf8_lossy(&linked.stderr));
        assert!(linked.stderr.is_empty(), "{}", String::from_utf8_lossy(&linked.stderr));
    }
}
