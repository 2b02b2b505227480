//! What general-purpose registers hold, as far as straight-line code shows.

use iced_x86::{
    Code, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
};

/// What is known of one register's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// Nothing.
    Unknown,
    /// This very number.
    Constant(u64),
    /// An address that was taken whole, from memory other than the stack or relative to the instruction, as
    /// opposed to one that was calculated.
    Pointer,
}

/// Registers that a called function may change.
const CALLER_SAVED: [Register; 9] = [
    Register::RAX,
    Register::RCX,
    Register::RDX,
    Register::RSI,
    Register::RDI,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
];

/// Registers that `syscall` changes.
const SYSCALL_CHANGES: [Register; 3] = [Register::RAX, Register::RCX, Register::R11];

/// What is known of all registers at one point of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers([Value; 16]);

impl Registers {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self([Value::Unknown; 16]);

    /// What is known where control arrives with either of two states.
    pub fn meet(&self, other: &Self) -> Self {
        let mut both = *self;
        for (value, other) in both.0.iter_mut().zip(other.0) {
            if *value != other {
                *value = Value::Unknown;
            }
        }
        both
    }

    /// What `register` (of 32 or 64 bits) holds.
    pub fn get(&self, register: Register) -> Value {
        let value = index(register).map_or(Value::Unknown, |index| self.0[index]);
        match value {
            _ if register.is_gpr64() => value,
            Value::Constant(number) if register.is_gpr32() => Value::Constant(number & 0xffff_ffff),
            _ => Value::Unknown,
        }
    }

    /// Carries out one instruction.
    pub fn step(&mut self, instruction: &Instruction, info: &mut InstructionInfoFactory) {
        if matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall) {
            let changed =
                if instruction.code() == Code::Syscall { &SYSCALL_CHANGES[..] } else { &CALLER_SAVED };
            for register in changed {
                self.set(*register, Value::Unknown);
            }
            return;
        }
        let result = self.result(instruction);
        for used in info.info(instruction).used_registers() {
            let written = matches!(
                used.access(),
                OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
            );
            if written && let Some(index) = index(used.register()) {
                self.0[index] = Value::Unknown;
            }
        }
        if let Some(value) = result {
            self.set(instruction.op0_register(), value);
        }
    }

    fn set(&mut self, register: Register, value: Value) {
        if let Some(index) = index(register) {
            self.0[index] = value;
        }
    }

    /// The value that the instruction leaves in its first operand, if that is a whole register.
    fn result(&self, instruction: &Instruction) -> Option<Value> {
        let target = instruction.op0_register();
        let narrow = target.is_gpr32();
        if instruction.op0_kind() != OpKind::Register || !(target.is_gpr64() || narrow) {
            return None;
        }
        let source = instruction.op1_register();
        match instruction.mnemonic() {
            Mnemonic::Mov => match instruction.op1_kind() {
                OpKind::Register => Some(match self.get(source) {
                    Value::Constant(number) => Value::Constant(number),
                    Value::Pointer if !narrow => Value::Pointer,
                    _ => Value::Unknown,
                }),
                OpKind::Memory => {
                    Some(if narrow || on_stack(instruction) { Value::Unknown } else { Value::Pointer })
                }
                OpKind::Immediate32 | OpKind::Immediate64 | OpKind::Immediate32to64 => {
                    let number = instruction.immediate(1);
                    Some(Value::Constant(if narrow { number & 0xffff_ffff } else { number }))
                }
                _ => None,
            },
            Mnemonic::Xor | Mnemonic::Sub
                if instruction.op1_kind() == OpKind::Register && source == target =>
            {
                Some(Value::Constant(0))
            }
            Mnemonic::Lea if !narrow && instruction.is_ip_rel_memory_operand() => Some(Value::Pointer),
            // How libc takes its guard off a pointer that it keeps in memory.
            Mnemonic::Xor
                if !narrow
                    && instruction.op1_kind() == OpKind::Memory
                    && instruction.segment_prefix() == Register::FS
                    && self.get(target) == Value::Pointer =>
            {
                Some(Value::Pointer)
            }
            Mnemonic::Ror | Mnemonic::Rol if !narrow && self.get(target) == Value::Pointer => {
                Some(Value::Pointer)
            }
            _ => None,
        }
    }
}

/// Whether the memory operand may be on the stack, where anything calculated may have been put aside.
pub fn on_stack(instruction: &Instruction) -> bool {
    let frame = |register: Register| matches!(register.full_register(), Register::RSP | Register::RBP);
    frame(instruction.memory_base()) || frame(instruction.memory_index())
}

fn index(register: Register) -> Option<usize> {
    let full = register.full_register();
    full.is_gpr64().then(|| full as usize - Register::RAX as usize)
}
