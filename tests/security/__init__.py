"""Bad input, secrets, least privilege: what nobody should be able to do, tried."""
