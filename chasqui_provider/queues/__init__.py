"""Message queue providers for `MessageQueueTrigger`."""
