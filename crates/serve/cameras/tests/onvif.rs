//! What clients of ONVIF are told.

mod asking;
mod camera_bodies;

use asking::{Cameras, SECOND};

const MEDIA: &str = "http://www.onvif.org/ver10/media/wsdl";
const DEVICE: &str = "http://www.onvif.org/ver10/device/wsdl";

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

#[test]
fn the_second_media_service_has_the_same_profiles_with_the_parts_that_are_wanted() {
    let cameras = Cameras::new("");
    let ask = |operation: &str, inner: &str| {
        let namespace = "http://www.onvif.org/ver20/media/wsdl";
        let body = format!("<{operation} xmlns=\"{namespace}\">{inner}</{operation}>");
        cameras.respond("/onvif/media2_service", &body, "", "192.0.2.7", 0).body
    };
    let one = "<ProfileToken>camera-2</ProfileToken>";
    for (operation, inner, element, count, words) in [
        ("GetProfiles", "", "<tr2:Profiles ", 2, "<tr2:Name>camera-2</tr2:Name></tr2:Profiles>"),
        ("GetProfiles", "<Type>VideoEncoder</Type>", "<tr2:Configurations></", 2, ""),
        ("GetProfiles", "<Type>All</Type>", "<tr2:AudioEncoder ", 2, "token=\"sound-encoder-camera-1\""),
        ("GetProfiles", "<Token>camera-2</Token>", "<tr2:Profiles ", 1, ""),
        ("GetAudioEncoderConfigurations", "", "<tr2:Configurations ", 2, "<tt:Encoding>mpeg4-generic<"),
        ("GetAudioEncoderConfigurations", one, "<tr2:Configurations ", 1, "\"sound-encoder-camera-2\""),
        ("GetAudioEncoderConfigurationOptions", one, "<tr2:Options>", 1, "<tt:Items>44<"),
        ("GetVideoEncoderConfigurations", one, "<tr2:Configurations ", 0, "Response></tr2:"),
        ("GetAnalyticsConfigurations", "", "<tr2:Configurations ", 0, "Response></tr2:"),
        ("GetStreamUri", one, "<tr2:Uri>", 1, "rtsp://192.0.2.1:554/camera-2"),
    ] {
        let body = ask(operation, inner);
        assert!(body.matches(element).count() == count && body.contains(words), "{operation}: {body}");
    }
    let refused =
        ask("GetStreamUri", "<Protocol>RtspMulticast</Protocol><ProfileToken>camera-1</ProfileToken>");
    assert!(refused.contains("ter:InvalidStreamSetup") && refused.contains("RtspOverHttp"), "{refused}");
    assert!(ask("GetServiceCapabilities", "").contains("RTSPStreaming=\"true\""));
}

#[test]
fn a_response_names_the_request_that_it_is_for() {
    let cameras = Cameras::new("");
    let header = "<a:Action xmlns:a=\"http://www.w3.org/2005/08/addressing\">x/GetScopesRequest</a:Action>\
                  <a:MessageID xmlns:a=\"http://www.w3.org/2005/08/addressing\">uuid:1&amp;2</a:MessageID>";
    let body = cameras.ask(DEVICE, "GetScopes", header, "192.0.2.7", 0).body;
    let expected =
        "<s:Header><wsa:Action>x/GetScopesResponse</wsa:Action><wsa:RelatesTo>uuid:1&amp;2</wsa:RelatesTo>";
    assert!(body.contains(expected), "{body}");
    // It repeats no long one.
    let long = header.replace("uuid:1", &"1".repeat(10_000));
    for header in ["", &long] {
        assert!(!cameras.ask(DEVICE, "GetScopes", header, "192.0.2.7", 0).body.contains("<s:Header>"));
    }
}
