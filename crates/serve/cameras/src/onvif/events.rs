//! The Event service: alarms of cameras, which clients pull (ONVIF Core, section 9). Every alarm is a property of a video source.

use std::sync::PoisonError;

use roxmltree::Node;

use super::pull_points::{Message, Pull, PullPoint};
use super::times::{date, duration_ns, from_now_ns};
use super::{Asked, Fault, Reply, Service, child, escaped, text_below};
use crate::alarms::Alarm;
use crate::plan::{Camera, Plan};

pub(super) const SERVICE: Service = Service {
    namespace: "http://www.onvif.org/ver10/events/wsdl",
    prefix: "tev",
    path: "event_service",
    capabilities: "<tev:Capabilities WSSubscriptionPolicySupport=\"false\" WSPullPointSupport=\"true\" \
                   WSPausableSubscriptionManagerInterfaceSupport=\"false\"/>",
    respond,
};

/// The namespace of what notifications have in common (WS-BaseNotification).
pub(super) const NOTIFICATION: &str = "http://docs.oasis-open.org/wsn/b-2";
/// What stands before the number of a pull point in the last part of its address.
pub(super) const PULL_POINT: &str = "pullpoint-";
/// Operations after which a request that waits at the pull point has more to say.
pub(super) const STIR: &[&str] = &["SetSynchronizationPoint", "Unsubscribe"];

const CONCRETE_SET: &str = "http://www.onvif.org/ver10/tev/topicExpression/ConcreteSet";
const CONCRETE: &str = "http://docs.oasis-open.org/wsn/t-1/TopicExpression/Concrete";

/// How long a request waits that does not say how long.
const WAIT_NS: u64 = 10 * 1_000_000_000;
/// How many messages it gets at most that does not say how many.
const MESSAGES: usize = 100;

fn respond(asked: &Asked<'_>, operation: Node<'_, '_>) -> Option<Result<Reply, Fault>> {
    let reply = match operation.tag_name().name() {
        "GetEventProperties" => Ok(Reply::Body(properties())),
        "CreatePullPointSubscription" => create(asked, operation).map(Reply::Body),
        "PullMessages" => pull(asked, operation).map(Reply::Pull),
        "Renew" => renew(asked, operation).map(Reply::Body),
        "SetSynchronizationPoint" => at_point(asked, PullPoint::tell_states)
            .map(|()| Reply::Body("<tev:SetSynchronizationPointResponse/>".to_owned())),
        "Unsubscribe" => {
            let end = |point: &mut PullPoint, _| point.end();
            at_point(asked, end).map(|()| Reply::Body("<wsnt:UnsubscribeResponse/>".to_owned()))
        }
        _ => return None,
    };
    Some(reply)
}

/// Where an alarm stands among the topics below `tns1:VideoSource`.
fn topic(alarm: Alarm) -> &'static [&'static str] {
    match alarm {
        Alarm::Motion => &["MotionAlarm"],
        Alarm::SignalLoss => &["SignalLoss"],
        Alarm::ImageTooDark => &["ImageTooDark", "ImagingService"],
    }
}

fn properties() -> String {
    const DESCRIPTION: &str = "<tt:MessageDescription IsProperty=\"true\"><tt:Source>\
                               <tt:SimpleItemDescription Name=\"Source\" Type=\"tt:ReferenceToken\"/></tt:Source>\
                               <tt:Data><tt:SimpleItemDescription Name=\"State\" Type=\"xs:boolean\"/></tt:Data>\
                               </tt:MessageDescription>";
    let topics = Alarm::ALL.map(|alarm| {
        topic(alarm).iter().enumerate().rev().fold(String::new(), |inner, (depth, name)| {
            let is_topic = depth + 1 == topic(alarm).len();
            let (attribute, inner) =
                if is_topic { (" wstop:topic=\"true\"", DESCRIPTION) } else { ("", inner.as_str()) };
            format!("<{name}{attribute}>{inner}</{name}>")
        })
    });
    format!(
        "<tev:GetEventPropertiesResponse>\
         <tev:TopicNamespaceLocation>http://www.onvif.org/onvif/ver10/topics/topicns.xml</tev:TopicNamespaceLocation>\
         <wsnt:FixedTopicSet>true</wsnt:FixedTopicSet><wstop:TopicSet><tns1:VideoSource>{}</tns1:VideoSource>\
         </wstop:TopicSet><wsnt:TopicExpressionDialect>{CONCRETE_SET}</wsnt:TopicExpressionDialect>\
         <wsnt:TopicExpressionDialect>{CONCRETE}</wsnt:TopicExpressionDialect>\
         <tev:MessageContentSchemaLocation>http://www.onvif.org/onvif/ver10/schema/onvif.xsd</tev:MessageContentSchemaLocation>\
         </tev:GetEventPropertiesResponse>",
        topics.concat()
    )
}

