"""What stands before every page: whom the server answers, who may act, and what a page may do.

* A request is for this server by name (Host), so that no other site's name can be pointed here (DNS rebinding).
* What acts is a POST with the token's cookie (HttpOnly, SameSite=Strict), the form's own word that is made of the
  token, and an Origin that is this server's.
* A page runs only the server's own scripts and connects to nothing else (Content Security Policy, W3C CSP3).
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import parse_qsl

LARGEST_FORM: Final = 1 << 20
MOST_FIELDS: Final = 4000
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class RefusedError(Exception):
    """A request that is not answered: its status, what is wrong, and what to do."""

    def __init__(self, status: int, title: str, advice: str) -> None:
        super().__init__(title)
        self.status, self.title, self.advice = status, title, advice


@dataclass(frozen=True)
class Guard:
    """The server's own names and its token."""

    token: str
    port: int

    @property
    def hosts(self) -> frozenset[str]:
        """What Host may say; port 80 may be left out."""
        names = ("127.0.0.1", "localhost", "[::1]")
        return frozenset((*(f"{name}:{self.port}" for name in names), *(names if self.port == 80 else ())))

    @property
    def cookie(self) -> str:
        """Its name has the port: cookies of one host are shared by all of its ports."""
        return f"pinchpoint-{self.port}"

    @property
    def word(self) -> str:
        """What every form that acts must carry."""
        return hmac.new(self.token.encode(), b"form", hashlib.sha256).hexdigest()

    def require_host(self, headers: Mapping[str, str]) -> None:
        """Raises RefusedError for a name that is not this server's."""
        if headers.get("host", "").lower() not in self.hosts:
            raise RefusedError(421, "This server answers on loopback only", f"Open http://127.0.0.1:{self.port}/")

    def knows(self, headers: Mapping[str, str]) -> bool:
        """Whether the request has the token's cookie."""
        try:
            morsel = SimpleCookie(headers.get("cookie", "")).get(self.cookie)
        except CookieError:
            return False
        return morsel is not None and self.is_token(morsel.value)

    def is_token(self, text: str) -> bool:
        """In a time that says nothing of how much is right."""
        return hmac.compare_digest(text.encode(), self.token.encode())

    def require_acting(self, headers: Mapping[str, str], form: Mapping[str, str]) -> None:
        """Raises RefusedError unless the request may act."""
        if headers.get("origin", "").lower() not in {f"http://{host}" for host in self.hosts}:
            raise RefusedError(403, "The request comes from another site", "Use the buttons of these pages.")
        if not self.knows(headers):
            advice = "Open the address with ?token=... that `pinchpoint serve` printed in its terminal; then try again."
            raise RefusedError(403, "This browser may look, but not act", advice)
        if not hmac.compare_digest(form.get("word", "").encode(), self.word.encode()):
            raise RefusedError(
                403, "The form is from an earlier start of this server", "Reload the page, then try again."
            )


def form_of(headers: Mapping[str, str], body: bytes) -> dict[str, str]:
    """The fields of a form as browsers send it; of equal names the last. Raises RefusedError."""
    if headers.get("content-type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
        raise RefusedError(415, "Expected a form", "Use the buttons of these pages.")
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS))
    except ValueError:
        raise RefusedError(400, "The form cannot be read", "Reload the page, then try again.") from None
