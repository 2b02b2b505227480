//! Two cameras that are asked by ONVIF clients.
#![allow(dead_code, reason = "each test uses a part")]

use std::sync::Mutex;

use forebay_cameras::onvif::{self, Answer, Asker, Place, PullPoints, Response};
use forebay_cameras::{Plan, Script, Wanted};
use forebay_rtsp::server::Guesses;

use crate::camera_bodies::FILM;

pub const SECOND: u64 = 1_000_000_000;
pub const UNIX_NS: u64 = 1_700_000_000 * SECOND;

/// Two cameras, the wrong passwords that they were asked with, and what they are to tell.
pub struct Cameras {
    pub plan: Plan,
    guesses: Mutex<Guesses>,
    pub pull_points: Mutex<PullPoints>,
}

impl Cameras {
    pub fn new(script: &str) -> Self {
        let script = Script::parse(script).expect("a script");
        let wanted = Wanted { cameras: 2, seed: 1, epoch_unix_ns: UNIX_NS, script };
        Self {
            plan: Plan::new(std::slice::from_ref(&FILM), &wanted).expect("a plan"),
            guesses: Mutex::default(),
            pull_points: Mutex::default(),
        }
    }

    /// What is answered to an operation of the Device service, with a header of the envelope, from an address.
    pub fn ask(&self, namespace: &str, operation: &str, header: &str, from: &str, now_ns: u64) -> Response {
        let body = format!("<{operation} xmlns=\"{namespace}\"/>");
        self.respond("/onvif/device_service", &body, header, from, now_ns)
    }

    /// What is answered at once.
    pub fn respond(&self, path: &str, body: &str, header: &str, from: &str, now_ns: u64) -> Response {
        match self.post(path, body, header, from, now_ns) {
            Answer::Ready(response) => response,
            Answer::Later(_) => panic!("{body} waits"),
        }
    }

    pub fn post(&self, path: &str, body: &str, header: &str, from: &str, now_ns: u64) -> Answer {
        let [http, rtsp] = ["192.0.2.1:80", "192.0.2.1:554"].map(str::to_owned);
        let place = Place { http, rtsp, version: "1".to_owned() };
        let asker = Asker {
            client: from.parse().expect("an address"),
            guesses: &self.guesses,
            pull_points: &self.pull_points,
            now_ns,
            at_ns: now_ns,
            unix_ns: UNIX_NS + now_ns,
        };
        let envelope = format!(
            "<s:Envelope xmlns:s=\"http://www.w3.org/2003/05/soap-envelope\"><s:Header>{header}</s:Header>\
             <s:Body>{body}</s:Body></s:Envelope>"
        );
        onvif::answer(&self.plan, &place, path, &envelope, &asker)
    }
}
