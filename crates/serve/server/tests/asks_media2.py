"""Asks cameras that send H.265 by version 2 of the Media service. Arguments: host, port, user, password, names of the cameras."""

import sys

from onvif import CacheMode, ONVIFClient, ONVIFOperationException

host, port, user, password, *names = sys.argv[1:]

media = ONVIFClient(host, int(port), user, password, cache=CacheMode.NONE).media2()
assert media.GetServiceCapabilities().StreamingCapabilities.RTSPStreaming
assert [profile.Configurations for profile in media.GetProfiles()] == [None] * len(names)
profiles = media.GetProfiles(Type=["All"])
assert [profile.token for profile in profiles] == names, profiles
encoders = media.GetVideoEncoderConfigurations()
assert encoders == [profile.Configurations.VideoEncoder for profile in profiles], encoders
encoder = encoders[0]
assert (encoder.Encoding, encoder.Profile, encoder.RateControl.FrameRateLimit) == ("H265", "Main", 25), encoder
assert (encoder.Resolution.Width, encoder.Resolution.Height) == (160, 120), encoder
[options] = media.GetVideoEncoderConfigurationOptions(ConfigurationToken=encoder.token)
assert (options.Encoding, options.ResolutionsAvailable) == ("H265", [encoder.Resolution]), options
source = profiles[0].Configurations.VideoSource
assert media.GetVideoSourceConfigurations(ProfileToken=names[0]) == [source], source
assert media.GetVideoEncoderInstances(ConfigurationToken=source.token).Codec[0].Encoding == "H265"
assert not media.GetMetadataConfigurations() and not media.GetAudioEncoderConfigurations()
try:
    media.GetStreamUri(Protocol="RtspMulticast", ProfileToken=names[0])
    raise AssertionError("there is no multicast")
except ONVIFOperationException as error:
    assert "not sent by RtspMulticast" in str(error), error
for name in names:
    print(media.GetStreamUri(Protocol="RTSP", ProfileToken=name))
