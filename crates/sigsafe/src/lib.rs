//! What a signal handler, the agent or a forked child may call.
#![no_std]
