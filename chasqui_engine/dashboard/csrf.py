"""CSRF protection: changes are accepted from the dashboard's own page only, by a double-submit token.

`GET api/me` returns a random token twice: in its body, and as a cookie that scripts cannot read and other sites cannot
send. A change must send both, the first in the header `X-Chasqui-CSRF`. A form of another site can set no header;
a script of another site cannot read the answer. Where the browser names the site that
sent the request (`Sec-Fetch-Site`), it must be the dashboard itself.
"""

from __future__ import annotations

import hmac
import re
import secrets

from fastapi import HTTPException, Request, Response

HEADER = "x-chasqui-csrf"
COOKIE = "chasqui_csrf"
_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")


def read_or_make_token(request: Request) -> str:
    """The browser's token, or a new one."""
    token = request.cookies.get(COOKIE, "")
    return token if _TOKEN.fullmatch(token) else secrets.token_urlsafe(32)


def remember(token: str, request: Request, response: Response) -> None:
    """Sets the cookie."""
    https = request.url.scheme == "https"
    response.set_cookie(COOKIE, token, path="/", httponly=True, samesite="strict", secure=https)


def check(request: Request) -> None:
    """Refuses a change that another site may have caused."""
    sent, kept = request.headers.get(HEADER, ""), request.cookies.get(COOKIE, "")
    if not _TOKEN.fullmatch(kept) or not hmac.compare_digest(sent.encode(), kept.encode()):
        raise HTTPException(403, f"The {HEADER} header does not match the cookie: reload the page and try again.")
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise HTTPException(403, "Changes are accepted from the dashboard's own page only.")
