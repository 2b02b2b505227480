//! The Device service.

use roxmltree::Node;

use super::times::date;
use super::{Asked, Fault, Reply, SERVICES, Service, events, media, text_below};
use crate::chance::{Purpose, draw};

pub(super) const SERVICE: Service = Service {
    namespace: "http://www.onvif.org/ver10/device/wsdl",
    prefix: "tds",
    path: "device_service",
    capabilities: "<tds:Capabilities><tds:Network IPFilter=\"false\"/><tds:Security UsernameToken=\"true\" HttpDigest=\"false\"/>\
                   <tds:System DiscoveryResolve=\"false\"/></tds:Capabilities>",
    respond,
};

/// Operations that clients may ask for before they have a password.
pub(super) const OPEN: &[&str] =
    &["GetSystemDateAndTime", "GetCapabilities", "GetServices", "GetServiceCapabilities", "GetHostname"];

fn respond(asked: &Asked<'_>, operation: Node<'_, '_>) -> Option<Result<Reply, Fault>> {
    let text = match operation.tag_name().name() {
        "GetSystemDateAndTime" => date_and_time(asked),
        "GetDeviceInformation" => information(asked),
        "GetCapabilities" => return Some(capabilities(asked, operation).map(Reply::Body)),
        "GetServices" => services(asked, operation),
        "GetScopes" => scopes(asked),
        "GetHostname" => hostname(asked),
        "GetNetworkInterfaces" => network_interfaces(asked),
        _ => return None,
    };
    Some(Ok(Reply::Body(text)))
}

fn date_and_time(asked: &Asked<'_>) -> String {
    let date = date(asked.unix_ns);
    let number = |range: core::ops::Range<usize>| {
        date.get(range).and_then(|digits| digits.parse::<u32>().ok()).unwrap_or_default()
    };
    let both = format!(
        "<tt:Time><tt:Hour>{}</tt:Hour><tt:Minute>{}</tt:Minute><tt:Second>{}</tt:Second></tt:Time>\
         <tt:Date><tt:Year>{}</tt:Year><tt:Month>{}</tt:Month><tt:Day>{}</tt:Day></tt:Date>",
        number(11..13),
        number(14..16),
        number(17..19),
        number(0..4),
        number(5..7),
        number(8..10),
    );
    format!(
        "<tds:GetSystemDateAndTimeResponse><tds:SystemDateAndTime><tt:DateTimeType>Manual</tt:DateTimeType>\
         <tt:DaylightSavings>false</tt:DaylightSavings><tt:TimeZone><tt:TZ>UTC0</tt:TZ></tt:TimeZone>\
         <tt:UTCDateTime>{both}</tt:UTCDateTime><tt:LocalDateTime>{both}</tt:LocalDateTime>\
         </tds:SystemDateAndTime></tds:GetSystemDateAndTimeResponse>"
    )
}

/// What the device is called.
fn name<'a>(asked: &Asked<'a>) -> &'a str {
    asked.camera.map_or("cameras", |camera| &camera.name)
}

fn information(asked: &Asked<'_>) -> String {
    format!(
        "<tds:GetDeviceInformationResponse><tds:Manufacturer>Forebay</tds:Manufacturer><tds:Model>{}</tds:Model>\
         <tds:FirmwareVersion>{}</tds:FirmwareVersion><tds:SerialNumber>{:016X}</tds:SerialNumber>\
         <tds:HardwareId>forebay</tds:HardwareId></tds:GetDeviceInformationResponse>",
        name(asked),
        asked.place.version,
        identity(asked),
    )
}

/// A number of the device's own.
fn identity(asked: &Asked<'_>) -> u64 {
    let first = asked.plan.cameras().first().map_or(0, |camera| camera.faults.seed);
    let seed = asked.camera.map_or(first ^ 1, |camera| camera.faults.seed);
    draw(seed, Purpose::Source, [u64::MAX, 0, 0])
}

