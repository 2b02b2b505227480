"""Pulls events of cameras as recorders do. Arguments: host, port, user, password, how many changes. Prints a line for each message:
time, source, topic, state and operation."""

import os
import sys
from datetime import datetime, timedelta

from onvif import ONVIFCamera, ONVIFError, ONVIFService
from zeep.plugins import HistoryPlugin

host, port, user, password, wanted = sys.argv[1:]

camera = ONVIFCamera(host, int(port), user, password, no_cache=True)
assert camera.devicemgmt.GetCapabilities({"Category": "Events"}).Events.WSPullPointSupport
events = camera.create_events_service()
assert events.GetServiceCapabilities().WSPullPointSupport
properties = events.GetEventProperties()
assert properties.FixedTopicSet is True and len(properties.TopicExpressionDialect) == 2, properties

# The client has made a subscription by itself; this one is for longer.
created = events.CreatePullPointSubscription({"InitialTerminationTime": "PT10M"})
assert created.TerminationTime - created.CurrentTime == timedelta(minutes=10), created
address = created.SubscriptionReference.Address._value_1
camera.xaddrs["http://www.onvif.org/ver10/events/wsdl/PullPointSubscription"] = address
point = camera.create_pullpoint_service()
history = HistoryPlugin()
point.zeep_client.plugins.append(history)
point.SetSynchronizationPoint()
changes = 0
while changes < int(wanted):
    pulled = point.PullMessages({"Timeout": timedelta(seconds=20), "MessageLimit": 100})
    # The client leaves out the texts of topics, and hands out messages as elements.
    topics = history.last_received["envelope"].iterfind(".//{*}Topic")
    for message, topic in zip(pulled.NotificationMessage, topics, strict=True):
        of = message.Message._value_1
        [source] = of.findall("{*}Source/{*}SimpleItem[@Name='Source']")
        [state] = of.findall("{*}Data/{*}SimpleItem[@Name='State']")
        time, operation = datetime.fromisoformat(of.get("UtcTime")), of.get("PropertyOperation")
        assert time <= pulled.CurrentTime < pulled.TerminationTime, (pulled.CurrentTime, message)
        changes += operation == "Changed"
        print(time.timestamp(), source.get("Value"), topic.text, state.get("Value"), operation)

binding = "{http://www.onvif.org/ver10/events/wsdl}SubscriptionManagerBinding"
wsdl = os.path.join(camera.wsdl_dir, "events.wsdl")
manager = ONVIFService(address, user, password, wsdl, no_cache=True, binding_name=binding)
renewed = manager.Renew({"TerminationTime": "PT5M"})
assert renewed.TerminationTime - renewed.CurrentTime == timedelta(minutes=5), renewed
manager.Unsubscribe()
try:
    point.PullMessages({"Timeout": timedelta(seconds=20), "MessageLimit": 1})
    raise AssertionError("it has ended")
except ONVIFError as error:
    assert "no such subscription" in str(error), error