fn create(asked: &Asked<'_>, operation: Node<'_, '_>) -> Result<String, Fault> {
    let alarms = match child(operation, "Filter") {
        Some(filter) => alarms(filter)?,
        None => Alarm::ALL.to_vec(),
    };
    let lasts_ns = lasts_ns(asked, operation, "InitialTerminationTime")
        .map_err(|why| Fault::of_sender("wsnt:UnacceptableInitialTerminationTimeFault", why))?;
    let camera = asked.camera.map(|camera| camera.number);
    let point = PullPoint::new(camera, asked.allowed.clone(), alarms, asked.asker.at_ns);
    let mut points = asked.asker.pull_points.lock().unwrap_or_else(PoisonError::into_inner);
    let (number, point) = points.add(point, asked.asker.client, asked.asker.at_ns).ok_or_else(|| {
        let why = "there are too many subscriptions: end some, or let them expire";
        Fault::of_sender("wsnt:SubscribeCreationFailedFault", why)
    })?;
    point.last_until(asked.asker.at_ns, lasts_ns);
    Ok(format!(
        "<tev:CreatePullPointSubscriptionResponse><tev:SubscriptionReference><wsa:Address>{}</wsa:Address>\
         </tev:SubscriptionReference><wsnt:CurrentTime>{}</wsnt:CurrentTime>\
         <wsnt:TerminationTime>{}</wsnt:TerminationTime></tev:CreatePullPointSubscriptionResponse>",
        asked.address(&format!("{PULL_POINT}{number}")),
        clock(asked.plan, point, asked.asker.at_ns),
        clock(asked.plan, point, point.ends_ns()),
    ))
}

fn pull(asked: &Asked<'_>, operation: Node<'_, '_>) -> Result<Pull, Fault> {
    let number = |name| text_below(operation, name).filter(|text| !text.is_empty());
    let wait_ns = match number("Timeout") {
        Some(text) => duration_ns(text).ok_or_else(|| bad("Timeout is a duration, such as PT10S"))?,
        None => WAIT_NS,
    };
    let limit = match number("MessageLimit").map(str::parse::<u32>) {
        Some(Ok(limit)) if limit > 0 => limit as usize,
        Some(_) => return Err(bad("MessageLimit is a number above 0")),
        None => MESSAGES,
    };
    let at_ns = asked.asker.at_ns;
    let until_ns = at_point(asked, |point, _| point.await_until(at_ns, wait_ns))?;
    let point = asked.pull_point().unwrap_or_default();
    Ok(Pull::new(point, until_ns, limit, asked.envelope.clone()))
}

fn renew(asked: &Asked<'_>, operation: Node<'_, '_>) -> Result<String, Fault> {
    let lasts_ns = lasts_ns(asked, operation, "TerminationTime")
        .map_err(|why| Fault::of_sender("wsnt:UnacceptableTerminationTimeFault", why))?;
    let times = at_point(asked, |point, at_ns| {
        point.last_until(at_ns, lasts_ns);
        [point.ends_ns(), at_ns].map(|at_ns| clock(asked.plan, point, at_ns))
    });
    let [end, now] = times?;
    Ok(format!(
        "<wsnt:RenewResponse><wsnt:TerminationTime>{end}</wsnt:TerminationTime><wsnt:CurrentTime>{now}</wsnt:CurrentTime>\
         </wsnt:RenewResponse>"
    ))
}

/// Does something at the pull point whose address was asked, at this time. Others' pull points are unknown.
fn at_point<T>(asked: &Asked<'_>, act: impl FnOnce(&mut PullPoint, u64) -> T) -> Result<T, Fault> {
    let mut points = asked.asker.pull_points.lock().unwrap_or_else(PoisonError::into_inner);
    let at_ns = asked.asker.at_ns;
    let camera = asked.camera.map(|camera| camera.number);
    let point = asked.pull_point().and_then(|point| points.get(point, at_ns));
    let point = point.filter(|point| point.is_of(camera, &asked.allowed)).ok_or_else(unknown)?;
    Ok(act(point, at_ns))
}

pub(super) fn unknown() -> Fault {
    let why = "there is no such subscription: it has ended, or was never created here";
    Fault::of_sender("wsrf-rw:ResourceUnknownFault", why)
}

fn bad(why: &str) -> Fault {
    Fault::of_sender("ter:InvalidArgVal", why)
}

