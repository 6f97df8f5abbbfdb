"""Addresses: from a request to a page, an act or an error that says what to do."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pinchpoint.dut import registry
from pinchpoint.measure import registry as measures
from pinchpoint.model.errors import InputError, PinchpointError
from pinchpoint.report import page
from pinchpoint.serve import form
from pinchpoint.serve.acts import Acts
from pinchpoint.serve.guard import HEADERS, LARGEST_FORM, Guard, RefusedError, form_of
from pinchpoint.serve.index import Wanted
from pinchpoint.serve.pages import Pages, segment
from pinchpoint.serve.shelf import FILES, Shown, Studies

ASSETS: Final = {
    "plotly-basic.min.js": ("pinchpoint.report", "text/javascript"),
    "report.js": ("pinchpoint.report", "text/javascript"), "report.css": ("pinchpoint.report", "text/css"),
    "serve.js": ("pinchpoint.serve", "text/javascript"), "serve.css": ("pinchpoint.serve", "text/css"),
}  # fmt: skip
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True)
class Workshop:
    """The handlers of requests, and what they need."""

    pages: Pages
    acts: Acts
    guard: Guard
    studies: Studies

    def word(self, request: Request) -> str:
        """What the browser may act with; empty if it may only look."""
        return self.guard.word if self.guard.knows(request.headers) else ""

    def page(self, text_of: Callable[..., str], *names: str) -> Callable[[Request], Response]:
        """A handler that answers with a page about what these parts of the address name."""

        def handler(request: Request) -> Response:
            return HTMLResponse(text_of(self.word(request), *(request.path_params[name] for name in names)))

        return handler

    def filled(self, request: Request, template: str, values: Mapping[str, object], status: int = 200) -> Response:
        """A page that shows no run."""
        return HTMLResponse(self.pages.filled(template, self.word(request), (), **values), status)

    def runs(self, request: Request) -> Response:
        """The list; with the printed token in its address, the browser may act from then on."""
        if (token := request.query_params.get("token")) is not None:
            if not self.guard.is_token(token):
                raise RefusedError(
                    403, "The token is from another start of this server", "Use the address that was printed last."
                )
            response = RedirectResponse("/", 303)
            response.set_cookie(self.guard.cookie, token, httponly=True, samesite="strict")
            return response
        return HTMLResponse(self.pages.list(self.word(request), _wanted(request.query_params)))

    def live(self, request: Request) -> Response:
        return JSONResponse(self.pages.live(self.word(request), request.path_params["run"]))

    def file(self, request: Request) -> Response:
        run, name = request.path_params["run"], request.path_params["file"]
        return FileResponse(self.pages.shelf.file(run, name), media_type=FILES[name])

    def ledger(self, request: Request) -> Response:
        """A trial's ledger as CSV (RFC 4180)."""
        asked = request.path_params
        text = self.pages.ledger(asked["run"], asked["trial"])
        return Response(text, media_type="text/csv", headers={"Content-Disposition": "attachment; filename=ledger.csv"})

    def compare(self, request: Request) -> Response:
        asked = request.query_params
        chosen = zip(asked.getlist("a"), asked.getlist("b"), strict=False)
        pairs = [(a, b) for a, b in chosen if a and b]
        return HTMLResponse(self.pages.compare(self.word(request), asked.getlist("run"), pairs))

    def trend(self, request: Request) -> Response:
        asked = request.query_params
        return HTMLResponse(self.pages.trend(self.word(request), asked.get("scenario", ""), asked.get("metric", "")))

    def new(self, request: Request) -> Response:
        """The empty form; or that of a file of a shipped study or of a run."""
        asked = dict(request.query_params)
        if "group" in asked and "study" in asked:
            file = f"{asked['study']}/{asked['group']}.toml"
            text = self.studies.text(asked["study"], asked["group"])
        elif "run" in asked:
            file = asked.get("file", "")
            text = self.pages.source(asked["run"], file)
        else:
            return self._form(request, asked, None)
        stem = file.rpartition("/")[2].removesuffix(".toml")[:64]
        return self._form(request, {"name": stem} | form.fields_of(text, file), None)

    def all_studies(self, request: Request) -> Response:
        return self.filled(request, "studies.html.j2", {"studies": self.studies.shown()})

    def study(self, request: Request) -> Response:
        name = request.path_params["study"]
        return self._study(request, {}, self.studies.checked(name, (), quick=False), None)

    def _study(self, request: Request, fields: Mapping[str, str], shown: Shown, do: str | None) -> Response:
        values = {
            "study": shown, "only": _chosen(shown, fields), "quick": fields.get("quick") == "on",
            "budget": fields.get("budget", ""), "asked": do,
        }  # fmt: skip
        return self.filled(request, "study.html.j2", values, 422 if shown.problems and do else 200)

    def _study_act(self, request: Request, fields: Mapping[str, str]) -> Response:
        name, quick = fields.get("study", ""), fields.get("quick") == "on"
        whole = self.studies.checked(name, (), quick)
        only = _chosen(whole, fields)
        chosen = () if len(only) == len(whole.groups) else only
        shown = self.studies.checked(name, chosen, quick)
        if fields.get("do") == "start" and not shown.problems:
            begun = self.acts.start_study(name, chosen, quick, fields.get("budget", "").strip())
            return RedirectResponse(f"/started/{segment(begun)}", 303)
        return self._study(request, fields, shown, "check")

    def started(self, request: Request) -> Response:
        name = request.path_params["name"]
        return HTMLResponse(self.pages.started(self.word(request), name, *self.acts.state(name)))

    def act(self, request: Request, fields: Mapping[str, str]) -> Response:
        """Whatever changes something; `form_of` and the guard have been before."""
        what, run = request.path_params["act"], fields.get("run", "")
        if what == "stop":
            self.acts.stop(run)
            return RedirectResponse(f"/run/{segment(run)}", 303)
        if what == "resume":
            return RedirectResponse(f"/started/{segment(self.acts.resume(run))}", 303)
        if what == "tag":
            self.acts.tag(run, fields.get("add", ""), fields.get("remove", ""))
            return RedirectResponse(f"/run/{segment(run)}", 303)
        return self._study_act(request, fields) if what == "study" else self._form(request, fields, fields.get("do"))

    def _form(self, request: Request, fields: Mapping[str, str], do: str | None) -> Response:
        shape, name = form.shape_of(fields), fields.get("name", "").strip()
        text = form.text_of(shape, fields)
        sweep, problems = form.checked(text, name or "scenario") if do in ("check", "start") else (None, ())
        if do == "start" and sweep:
            begun = self.acts.start(name, text, quick=fields.get("quick") == "on")
            return RedirectResponse(f"/started/{segment(begun)}", 303)
        values = {
            "shape": shape, "parts": form.parts(shape, fields), "name": name, "text": text, "problems": problems,
            "sweep": sweep, "asked": do, "kinds": registry.kinds(), "measures": measures.measures(),
            "quick": fields.get("quick") == "on", "most": form.MOST_ELEMENTS,
        }  # fmt: skip
        return self.filled(request, "new.html.j2", values, 422 if problems else 200)

    async def acting(self, request: Request) -> Response:
        """A POST: first who asks, then what."""
        fields = form_of(request.headers, await request.body())
        self.guard.require_acting(request.headers, fields)
        return await run_in_threadpool(self.act, request, fields)

    def refused(self, request: Request, error: Exception) -> Response:
        """Any error as a page; one that nobody foresaw is not told to the browser."""
        if isinstance(error, RefusedError):
            status, title, advice = error.status, error.title, error.advice
        elif isinstance(error, PinchpointError):
            status, title = 404 if isinstance(error, InputError) else 503, error.message
            advice = error.hint or "Go back, or choose a run in the list."
        elif isinstance(error, HTTPException):
            status, title = error.status_code, "There is no such page"
            advice = "Addresses of runs are permanent while their folders stand where they are; start from the list."
        else:
            status, title = 500, "pinchpoint failed here"
            advice = "The terminal of `pinchpoint serve` shows where. Other pages still work."
        word = "" if isinstance(error, RefusedError) else self.word(request)
        return HTMLResponse(self.pages.filled("error.html.j2", word, title=title, advice=advice), status)


