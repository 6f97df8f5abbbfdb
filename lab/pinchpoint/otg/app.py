"""Addresses of the REST interface: whom it answers, how large a body may be, and how an error looks.

* The request is for this server by name (Host), so that no other site's name can be pointed here (DNS rebinding).
* No request comes from a page in a browser: one with an Origin is refused, no answer allows another site to read it,
  and a body must be JSON by its content type, which pages of other sites cannot send without asking first (CORS).
"""

import json
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from pinchpoint import __version__
from pinchpoint.otg import fields
from pinchpoint.otg.generator import Generator, RefusedError, read
from pinchpoint.otg.metrics import answer

LARGEST_BODY: Final = 8 << 20
DEEPEST: Final = 64
NOT_SERVED: Final = {
    ("/config", "PATCH"): "send the whole configuration by POST",
    ("/config/append", "PATCH"): "send the whole configuration by POST",
    ("/config/delete", "PATCH"): "send the whole configuration by POST",
    ("/control/action", "POST"): "there are no protocols, and ports cannot be rebooted",
    ("/monitor/states", "POST"): "there are no protocols",
}


@dataclass(frozen=True)
class Server:
    """What is answered at each address."""

    generator: Generator

    async def config(self, request: Request) -> Response:
        if request.method == "GET":
            return JSONResponse(self.generator.config)
        warnings = await run_in_threadpool(self.generator.configure, await _json(request))
        return JSONResponse({"warnings": list(warnings)})

    async def state(self, request: Request) -> Response:
        asked = read(fields.CONTROL, await _json(request))
        if asked["choice"] == "port" and (wanted := asked["port"].get("capture")):
            await run_in_threadpool(self.generator.watch, wanted["state"], wanted.get("port_names") or ())
        if asked["choice"] != "traffic":
            return JSONResponse({})
        wanted = asked["traffic"]["flow_transmit"]
        await run_in_threadpool(self.generator.transmit, wanted["state"], wanted.get("flow_names") or ())
        return JSONResponse({"warnings": []})

    async def metrics(self, request: Request) -> Response:
        asked = read(fields.REQUEST, await _json(request))
        return JSONResponse(await run_in_threadpool(answer, self.generator, asked))

    async def capture(self, request: Request) -> Response:
        asked = read(fields.CAPTURED, await _json(request))
        file = await run_in_threadpool(self.generator.captured, asked["port_name"])
        return Response(file, media_type="application/octet-stream")

    async def version(self, request: Request) -> Response:
        versions = {"api_spec_version": fields.MODEL, "sdk_version": fields.MODEL, "app_version": __version__}
        return JSONResponse(versions)


def application(generator: Generator, port: int) -> ASGIApp:
    """The server at a port of loopback."""
    names = ("127.0.0.1", "localhost", "[::1]")
    hosts = frozenset((*(f"{name}:{port}" for name in names), *(names if port == 80 else ())))
    server = Server(generator)
    routes = [
        Route("/config", server.config, methods=["GET", "POST"]),
        Route("/control/state", server.state, methods=["POST"]),
        Route("/monitor/metrics", server.metrics, methods=["POST"]),
        Route("/monitor/capture", server.capture, methods=["POST"]),
        Route("/capabilities/version", server.version),
    ]
    kinds: tuple[type[Exception], ...] = (RefusedError, HTTPException, Exception)
    return _Guarded(Starlette(routes=routes, exception_handlers=dict.fromkeys(kinds, _failed)), hosts)


@dataclass(frozen=True)
class _Guarded:
    """Refuses foreign hosts and pages before anything is read."""

    inner: ASGIApp
    hosts: frozenset[str]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope)
        if request.headers.get("host", "").lower() not in self.hosts:
            await _error(421, "validation", ["Host: this server answers on loopback only"])(scope, receive, send)
        elif "origin" in request.headers:
            await _error(403, "validation", ["Origin: pages in a browser are not answered"])(scope, receive, send)
        else:
            await self.inner(scope, receive, send)


def _error(status: int, kind: str, lines: list[str]) -> JSONResponse:
    """An error as the model has it (api/api.yaml, Error)."""
    return JSONResponse({"code": status, "kind": kind, "errors": lines}, status)


def _failed(request: Request, error: Exception) -> Response:
    if isinstance(error, RefusedError):
        return _error(error.status, "validation", list(error.lines))
    if isinstance(error, HTTPException):
        why = NOT_SERVED.get((request.url.path, request.method), "no such address; docs/otg.md has the list")
        return _error(error.status_code, "validation", [f"{request.method} {request.url.path[:80]}: {why}"])
    if not isinstance(error, RuntimeError):
        traceback.print_exception(error)
    return _error(500, "internal", [str(error)[:500] or type(error).__name__])


async def _json(request: Request) -> Any:
    """The body. Raises RefusedError."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise RefusedError(["Content-Type: expected application/json"], 415)
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > LARGEST_BODY:
                raise RefusedError([f"body: expected at most {LARGEST_BODY:,} bytes"], 413)
    except ClientDisconnect:
        raise RefusedError(["body: it was cut off"]) from None
    return parsed(bytes(body))


def parsed(body: bytes) -> Any:
    """JSON as RFC 8259 has it, of limited depth, without repeated names. Raises RefusedError."""
    too_deep = RefusedError([f"body: nested more than {DEEPEST} deep"])
    try:
        value = json.loads(body.decode(), object_pairs_hook=_unique, parse_constant=_constant)
    except RecursionError:
        raise too_deep from None
    except ValueError as error:
        raise RefusedError([f"body: {error}"[:200]]) from None
    if _is_too_deep(value):
        raise too_deep
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise ValueError("a name is given twice in one object")
    return mapping


def _constant(text: str) -> Any:
    raise ValueError(f"{text} is no JSON number")


def _is_too_deep(value: Any, most: int = DEEPEST) -> bool:
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return most <= 0 or any(_is_too_deep(part, most - 1) for part in inner)
