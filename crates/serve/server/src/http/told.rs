//! Lines of the access log: one for each request over HTTP that was answered, once its answer has been sent or was broken off.

use std::net::IpAddr;
use std::time::SystemTime;

use forebay_rtsp::server::ConnectionId;

use super::State;
use super::request::Received;
use crate::access_log::{Access, HTTP};
use crate::event_loop::Serving;

/// What the line of a request says.
pub(super) struct Told {
    client: IpAddr,
    user: Option<String>,
    agent: Option<String>,
    method: String,
    url: String,
    /// Without it the request is not answered yet.
    status: Option<u16>,
    /// Of the body, without its head.
    bytes: u64,
}

impl Serving {
    /// A request has come.
    pub(super) fn begin_line(&mut self, id: ConnectionId, received: &Received) {
        if self.access_log.is_none() {
            return;
        }
        let client = self.connections.get(id).map(|connection| connection.client.ip());
        if let Some((talk, client)) = self.web.connections.get_mut(&id).zip(client) {
            let request = &received.request;
            talk.told = Some(Box::new(Told {
                client,
                user: None,
                agent: request.headers.get("User-Agent").map(str::to_owned),
                method: request.method.as_str().to_owned(),
                url: request.url.clone(),
                status: None,
                bytes: 0,
            }));
        }
    }

    /// Says whose password a request has; returns whether the request gets a line.
    pub(crate) fn name_in_line(&mut self, id: ConnectionId, user: Option<&str>) -> bool {
        let talk = self.web.connections.get_mut(&id);
        let Some(told) = talk.and_then(|talk| talk.told.as_mut()) else { return false };
        told.user = user.map(str::to_owned);
        true
    }

    /// A request is answered, with so much of a body as has been sent or waits to be.
    pub(super) fn answered(&mut self, id: ConnectionId, status: u16, bytes: u64) {
        let talk = self.web.connections.get_mut(&id);
        if let Some(told) = talk.and_then(|talk| talk.told.as_mut()) {
            (told.status, told.bytes) = (Some(status), bytes);
        }
    }

    /// Nothing more of the answer is sent, because all has been, or because the connection is gone.
    pub(super) fn end_line(&mut self, id: ConnectionId) {
        let Some(talk) = self.web.connections.get_mut(&id) else { return };
        let Some(told) = talk.told.take() else { return };
        let unsent = match &talk.state {
            State::Body { bytes, at, .. } => (bytes.len() - at) as u64,
            _ => 0,
        };
        let (Some(status), Some(access_log)) = (told.status, &self.access_log) else { return };
        let access = Access {
            client: told.client,
            user: told.user.as_deref(),
            agent: told.agent.as_deref(),
            method: &told.method,
            target: &told.url,
            protocol: HTTP,
            status,
            bytes: told.bytes.saturating_sub(unsent),
            session: None,
        };
        access_log.line(access.line(SystemTime::now()));
    }
}
