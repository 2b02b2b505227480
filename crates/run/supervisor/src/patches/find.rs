//! Decodes the code of a library and decides which `syscall` instructions can be replaced.

use std::ops::Range;

use forebay_protocol::layout::{CLONE3, Displaced, NUMBER_UNKNOWN};
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, OpKind, Register, RflagsBits};

use super::arrivals::Arrivals;
use super::flow::{self, direct_target};
use super::image::{Function, Image, Segment};
use super::registers::{Value, on_stack};
use super::{PatchError, PatchTable, Site};

/// Bytes of `syscall` itself.
const SYSCALL_LEN: usize = 2;
/// Bytes of `mov eax, NUMBER`.
const LOAD_LEN: usize = 5;
/// The flags that `syscall` keeps and a stub does not.
const ARITHMETIC_FLAGS: u32 =
    RflagsBits::OF | RflagsBits::SF | RflagsBits::ZF | RflagsBits::AF | RflagsBits::CF | RflagsBits::PF;
/// Instructions behind a `syscall` among which these have to be overwritten.
const OVERWRITING_MAX: usize = 8;

/// What became of the `syscall` instructions of a library.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// All that decoding came across, in functions or between them.
    pub syscalls: usize,
    /// Of those, beside an instruction that can be displaced, by which ([`Displaced::ALL`]).
    pub displaceable: [usize; Displaced::ALL.len()],
    /// Left out: in code that belongs to no known function.
    pub outside: usize,
    /// Left out: control may arrive inside the site.
    pub entered: usize,
    /// Left out: what follows may use flags from before.
    pub flags: usize,
    /// Left out: in a function that jumps to a calculated address, or is joined to one that does.
    pub calculated: usize,
    /// Left out: in a function with bytes that are no instruction, or with unreadable landing pads.
    pub unclear: usize,
    /// Functions that jump to a calculated address.
    pub calculating_functions: usize,
}

/// Finds the sites of a library that [`Displaced`] has a form for, whatever they call; see [`super::select`].
///
/// `elf` is the whole file of a shared object for x86-64 with a GNU build-id and an unwind table.
///
/// # Errors
///
/// Whatever is wrong with the file: see [`PatchError`]. It may have any content.
pub fn find(elf: &[u8]) -> Result<PatchTable, PatchError> {
    examine(elf).map(|(table, _)| table)
}

/// [`find`], and how many `syscall` instructions were left out for which reason.
///
/// # Errors
///
/// Those of [`find`].
pub fn examine(elf: &[u8]) -> Result<(PatchTable, Census), PatchError> {
    let image = Image::parse(elf)?;
    let mut survey = Survey::new(&image);
    for segment in image.segments.iter().filter(|segment| segment.executable) {
        survey.segment(&image, segment);
    }
    survey.spread_doubt();
    let mut census = survey.census;
    let mut sites = Vec::new();
    for function in survey.functions.iter().filter(|function| !function.candidates.is_empty()) {
        let candidates = function.candidates.iter();
        let kept: Vec<&Candidate> = match function.doubt {
            Some(Doubt::Unclear) => {
                census.unclear += function.candidates.len();
                continue;
            }
            Some(Doubt::Calculated) => {
                census.calculated += function.candidates.len();
                continue;
            }
            None => candidates.filter(|site| !survey.arrivals.any_in(site.inside())).collect(),
        };
        census.entered += function.candidates.len() - kept.len();
        number(&image, function, &survey.entries, &kept, &mut sites);
    }
    Ok((PatchTable { build_id: image.build_id, sites }, census))
}

/// A `syscall` beside an instruction that can be displaced with it.
#[derive(Clone, Copy)]
struct Candidate {
    address: u64,
    displaced: Displaced,
    /// The number that this instruction loads.
    number: Option<u16>,
}

impl Candidate {
    /// What can be displaced with `syscall`, given the instruction before it and the code behind it.
    fn new(syscall: &Instruction, before: &Instruction, behind: &[u8]) -> Option<Self> {
        if let Some(displaced) = comparison(behind) {
            return Some(Self { address: syscall.ip(), displaced, number: None });
        }
        let number = loaded_number(before)?;
        Some(Self { address: before.ip(), displaced: Displaced::MovEaxNumber, number: Some(number) })
    }

    /// The addresses at which nothing may arrive.
    fn inside(&self) -> Range<u64> {
        self.address + 1..self.address + self.displaced.site_len() as u64
    }
}

/// Why nothing in a function is touched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Doubt {
    Calculated,
    Unclear,
}

struct Surveyed<'data> {
    range: Range<u64>,
    code: &'data [u8],
    doubt: Option<Doubt>,
    candidates: Vec<Candidate>,
    /// It may jump to what a register or the stack holds, which needs a closer look.
    jumps_by_value: bool,
}

impl Surveyed<'_> {
    fn flow<'a>(&'a self, entries: &'a Arrivals) -> flow::Function<'a> {
        flow::Function { start: self.range.start, code: self.code, entries }
    }
}

