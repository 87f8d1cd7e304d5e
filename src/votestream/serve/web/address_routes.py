"""The addresses of the service, also as a QR code for phones."""

from __future__ import annotations

import io
import socket
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from votestream.serve.engine.messages import NotFound
from votestream.serve.web.dependencies import service_of
from votestream.serve.web.options import Options, as_address, is_loopback

router = APIRouter()


@router.get("/addresses", summary="Addresses for other devices")
async def addresses(request: Request) -> JSONResponse:
    """Browsers allow the camera only on pages of https and of localhost: `https` says whether this is one."""
    options = service_of(request).options
    found = for_others(options)
    return JSONResponse({"addresses": found, "only_this_computer": not found, "https": options.https})


@router.get("/qr", summary="An address as a QR code")
async def qr(request: Request, address: Annotated[str | None, Query(max_length=200)] = None) -> Response:
    """The QR code of one of /v1/addresses, with the token. By default, of the first."""
    import segno

    options = service_of(request).options
    found = for_others(options)
    if not found:
        raise NotFound(
            "Only this computer can use the service: for others, start it with --host 0.0.0.0 and --token TOKEN."
        )
    if address is not None and address not in found:
        raise NotFound("This is not an address of the service: GET /v1/addresses lists them.")
    drawn = io.BytesIO()
    segno.make(with_token(address or found[0], options.token), error="m").save(
        drawn, kind="svg", scale=4, border=4, dark="#000", light="#fff", xmldecl=False, svgclass=None, lineclass=None
    )
    return Response(drawn.getvalue(), media_type="image/svg+xml")


def own_address(options: Options) -> str:
    """The address for this computer."""
    bound = as_address(options.host)
    host = "127.0.0.1" if bound is not None and bound.is_unspecified else options.host
    return _address(options, host)


def for_others(options: Options) -> list[str]:
    """The addresses for other computers and phones. Empty if the service listens to this computer only."""
    if is_loopback(options.host):
        return []
    bound = as_address(options.host)
    if bound is None or not bound.is_unspecified:
        return [_address(options, options.host)]
    return [_address(options, host) for host in _of_this_computer()]


def with_token(address: str, token: str | None) -> str:
    """The address with the token after #. The page reads it there; it is not sent to servers or written to logs."""
    return address if token is None else f"{address}#token={token}"


def _address(options: Options, host: str) -> str:
    scheme = "https" if options.https else "http"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{options.port}/"


def _of_this_computer() -> list[str]:
    """The IPv4 addresses of this computer. The one that it uses for outgoing traffic comes first."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as outgoing:
        try:
            outgoing.connect(("192.0.2.1", 9))  # a reserved address; connecting a UDP socket sends nothing
            found.append(str(outgoing.getsockname()[0]))
        except OSError:
            pass
    try:
        named = [str(info[4][0]) for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)]
    except OSError:
        named = []
    found += [host for host in named if not is_loopback(host)]
    return list(dict.fromkeys(found))