def application(workshop: Workshop) -> ASGIApp:
    """The application: its routes behind the guard."""
    pages = workshop.pages
    routes = [
        Route("/", workshop.runs),
        Route("/run/{run}", workshop.page(pages.run, "run")),
        Route("/run/{run}/live", workshop.live),
        Route("/run/{run}/scenario/{scenario:path}", workshop.page(pages.scenario, "run", "scenario")),
        Route("/run/{run}/trial/{trial:path}", workshop.page(pages.trial, "run", "trial")),
        Route("/run/{run}/file/{file}", workshop.file),
        Route("/compare", workshop.compare),
        Route("/trend", workshop.trend),
        Route("/new", workshop.new),
        Route("/studies", workshop.all_studies),
        Route("/studies/{study}", workshop.study),
        Route("/run/{run}/ledger/{trial:path}", workshop.ledger),
        Route("/started/{name}", workshop.started),
        Route("/asset/{name}", _asset),
        Route("/act/{act:str}", workshop.acting, methods=["POST"]),
    ]
    kinds: tuple[type[Exception], ...] = (RefusedError, PinchpointError, HTTPException, Exception)
    handlers: dict[type[Exception], Callable[[Request, Exception], Response]] = dict.fromkeys(kinds, workshop.refused)
    return _Guarded(Starlette(routes=routes, exception_handlers=handlers), workshop)


@dataclass(frozen=True)
class _Guarded:
    """Refuses foreign hosts and large bodies before anything is read; gives every answer its headers."""

    inner: ASGIApp
    workshop: Workshop

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope)

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(name.lower().encode(), text.encode()) for name, text in HEADERS.items()]
                kept = [*message.get("headers", ()), *own]
                if not scope["path"].startswith("/asset/"):
                    kept.append((b"cache-control", b"no-store"))
                message = {**message, "headers": kept}
            await send(message)

        try:
            self.workshop.guard.require_host(request.headers)
            length = request.headers.get("content-length", "0")
            if "transfer-encoding" in request.headers or not length.isdigit() or int(length) > LARGEST_FORM:
                raise RefusedError(413, "The form is too large", f"At most {LARGEST_FORM:,} bytes are taken.")
        except RefusedError as error:
            await self.workshop.refused(request, error)(scope, receive, with_headers)
            return
        await self.inner(scope, receive, with_headers)


def _asset(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in ASSETS:
        raise HTTPException(404)
    package, media_type = ASSETS[name]
    return Response(page.asset(name, package), media_type=media_type, headers={"Cache-Control": "no-cache"})


def _chosen(study: Shown, fields: Mapping[str, str]) -> list[str]:
    """The groups that a form chooses."""
    return [group for group in study.groups if fields.get(f"group-{group}") == "on"]


def _wanted(asked: Mapping[str, str]) -> Wanted:
    """The filters of an address; what is no date or number is as if it were not there."""
    texts = {name: asked.get(name, "")[:200] for name in ("text", "kind", "study", "verdict", "host", "tag")}
    dates = {name: text for name in ("since", "until") if _DATE.fullmatch(text := asked.get(name, ""))}
    number = asked.get("page", "1")
    is_number = number.isascii() and number.isdigit() and len(number) < 7
    return Wanted(**texts, **dates, page=int(number) if is_number else 1)
