"""The server with the shipped ACL files, for every test here."""

from tests.support.acl import admin, guarded

__all__ = ["admin", "guarded"]
