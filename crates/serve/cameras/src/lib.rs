//! Cameras that films play: a seed and a script say what each camera sends, and when. No I/O, no clock.
//!
//! # Model
//!
//! A [`Plan`] has the cameras. Each [`Camera`] plays a [`Film`] for ever, on one [`Timeline`] for all of its viewers. The film
//! goes on from a phase of the camera's own, by a clock of its own. Faults are part of the timeline: packets are left out,
//! late or wrong at times that the plan knows.
//!
//! ```text
//!   seed, script --> plan --> camera: name, phase, clock, sources, faults
//!                                |
//!   film: packets without a source, by sample
//!                                v
//!                            timeline --> events: packets, reports, dropped connections
//! ```
//!
//! [`Changes`] are what a camera would notice by itself: motion, signal loss, night. [`onvif`] answers what recorders ask a camera
//! first, and tells them of these.
//!
//! # Chance
//!
//! Each draw is a function of the seed and of what it is for: a camera, a fault, the number of a packet. So a timeline gives
//! the same events wherever it is entered, and a test can ask which packets are lost.
#![forbid(unsafe_code)]

mod alarms;
mod chance;
mod events;
mod faults;
mod film;
pub mod onvif;
mod plan;
mod script;
mod timeline;

pub use alarms::{Alarm, Change, Changes};
pub use events::{Departure, Event, Numbered, What};
pub use film::{Film, Unreadable};
pub use plan::{Camera, Login, Plan, Unplannable, Wanted};
pub use script::{Script, ScriptError};
pub use timeline::Timeline;
