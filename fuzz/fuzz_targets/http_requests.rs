//! Requests of HTTP: the reader, routes and ranges.
#![no_main]

#[path = "../../crates/serve/server/src/http/any_request.rs"]
mod any_request;
#[path = "../../crates/serve/server/src/http/ranges.rs"]
mod ranges;
#[path = "../../crates/serve/server/src/http/request.rs"]
#[allow(dead_code, reason = "which requests may have a body is of no concern here")]
mod request;
#[path = "../../crates/serve/server/src/http/response.rs"]
#[allow(dead_code, reason = "kinds of bodies are of no concern here")]
mod response;
#[path = "../../crates/serve/server/src/http/route.rs"]
#[allow(dead_code, reason = "what a route leads to is of no concern here")]
mod route;

libfuzzer_sys::fuzz_target!(|data: &[u8]| any_request::bytes(data));