/// First pass: all instructions, where they can go to, and what is worth a second look.
struct Survey<'data> {
    functions: Vec<Surveyed<'data>>,
    /// Where control may arrive.
    arrivals: Arrivals,
    /// Where it may arrive other than by a direct jump within the same function.
    entries: Arrivals,
    /// Jumps out of a function: its index and the target.
    exits: Vec<(u32, u64)>,
    /// The last instruction of the last function.
    last: Instruction,
    census: Census,
}

impl<'data> Survey<'data> {
    fn new(image: &Image<'data>) -> Self {
        let mut arrivals = Arrivals::new(image.code_span());
        for address in &image.arrivals {
            arrivals.add(*address);
        }
        let entries = arrivals.clone();
        let functions = Vec::with_capacity(image.functions.len());
        Self {
            functions,
            arrivals,
            entries,
            exits: Vec::new(),
            last: Instruction::default(),
            census: Census::default(),
        }
    }

    /// Decodes one segment: its functions, and whatever is between them for the sake of its jumps.
    fn segment(&mut self, image: &Image<'data>, segment: &Segment<'data>) {
        let code = |range: &Range<u64>| {
            &segment.data[(range.start - segment.address) as usize..(range.end - segment.address) as usize]
        };
        let from = image.functions.partition_point(|function| function.range.start < segment.range().start);
        let until = image.functions.partition_point(|function| function.range.start < segment.range().end);
        let mut reached = segment.address;
        for function in &image.functions[from..until] {
            let gap = reached..function.range.start;
            self.gap(gap.start, code(&gap));
            self.function(function, code(&function.range));
            reached = function.range.end;
        }
        let gap = reached..segment.range().end;
        self.gap(gap.start, code(&gap));
    }

    fn gap(&mut self, address: u64, code: &'data [u8]) {
        let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
        let mut instruction = Instruction::default();
        while decoder.can_decode() {
            let before = instruction;
            decoder.decode_out(&mut instruction);
            self.note_arrivals(&instruction, &(0..0));
            if instruction.code() == Code::Syscall {
                self.census.syscalls += 1;
                let behind = &code[(instruction.next_ip() - address) as usize..];
                let is_first = instruction.ip() == address;
                let before = if is_first { self.last } else { before };
                let Some(candidate) = Candidate::new(&instruction, &before, behind) else { continue };
                self.census.displaceable[candidate.displaced as usize] += 1;
                let starts_child = candidate.number == Some(CLONE3) && instruction.len() == SYSCALL_LEN;
                let parted = self.functions.last_mut().filter(|last| is_first && last.range.end == address);
                match parted {
                    // The description of the function ends before the call, because it would be wrong in the child.
                    Some(function) if starts_child && overwrites_flags(behind) => {
                        function.candidates.push(candidate)
                    }
                    _ => self.census.outside += 1,
                }
            }
        }
    }

    fn function(&mut self, function: &Function, code: &'data [u8]) {
        let index = self.functions.len() as u32;
        let range = function.range.clone();
        let mut doubt = function.unclear.then_some(Doubt::Unclear);
        let mut candidates = Vec::new();
        let mut jumps_by_value = false;
        let mut decoder = Decoder::with_ip(64, code, range.start, DecoderOptions::NONE);
        let mut instruction = Instruction::default();
        while decoder.can_decode() {
            let before = instruction;
            decoder.decode_out(&mut instruction);
            if instruction.is_invalid() {
                doubt = Some(Doubt::Unclear);
                continue;
            }
            let target = self.note_arrivals(&instruction, &range);
            match instruction.flow_control() {
                FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch => {
                    if let Some(target) = target.filter(|target| !range.contains(target)) {
                        self.exits.push((index, target));
                    }
                }
                FlowControl::IndirectBranch => jumps_by_value |= goes_by_value(&instruction),
                FlowControl::Call if instruction.code() == Code::Syscall => {
                    self.census.syscalls += 1;
                    let behind = &code[(instruction.next_ip() - range.start) as usize..];
                    if let Some(candidate) = Candidate::new(&instruction, &before, behind) {
                        self.census.displaceable[candidate.displaced as usize] += 1;
                        // A prefix would make it longer than the agent takes it to be.
                        if instruction.len() != SYSCALL_LEN {
                            self.census.entered += 1;
                        } else if candidate.displaced == Displaced::MovEaxNumber && !overwrites_flags(behind)
                        {
                            self.census.flags += 1;
                        } else {
                            candidates.push(candidate);
                        }
                    }
                }
                _ => {}
            }
        }
        self.last = instruction;
        self.functions.push(Surveyed { range, code, doubt, candidates, jumps_by_value });
    }

    /// Notes every address of code that an instruction of the function at `own` mentions. Gives the target of a
    /// direct branch.
    fn note_arrivals(&mut self, instruction: &Instruction, own: &Range<u64>) -> Option<u64> {
        if instruction.is_ip_rel_memory_operand() {
            self.arrivals.add(instruction.ip_rel_memory_address());
            self.entries.add(instruction.ip_rel_memory_address());
        }
        let target = direct_target(instruction)?;
        self.arrivals.add(target);
        if instruction.flow_control() == FlowControl::Call || !own.contains(&target) {
            self.entries.add(target);
        }
        Some(target)
    }