/// How long a subscription shall last; `None` where that is left to the camera.
fn lasts_ns(asked: &Asked<'_>, operation: Node<'_, '_>, name: &str) -> Result<Option<u64>, &'static str> {
    let text =
        child(operation, name).and_then(|node| node.text()).map(str::trim).filter(|text| !text.is_empty());
    let why = "a time to come is wanted, such as PT60S or 2026-11-26T20:00:00Z";
    text.map(|text| from_now_ns(text, asked.unix_ns).ok_or(why)).transpose()
}

/// The alarms that a filter lets pass.
fn alarms(filter: Node<'_, '_>) -> Result<Vec<Alarm>, Fault> {
    let mut alarms = Alarm::ALL.to_vec();
    for expression in filter.children().filter(Node::is_element) {
        if expression.tag_name().name() != "TopicExpression" {
            let why = "only topics are filtered: a TopicExpression is wanted";
            return Err(Fault::of_sender("wsnt:InvalidFilterFault", why));
        }
        let dialect = expression.attribute("Dialect").unwrap_or(CONCRETE_SET);
        if ![CONCRETE_SET, CONCRETE].contains(&dialect) {
            let why = format!("topics are told in the dialect {CONCRETE_SET}");
            return Err(Fault::of_sender("wsnt:TopicExpressionDialectUnknownFault", why));
        }
        let wanted = expression.text().unwrap_or_default();
        alarms.retain(|alarm| wanted.split('|').any(|path| is_topic(path.trim(), *alarm)));
    }
    if alarms.is_empty() {
        let why = "no camera has such a topic: GetEventProperties lists the topics";
        return Err(Fault::of_sender("wsnt:TopicNotSupportedFault", why));
    }
    Ok(alarms)
}

/// Whether an alarm is at a path of topics, or below one that ends in `//.`.
fn is_topic(path: &str, alarm: Alarm) -> bool {
    let (path, has_below) = path.strip_suffix("//.").map_or((path, false), |path| (path, true));
    // A prefix is the client's choice.
    let names = path.split('/').map(|name| name.rsplit(':').next().unwrap_or_default());
    let mut own = ["VideoSource"].iter().chain(topic(alarm));
    names.into_iter().all(|name| own.next().is_some_and(|own| *own == name))
        && (has_below || own.next().is_none())
}

/// A time as the clock of a pull point's device shows it.
fn clock(plan: &Plan, point: &PullPoint, at_ns: u64) -> String {
    let camera = point.camera().and_then(|number| plan.numbered(number));
    let unix_ns = match (camera, plan.numbered(1)) {
        (Some(camera), _) => camera.unix_ns(at_ns),
        (None, Some(first)) => first.epoch_unix_ns.saturating_add(at_ns),
        (None, None) => 0,
    };
    date(unix_ns)
}

/// The body of the response to a request that has waited.
pub(super) fn pulled(plan: &Plan, point: &PullPoint, messages: &[Message], at_ns: u64) -> String {
    let messages = messages.iter().filter_map(|message| {
        let camera: &Camera = plan.numbered(message.camera)?;
        Some(format!(
            "<wsnt:NotificationMessage><wsnt:Topic Dialect=\"{CONCRETE_SET}\">tns1:VideoSource/{}</wsnt:Topic>\
             <wsnt:Message><tt:Message UtcTime=\"{}\" PropertyOperation=\"{}\"><tt:Source>\
             <tt:SimpleItem Name=\"Source\" Value=\"source-{}\"/></tt:Source><tt:Data>\
             <tt:SimpleItem Name=\"State\" Value=\"{}\"/></tt:Data></tt:Message></wsnt:Message></wsnt:NotificationMessage>",
            topic(message.alarm).join("/"),
            clock(plan, point, message.at_ns),
            if message.is_state { "Initialized" } else { "Changed" },
            escaped(&camera.name),
            message.is_on,
        ))
    });
    let messages: String = messages.collect();
    format!(
        "<tev:PullMessagesResponse><tev:CurrentTime>{}</tev:CurrentTime><tev:TerminationTime>{}</tev:TerminationTime>\
         {messages}</tev:PullMessagesResponse>",
        clock(plan, point, at_ns),
        clock(plan, point, point.ends_ns()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_found_by_paths_and_below_them() {
        let of = |path: &str| Alarm::ALL.map(|alarm| is_topic(path, alarm));
        assert_eq!(of("tns1:VideoSource/MotionAlarm"), [true, false, false]);
        assert_eq!(of("x:VideoSource/x:ImageTooDark//."), [false, false, true]);
        assert_eq!(of("tns1:VideoSource//."), [true, true, true]);
        for path in ["", "//.", "tns1:VideoSource", "tns1:VideoSource/ImageTooDark", "tns1:RuleEngine//."] {
            assert_eq!(of(path), [false; 3], "{path}");
        }
    }
}
