"""What tests of several folders need. What one folder needs alone is beside its tests."""
