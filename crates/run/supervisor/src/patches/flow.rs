//! Follows the registers through one function.

use std::collections::BTreeMap;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, OpKind};

use super::arrivals::Arrivals;
use super::registers::Registers;

/// Times that a function is gone through at most. Four are usual; each nesting of loops can add one.
const PASSES_MAX: usize = 24;

/// The target of a direct jump or call.
pub fn direct_target(instruction: &Instruction) -> Option<u64> {
    matches!(instruction.op0_kind(), OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64)
        .then(|| instruction.near_branch_target())
}

/// What is known so far at the targets of jumps. One that is not in it has not been reached yet.
type Joins = BTreeMap<u64, Registers>;

/// Outcome of going through a function.
struct Pass {
    /// Something in [`Joins`] did.
    changed: bool,
    /// Before the end, on demand.
    stopped: bool,
}

/// A function to go through: its first address, its bytes, and where control may arrive in it other than at its
/// start and by its own direct jumps. Anything may be in the registers at such an entry.
pub struct Function<'a> {
    pub start: u64,
    pub code: &'a [u8],
    pub entries: &'a Arrivals,
}

impl Function<'_> {
    /// Calls `visit` with each instruction that can be reached, in order of address, and with what is known of the
    /// registers before it.
    pub fn each_instruction(&self, mut visit: impl FnMut(&Instruction, &Registers)) {
        let mut joins = Joins::default();
        let settled = (0..PASSES_MAX).any(|_| !self.pass(&mut joins, |_, _| false).changed);
        self.pass(&mut joins, |instruction, registers| {
            visit(instruction, if settled { registers } else { &Registers::UNKNOWN });
            false
        });
    }

    /// Whether `test` is true of an instruction that can be reached. It must not become false by knowing less.
    pub fn any_instruction(&self, mut test: impl FnMut(&Instruction, &Registers) -> bool) -> bool {
        let mut joins = Joins::default();
        // What is known only ever shrinks from pass to pass, so that it is right to stop at the first finding.
        for _ in 0..PASSES_MAX {
            match self.pass(&mut joins, &mut test) {
                Pass { stopped: true, .. } => return true,
                Pass { changed: false, .. } => return false,
                Pass { changed: true, .. } => {}
            }
        }
        self.pass(&mut joins, |instruction, _| test(instruction, &Registers::UNKNOWN)).stopped
    }

    /// Goes through the function once, or until `stop`.
    fn pass(&self, joins: &mut Joins, mut stop: impl FnMut(&Instruction, &Registers) -> bool) -> Pass {
        let mut info = InstructionInfoFactory::new();
        let mut decoder = Decoder::with_ip(64, self.code, self.start, DecoderOptions::NONE);
        let mut instruction = Instruction::default();
        let mut changed = false;
        let mut state = Some(Registers::UNKNOWN);
        while decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            if self.entries.has(instruction.ip()) {
                state = Some(Registers::UNKNOWN);
            } else if let Some(join) = joins.get(&instruction.ip()) {
                state = Some(state.map_or(*join, |state| state.meet(join)));
            }
            let Some(registers) = &mut state else { continue };
            if stop(&instruction, registers) {
                return Pass { changed, stopped: true };
            }
            let flow = instruction.flow_control();
            registers.step(&instruction, &mut info);
            if flow != FlowControl::Call
                && let Some(target) = direct_target(&instruction)
            {
                let known = joins.get(&target);
                let met = known.map_or(*registers, |known| known.meet(registers));
                if known != Some(&met) {
                    joins.insert(target, met);
                    changed = true;
                }
            }
            if matches!(
                flow,
                FlowControl::UnconditionalBranch
                    | FlowControl::IndirectBranch
                    | FlowControl::Return
                    | FlowControl::Interrupt
                    | FlowControl::Exception
            ) {
                state = None;
            }
        }
        Pass { changed, stopped: false }
    }
}
