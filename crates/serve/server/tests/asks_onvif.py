"""Asks cameras what recorders ask first. Arguments: host, port, user, password, names of the cameras."""

import datetime
import sys

from onvif import ONVIFCamera, ONVIFError

host, port, user, password, *names = sys.argv[1:]


def connect(password):
    return ONVIFCamera(host, int(port), user, password, no_cache=True)


def is_refused(ask, word):
    try:
        ask()
    except ONVIFError as error:
        assert word in str(error), error
        return True
    return False


camera = connect(password)
device = camera.devicemgmt
shown = device.GetSystemDateAndTime().UTCDateTime
shown = datetime.datetime(
    shown.Date.Year, shown.Date.Month, shown.Date.Day, shown.Time.Hour, shown.Time.Minute, shown.Time.Second
)
assert abs(datetime.datetime.utcnow() - shown) < datetime.timedelta(minutes=5), shown
information = device.GetDeviceInformation()
assert information.Manufacturer == "Forebay" and information.SerialNumber, information
namespaces = [service.Namespace for service in device.GetServices({"IncludeCapability": False})]
services = ["ver10/device", "ver10/media", "ver20/media", "ver10/events"]
assert namespaces == [f"http://www.onvif.org/{service}/wsdl" for service in services], namespaces
assert all(service.Capabilities for service in device.GetServices({"IncludeCapability": True}))
assert any("Profile/Streaming" in scope.ScopeItem for scope in device.GetScopes())
assert device.GetHostname().Name == "cameras"
assert len(device.GetNetworkInterfaces()[0].Info.HwAddress.split(":")) == 6
assert is_refused(lambda: device.GetUsers(), "not supported")

media = camera.create_media_service()
profiles = media.GetProfiles()
assert [profile.token for profile in profiles] == names, profiles
encoder = profiles[0].VideoEncoderConfiguration
assert (encoder.Encoding, encoder.Resolution.Width, encoder.Resolution.Height) == ("H264", 160, 120), encoder
assert encoder.RateControl.FrameRateLimit == 25, encoder
assert (encoder.H264.H264Profile, encoder.H264.GovLength > 0) == ("Main", True), encoder
assert profiles[0].AudioEncoderConfiguration.Encoding == "AAC", profiles[0]
assert len(media.GetVideoSources()) == len(media.GetAudioSources()) == len(names)
for kind in ["VideoSource", "AudioSource", "VideoEncoder", "AudioEncoder"]:
    configurations = getattr(media, f"Get{kind}Configurations")()
    assert configurations == [getattr(profile, f"{kind}Configuration") for profile in profiles], configurations
    compatible = getattr(media, f"GetCompatible{kind}Configurations")({"ProfileToken": names[1]})
    assert compatible == configurations[1:2], compatible
    token = {"ConfigurationToken": configurations[1].token}
    assert getattr(media, f"Get{kind}Configuration")(token) == configurations[1]
    assert getattr(media, f"Get{kind}ConfigurationOptions")(token), kind
options = media.GetVideoEncoderConfigurationOptions({"ProfileToken": names[0]})
assert options.H264.ResolutionsAvailable[0].Width == 160, options
for operation in ["GetMetadataConfigurations", "GetVideoAnalyticsConfigurations", "GetAudioOutputs", "GetOSDs"]:
    assert not getattr(media, operation)(), operation
unknown = {"ConfigurationToken": "nowhere"}
assert is_refused(lambda: media.GetVideoEncoderConfiguration(unknown), "no such configuration")
setup = {"Stream": "RTP-Unicast", "Transport": {"Protocol": "RTSP"}}
for name in names:
    print(media.GetStreamUri({"StreamSetup": setup, "ProfileToken": name}).Uri)
assert is_refused(lambda: media.GetStreamUri({"StreamSetup": setup, "ProfileToken": "nowhere"}), "no profile")
assert is_refused(lambda: media.GetSnapshotUri({"ProfileToken": names[0]}), "no snapshots")

stranger = connect(password + "!")
stranger.devicemgmt.GetSystemDateAndTime()
assert is_refused(lambda: stranger.devicemgmt.GetDeviceInformation(), "password digest")
