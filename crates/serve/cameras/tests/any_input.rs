//! Whatever is asked of cameras is answered or refused, and any script is read or refused. The fuzz targets run the same bodies.

mod camera_bodies;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

const CORPUS: [&str; 10] = [
    r#"/onvif/door/device_service
<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope"><s:Header><Security><UsernameToken><Username>ada</Username>
<Password>tuOSpGlFlIXsozq4HFNeeGeFLEI=</Password><Nonce>LKqI6G/AikKCQrN0zqZFlg==</Nonce><Created>2023-11-14T22:13:25Z</Created>
</UsernameToken></Security></s:Header><s:Body><GetServices xmlns="http://www.onvif.org/ver10/device/wsdl"/></s:Body></s:Envelope>"#,
    r#"/onvif/media_service
<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope"><s:Body><GetStreamUri xmlns="http://www.onvif.org/ver10/media/wsdl">
<ProfileToken>camera-1</ProfileToken></GetStreamUri></s:Body></s:Envelope>"#,
    r#"/onvif/camera-1/device_service
<e:Envelope xmlns:e="http://schemas.xmlsoap.org/soap/envelope/"><e:Body><GetProfiles xmlns="http://www.onvif.org/ver10/media/wsdl"/>
</e:Body></e:Envelope>"#,
    r#"/onvif/media2_service
<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope"><s:Body><GetProfiles xmlns="http://www.onvif.org/ver20/media/wsdl">
<Type>VideoEncoder</Type><Type>All</Type></GetProfiles></s:Body></s:Envelope>"#,
    r#"/onvif/media2_service
<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope"><s:Body><t:GetAudioEncoderConfigurationOptions
xmlns:t="http://www.onvif.org/ver20/media/wsdl"><t:ProfileToken>camera-1</t:ProfileToken></t:GetAudioEncoderConfigurationOptions>
</s:Body></s:Envelope>"#,
    r#"/onvif/event_service
<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope" xmlns:a="http://www.w3.org/2005/08/addressing"><s:Header>
<a:Action>http://www.onvif.org/ver10/events/wsdl/EventPortType/CreatePullPointSubscriptionRequest</a:Action>
<a:MessageID>urn:uuid:7</a:MessageID></s:Header><s:Body><CreatePullPointSubscription xmlns="http://www.onvif.org/ver10/events/wsdl">
<Filter><n:TopicExpression xmlns:n="http://docs.oasis-open.org/wsn/b-2">tns1:VideoSource//.|tns1:VideoSource/MotionAlarm
</n:TopicExpression></Filter><InitialTerminationTime>PT1H30M1.5S</InitialTerminationTime></CreatePullPointSubscription></s:Body>
</s:Envelope>"#,
    r#"/onvif/pullpoint-1
<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope"><s:Body><PullMessages xmlns="http://www.onvif.org/ver10/events/wsdl">
<Timeout>PT1M</Timeout><MessageLimit>1000</MessageLimit></PullMessages></s:Body></s:Envelope>"#,
    r#"/onvif/camera-1/pullpoint-2
<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope"><s:Body><n:Renew xmlns:n="http://docs.oasis-open.org/wsn/b-2">
<n:TerminationTime>2023-11-14T22:15:00.5Z</n:TerminationTime></n:Renew></s:Body></s:Envelope>"#,
    r#"<e:Envelope xmlns:e="http://www.w3.org/2003/05/soap-envelope" xmlns:d="http://schemas.xmlsoap.org/ws/2005/04/discovery"><e:Header>
<MessageID>uuid:1</MessageID></e:Header><e:Body><d:Probe><Types>dn:NetworkVideoTransmitter</Types><Scopes>onvif://www.onvif.org</Scopes>
</d:Probe></e:Body></e:Envelope>"#,
    r#"user = "ada"
password = "lovelace"
camera = [{ number = 2, name = "door" }]
fault = [
  { kind = "loss", cameras = "1-2, 3", chance = 0.02, from = "1s" },
  { kind = "bursts", length = 5, distance = 200 },
  { kind = "reorder", chance = 0.05, by = "30ms", share = 0.5 },
  { kind = "jitter", by = "150ms", together = true },
  { kind = "freeze", every = "11s", for = "2s" },
  { kind = "timestamps", by = "-2s", every = "9s", for = "3s" },
  { kind = "drop", every = "7s" },
]
[[motion]]
cameras = "1"
from = "1s"
for = "500ms"
in-film = true"#,
];

/// One of the corpus, with some bytes replaced by others or by a piece of another one.
fn input() -> impl Strategy<Value = Vec<u8>> {
    let other = (select(&CORPUS[..]), any::<Index>(), 0..40usize).prop_map(|(text, at, bytes)| {
        let at = at.index(text.len());
        text.as_bytes()[at..text.len().min(at + bytes)].to_vec()
    });
    let few = vec(any::<u8>(), 0..4);
    let mistake = (any::<Index>(), 0..12usize, prop_oneof![other, few]);
    (select(&CORPUS[..]), vec(mistake, 0..5)).prop_map(|(text, mistakes)| {
        let mut bytes = text.as_bytes().to_vec();
        for (at, missing, instead) in mistakes {
            let at = at.index(bytes.len() + 1);
            let end = bytes.len().min(at + missing);
            bytes.splice(at..end, instead);
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn every_request_gets_an_envelope(data in input()) {
        camera_bodies::requests(&data);
    }

    #[test]
    fn every_probe_gets_envelopes_or_nothing(data in input()) {
        camera_bodies::probes(&data);
    }

    #[test]
    fn every_script_makes_cameras_or_is_refused_with_a_place(data in input()) {
        camera_bodies::scripts(&data);
    }
}
