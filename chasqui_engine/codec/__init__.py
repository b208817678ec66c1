"""What a job is in bytes, and back."""

from __future__ import annotations

from chasqui_engine.codec.envelope import decode_payload, encode_payload
from chasqui_engine.codec.preview import glimpse_payload
from chasqui_engine.values.packed import Packed

__all__ = ["Packed", "decode_payload", "encode_payload", "glimpse_payload"]
