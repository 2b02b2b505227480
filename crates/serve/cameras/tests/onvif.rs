//! What clients of ONVIF are told.

mod camera_bodies;

use std::net::IpAddr;
use std::sync::Mutex;

use forebay_cameras::onvif::{self, Asker, Place, Response};
use forebay_cameras::{Plan, Script, Wanted};
use forebay_rtsp::server::Guesses;

use camera_bodies::FILM;

const SECOND: u64 = 1_000_000_000;
const UNIX_NS: u64 = 1_700_000_000 * SECOND;
const MEDIA: &str = "http://www.onvif.org/ver10/media/wsdl";
const DEVICE: &str = "http://www.onvif.org/ver10/device/wsdl";

/// Two cameras, and the wrong passwords that they were asked with.
struct Cameras {
    plan: Plan,
    guesses: Mutex<Guesses>,
}

impl Cameras {
    fn new(script: &str) -> Self {
        let script = Script::parse(script).expect("a script");
        let wanted = Wanted { cameras: 2, seed: 1, epoch_unix_ns: UNIX_NS, script };
        Self {
            plan: Plan::new(std::slice::from_ref(&FILM), &wanted).expect("a plan"),
            guesses: Mutex::default(),
        }
    }

    /// What is answered to an operation, with a header of the envelope, from an address.
    fn ask(&self, namespace: &str, operation: &str, header: &str, from: &str, now_ns: u64) -> Response {
        let [http, rtsp] = ["192.0.2.1:80", "192.0.2.1:554"].map(str::to_owned);
        let place = Place { http, rtsp, version: "1".to_owned() };
        let client: IpAddr = from.parse().expect("an address");
        let asker = Asker { client, guesses: &self.guesses, now_ns, at_ns: 0, unix_ns: UNIX_NS };
        let envelope = format!(
            "<s:Envelope xmlns:s=\"http://www.w3.org/2003/05/soap-envelope\"><s:Header>{header}</s:Header>\
             <s:Body><{operation} xmlns=\"{namespace}\"/></s:Body></s:Envelope>"
        );
        onvif::answer(&self.plan, &place, "/onvif/device_service", &envelope, &asker)
    }
}

/// A password of ada's as text, or its digest.
fn token(password: &str) -> String {
    format!(
        "<Security><UsernameToken><Username>ada</Username>{password}<Nonce>LKqI6G/AikKCQrN0zqZFlg==</Nonce>\
         <Created>2023-11-14T22:13:25Z</Created></UsernameToken></Security>"
    )
}

const RIGHT: &str = "<Password>MX/ZVN+7Sze8lah4SO3IgvNm+Vk=</Password>";
const WRONG: &str = "<Password>AAAAAAAAAAAAAAAAAAAAAAAAAAA=</Password>";

#[test]
fn guesses_from_one_address_are_told_of_and_wait() {
    let cameras = Cameras::new("user = \"ada\"\npassword = \"lovelace\"\n");
    let ask = |password: &str, from, now_ns| {
        let response = cameras.ask(DEVICE, "GetDeviceInformation", &token(password), from, now_ns);
        (response.status, response.wrong_password.map(|wrong| (wrong.user, wrong.wrong)))
    };
    for wrong in 1..=5 {
        assert_eq!(ask(WRONG, "192.0.2.7", 0), (400, Some(("ada".to_owned(), wrong))));
    }
    for password in [WRONG, RIGHT] {
        assert_eq!(ask(password, "192.0.2.7", 1), (429, None));
    }
    assert_eq!(ask(RIGHT, "192.0.2.8", 1), (200, None));
    assert_eq!(ask(RIGHT, "192.0.2.7", SECOND), (200, None));
    let plain =
        "<Password Type=\"http://docs.oasis-open.org/wss/2004/01/x#PasswordText\">lovelace</Password>";
    assert_eq!(ask(plain, "192.0.2.8", 1), (200, None));
    let without = cameras.ask(DEVICE, "GetDeviceInformation", "", "192.0.2.8", SECOND);
    assert_eq!((without.status, without.wrong_password), (400, None));
}

#[test]
fn clients_find_what_a_profile_of_sound_consists_of() {
    let cameras = Cameras::new("");
    let ask = |operation: &str| {
        let response = cameras.ask(MEDIA, operation, "", "192.0.2.7", 0);
        assert_eq!(response.status, 200, "{operation}: {}", response.body);
        response.body
    };
    for (operation, count, words) in [
        ("GetProfiles", 2, "token=\"sound-encoder-camera-2\""),
        ("GetAudioSources", 2, "<tt:Channels>1</tt:Channels>"),
        ("GetAudioSourceConfigurations", 2, "<tt:SourceToken>sound-source-camera-1<"),
        ("GetAudioEncoderConfigurations", 2, "<tt:Encoding>AAC</tt:Encoding>"),
        ("GetAudioEncoderConfigurationOptions", 1, "<tt:SampleRateList><tt:Items>44<"),
        ("GetVideoEncoderConfigurations", 0, ""),
        ("GetMetadataConfigurations", 0, ""),
    ] {
        let body = ask(operation);
        let found = ["<trt:Profiles ", "<trt:AudioSources ", "<trt:Configurations ", "<trt:Options>"]
            .map(|element| body.matches(element).count());
        assert!(found.iter().sum::<usize>() == count && body.contains(words), "{operation}: {body}");
    }
    let response = cameras.ask(MEDIA, "GetVideoEncoderConfigurationOptions", "", "192.0.2.7", 0);
    assert!(response.body.contains("ter:NoConfig"), "{}", response.body);
}
