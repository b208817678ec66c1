"""The methods that `Queue`, `SyncQueue`, `Producer` and `QueueAdmin` share: all but adding and running jobs."""
