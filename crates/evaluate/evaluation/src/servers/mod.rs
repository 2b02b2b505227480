//! Experiments with servers: web, routing and streaming, under load.

pub(crate) mod mediamtx;
pub mod server;
pub mod streaming;
pub mod thesis;
