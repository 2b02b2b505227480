//! The calls that have no safe wrapper elsewhere, one concern a file.

mod clock;
mod events;
mod fault_samples;
mod fault_signals;
mod lease_list;
mod mapping;
mod own_code;
mod thread_usage;

pub use self::{
    clock::{simultaneous, simultaneous_at_start, ticks},
    fault_samples::{FaultEvents, Ring},
    fault_signals::{fault_signal_time, has_fault_signals, open_fault_signals, signal_one_in},
    lease_list::{has_looked, start_looking_for_leases},
    mapping::Mapping,
    own_code::{OwnCode, expect},
    thread_usage::{DeviceUse, device_use, processor_time},
};
