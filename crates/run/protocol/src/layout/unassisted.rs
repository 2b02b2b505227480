//! Why processes run without speculation, and which features of the kernel they found missing.

/// Why a program runs without an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Unassisted {
    /// No dynamic loader: a preloaded library cannot be.
    Static = 0,
    /// Set-user-id, set-group-id or with capabilities: the loader ignores preloads.
    Privileged,
    /// Not of this machine's architecture.
    OtherArchitecture,
    /// Another C library than glibc.
    OtherLibc,
    /// The agent's file cannot be reached from the program's root directory.
    AgentUnreachable,
    /// Earlier processes of this executable gained nothing; another one has an agent now and then.
    NoGain,
    /// The environment was too large to extend or asks the loader for a report, or the file could not be examined.
    NotExamined,
    /// A library of it, an address sanitizer, refuses to be loaded after another.
    Sanitized,
    /// Its address space is limited: the agent would take a part.
    Limited,
    /// It has given up rights that the supervisor has, and cannot open the supervisor's memory.
    RightsGivenUp,
}

impl Unassisted {
    /// Number of reasons.
    pub const COUNT: usize = 10;
}

/// Why an agent that was loaded went to Off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Off {
    /// The supervisor's memory could not be opened or mapped.
    NoChannel = 0,
    /// All slots were taken.
    NoSlot,
    /// The speculator could not be jailed.
    NoJail,
    /// fork was refused.
    NoFork,
    /// The program has its stack in shared memory, or a process holds leases.
    Unsafe,
    /// The supervisor switched speculation off.
    Disabled,
    /// The program confines itself with seccomp, or gives up the time-stamp counter: the agent's own calls, or looks at the
    /// counter, could be its death.
    Confined,
    /// The program has more shared memory than a speculator may make private.
    SharedMemory,
    /// A mapping of the program's refers to an open file that the program has locked: a copy of it would keep the lock.
    MappedLock,
    /// The program had System V shared memory attached. There is no fork meanwhile.
    SystemV,
    /// The program has huge pages of the system's pool, which would miss those that a copy keeps.
    HugePages,
    /// The program adopts orphans, is in another namespace, or is told of forks or of every file that is opened.
    Visible,
    /// The kernel grants no more memory than there is, and the program could miss what a copy of it counts for.
    StrictMemory,
    /// The program has opened a file with O_DIRECT: a fork during a direct read may lose what it brings (open(2)).
    Direct,
}

impl Off {
    /// Number of reasons.
    pub const COUNT: usize = 14;
}

/// Bits of [`super::Header::missing`].
pub mod feature {
    /// libc's system-call sites could not be patched; symbols are interposed.
    pub const PATCHING: u32 = 1 << 0;
    /// seccomp filters.
    pub const SECCOMP: u32 = 1 << 1;
    /// Landlock (belt and braces of the jail).
    pub const LANDLOCK: u32 = 1 << 2;
    /// `preadv2` with `RWF_NOWAIT`.
    pub const RWF_NOWAIT: u32 = 1 << 3;
    /// `openat2` with `RESOLVE_CACHED`.
    pub const RESOLVE_CACHED: u32 = 1 << 4;
    /// `cachestat`.
    pub const CACHESTAT: u32 = 1 << 5;
    /// A readable `/proc` of the speculator itself.
    pub const PROC: u32 = 1 << 6;
    /// Idle scheduling.
    pub const SCHED_IDLE: u32 = 1 << 7;
    /// Page maps, of the speculator and of its original, and `PAGEMAP_SCAN` of them.
    pub const PAGEMAP: u32 = 1 << 8;
    /// `userfaultfd` with signals.
    pub const USERFAULTFD: u32 = 1 << 9;
    /// Software events of `perf_event_open`.
    pub const PERF_EVENTS: u32 = 1 << 10;
    /// A control group that limits memory.
    pub const MEMORY_GROUP: u32 = 1 << 11;
    /// Pressure stall information of memory.
    pub const PSI: u32 = 1 << 12;
    /// Swap.
    pub const SWAP: u32 = 1 << 13;
    /// Names in bit order, for people.
    pub const NAMES: [&str; 14] = [
        "patching of libc",
        "seccomp",
        "landlock",
        "RWF_NOWAIT",
        "RESOLVE_CACHED",
        "cachestat",
        "/proc",
        "SCHED_IDLE",
        "PAGEMAP_SCAN",
        "userfaultfd",
        "perf events",
        "control group of memory",
        "PSI",
        "swap",
    ];
}