fn capabilities(asked: &Asked<'_>, operation: Node<'_, '_>) -> Result<String, Fault> {
    let category = text_below(operation, "Category").unwrap_or("All");
    let device = format!(
        "<tt:Device><tt:XAddr>{}</tt:XAddr><tt:Network><tt:IPFilter>false</tt:IPFilter>\
         <tt:ZeroConfiguration>false</tt:ZeroConfiguration><tt:IPVersion6>false</tt:IPVersion6>\
         <tt:DynDNS>false</tt:DynDNS></tt:Network><tt:System><tt:DiscoveryResolve>false</tt:DiscoveryResolve>\
         <tt:DiscoveryBye>false</tt:DiscoveryBye><tt:RemoteDiscovery>false</tt:RemoteDiscovery>\
         <tt:SystemBackup>false</tt:SystemBackup><tt:SystemLogging>false</tt:SystemLogging>\
         <tt:FirmwareUpgrade>false</tt:FirmwareUpgrade><tt:SupportedVersions><tt:Major>2</tt:Major>\
         <tt:Minor>0</tt:Minor></tt:SupportedVersions></tt:System></tt:Device>",
        asked.address(SERVICE.path)
    );
    let media = format!(
        "<tt:Media><tt:XAddr>{}</tt:XAddr><tt:StreamingCapabilities><tt:RTPMulticast>false</tt:RTPMulticast>\
         <tt:RTP_TCP>true</tt:RTP_TCP><tt:RTP_RTSP_TCP>true</tt:RTP_RTSP_TCP></tt:StreamingCapabilities></tt:Media>",
        asked.address(media::SERVICE.path)
    );
    let events = format!(
        "<tt:Events><tt:XAddr>{}</tt:XAddr><tt:WSSubscriptionPolicySupport>false</tt:WSSubscriptionPolicySupport>\
         <tt:WSPullPointSupport>true</tt:WSPullPointSupport><tt:WSPausableSubscriptionManagerInterfaceSupport>false\
         </tt:WSPausableSubscriptionManagerInterfaceSupport></tt:Events>",
        asked.address(events::SERVICE.path)
    );
    let chosen = match category {
        "All" => device + &events + &media,
        "Device" => device,
        "Events" => events,
        "Media" => media,
        other => {
            let why = format!("the device has no capabilities of the category {other}");
            return Err(Fault::of_sender("ter:NoSuchService", why));
        }
    };
    Ok(format!(
        "<tds:GetCapabilitiesResponse><tds:Capabilities>{chosen}</tds:Capabilities></tds:GetCapabilitiesResponse>"
    ))
}

fn services(asked: &Asked<'_>, operation: Node<'_, '_>) -> String {
    let has_capabilities =
        text_below(operation, "IncludeCapability").is_some_and(|text| matches!(text, "true" | "1"));
    let all = SERVICES.each_ref().map(|service| {
        let Service { namespace, capabilities, .. } = service;
        let capabilities = match has_capabilities {
            true => format!("<tds:Capabilities>{capabilities}</tds:Capabilities>"),
            false => String::new(),
        };
        format!(
            "<tds:Service><tds:Namespace>{namespace}</tds:Namespace><tds:XAddr>{}</tds:XAddr>{capabilities}\
             <tds:Version><tt:Major>2</tt:Major><tt:Minor>0</tt:Minor></tds:Version></tds:Service>",
            asked.address(service.path)
        )
    });
    format!("<tds:GetServicesResponse>{}</tds:GetServicesResponse>", all.concat())
}

/// The scopes of a device called so.
pub(super) fn scopes_of(name: &str) -> [String; 4] {
    let scope = |rest: &str| format!("onvif://www.onvif.org/{rest}");
    [
        scope("Profile/Streaming"),
        scope("type/video_encoder"),
        scope("hardware/forebay"),
        scope(&format!("name/{name}")),
    ]
}

fn scopes(asked: &Asked<'_>) -> String {
    let all = scopes_of(name(asked)).map(|scope| {
        format!(
            "<tds:Scopes><tt:ScopeDef>Fixed</tt:ScopeDef><tt:ScopeItem>{scope}</tt:ScopeItem></tds:Scopes>"
        )
    });
    format!("<tds:GetScopesResponse>{}</tds:GetScopesResponse>", all.concat())
}

fn hostname(asked: &Asked<'_>) -> String {
    format!(
        "<tds:GetHostnameResponse><tds:HostnameInformation><tt:FromDHCP>false</tt:FromDHCP><tt:Name>{}</tt:Name>\
         </tds:HostnameInformation></tds:GetHostnameResponse>",
        name(asked)
    )
}

/// One interface, whose address is made from the seed and belongs to no maker.
fn network_interfaces(asked: &Asked<'_>) -> String {
    let [_, _, b, c, d, e, f, g] = identity(asked).to_be_bytes();
    let first = (b | 2) & !1;
    format!(
        "<tds:GetNetworkInterfacesResponse><tds:NetworkInterfaces token=\"eth0\"><tt:Enabled>true</tt:Enabled>\
         <tt:Info><tt:Name>eth0</tt:Name><tt:HwAddress>{first:02X}:{c:02X}:{d:02X}:{e:02X}:{f:02X}:{g:02X}</tt:HwAddress>\
         </tt:Info></tds:NetworkInterfaces></tds:GetNetworkInterfacesResponse>"
    )
}