    /// Marks functions that jump to calculated addresses, and those that are one piece of code with them: the
    /// compiler may have split one function in two, which then jump into each other's middle.
    fn spread_doubt(&mut self) {
        for function in self.functions.iter_mut().filter(|function| function.jumps_by_value) {
            if calculates_jumps(function, &self.entries) {
                self.census.calculating_functions += 1;
                function.doubt.get_or_insert(Doubt::Calculated);
            }
        }
        let mut joined: Vec<Vec<u32>> = vec![Vec::new(); self.functions.len()];
        for &(from, target) in &self.exits {
            let after = self.functions.partition_point(|function| function.range.start <= target);
            let Some(index) = after.checked_sub(1) else { continue };
            let function = &self.functions[index].range;
            if function.start != target && function.contains(&target) {
                joined[from as usize].push(index as u32);
                joined[index].push(from);
            }
        }
        let doubtful = |function: &Surveyed<'_>| function.doubt.is_some();
        let mut spreading: Vec<u32> = (0u32..)
            .zip(&self.functions)
            .filter_map(|(index, function)| doubtful(function).then_some(index))
            .collect();
        while let Some(index) = spreading.pop() {
            let doubt = self.functions[index as usize].doubt;
            for neighbour in std::mem::take(&mut joined[index as usize]) {
                let function = &mut self.functions[neighbour as usize];
                if function.doubt.is_none() {
                    function.doubt = doubt;
                    spreading.push(neighbour);
                }
            }
        }
    }
}

/// The displaceable comparison that these bytes begin with. The bytes of each are exactly one instruction.
fn comparison(code: &[u8]) -> Option<Displaced> {
    [Displaced::CmpRaxFffff000, Displaced::CmpRaxFffff001, Displaced::CmpEaxFffff000]
        .into_iter()
        .find(|displaced| code.starts_with(&displaced.site_code(0)[SYSCALL_LEN..displaced.site_len()]))
}

/// The system call's number, if the instruction loads one in the displaceable way.
fn loaded_number(instruction: &Instruction) -> Option<u16> {
    let loads = instruction.code() == Code::Mov_r32_imm32
        && instruction.op0_register() == Register::EAX
        && instruction.len() == LOAD_LEN;
    let number = u16::try_from(instruction.immediate32()).ok()?;
    (loads && u64::from(number) < NUMBER_UNKNOWN).then_some(number)
}

/// Whether the code overwrites all arithmetic flags before it uses any. By the calling convention nothing passes
/// a call or a return in them.
fn overwrites_flags(code: &[u8]) -> bool {
    let mut kept = ARITHMETIC_FLAGS;
    for instruction in Decoder::new(64, code, DecoderOptions::NONE).iter().take(OVERWRITING_MAX) {
        if instruction.is_invalid() || instruction.rflags_read() & kept != 0 {
            return false;
        }
        kept &= !instruction.rflags_modified();
        match instruction.flow_control() {
            _ if kept == 0 => return true,
            FlowControl::Next => {}
            FlowControl::Return | FlowControl::IndirectCall => return true,
            FlowControl::Call => return instruction.code() != Code::Syscall,
            _ => return false,
        }
    }
    false
}

/// Whether an indirect jump takes its target from a register or the stack. Other memory holds only pointers that
/// were relocated, or that an instruction made relative to itself: all of these are noted.
fn goes_by_value(instruction: &Instruction) -> bool {
    match instruction.op0_kind() {
        OpKind::Memory => on_stack(instruction),
        _ => true,
    }
}

/// Second pass over a function with indirect jumps: whether one of them may have calculated its target.
///
/// The first such jump that the function ever makes is reached by the ways that are known, so leaving those out
/// that it opens cannot hide it.
fn calculates_jumps(function: &Surveyed<'_>, entries: &Arrivals) -> bool {
    function.flow(entries).any_instruction(|instruction, registers| {
        instruction.flow_control() == FlowControl::IndirectBranch
            && goes_by_value(instruction)
            && (instruction.op0_kind() != OpKind::Register
                || registers.get(instruction.op0_register()) != Value::Pointer)
    })
}

/// Second pass over a function with sites: which call each makes.
fn number(
    image: &Image<'_>,
    function: &Surveyed<'_>,
    entries: &Arrivals,
    kept: &[&Candidate],
    sites: &mut Vec<Site>,
) {
    let first = sites.len();
    sites.extend(kept.iter().map(|candidate| Site {
        offset: (candidate.address - image.base) as u32,
        displaced: candidate.displaced,
        number: candidate.number,
        within: image.within(candidate.address),
    }));
    let unnumbered = kept.iter().zip(&mut sites[first..]).filter(|(_, site)| site.number.is_none());
    let mut unnumbered = unnumbered.peekable();
    function.flow(entries).each_instruction(|instruction, registers| {
        let here = unnumbered.next_if(|(candidate, _)| candidate.address == instruction.ip());
        if let (Some((_, site)), Value::Constant(number)) = (here, registers.get(Register::EAX)) {
            site.number = u16::try_from(number).ok().filter(|number| u64::from(*number) < NUMBER_UNKNOWN);
        }
    });
}
