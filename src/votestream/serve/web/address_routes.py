"""Where the service can be reached, for people with a phone."""

from __future__ import annotations

import io
import socket
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from votestream.serve.engine.messages import NotThere
from votestream.serve.web.dependencies import the_service
from votestream.serve.web.options import Options, as_address, is_loopback

router = APIRouter()


@router.get("/addresses", summary="Addresses for other devices")
async def addresses(request: Request) -> JSONResponse:
    """Browsers give the camera to pages of https and of localhost only: `https` says which this is."""
    options = the_service(request).options
    found = for_others(options)
    return JSONResponse({"addresses": found, "only_this_computer": not found, "https": options.https})


@router.get("/qr", summary="An address as a QR code")
async def qr(request: Request, address: Annotated[str | None, Query(max_length=200)] = None) -> Response:
    """One of /v1/addresses, the first unless given, with the token in it."""
    import segno

    options = the_service(request).options
    found = for_others(options)
    if not found:
        raise NotThere(
            "Only this computer reaches the service: for others, start it with --host 0.0.0.0 and --token TOKEN."
        )
    if address is not None and address not in found:
        raise NotThere("That is no address of this service: GET /v1/addresses lists them.")
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
    """Addresses that other computers and phones can use; none where only this computer is listened to."""
    if is_loopback(options.host):
        return []
    bound = as_address(options.host)
    if bound is None or not bound.is_unspecified:
        return [_address(options, options.host)]
    return [_address(options, host) for host in _of_this_computer()]


def with_token(address: str, token: str | None) -> str:
    """The page takes the token out of the part after #, which no server and no log gets to see."""
    return address if token is None else f"{address}#token={token}"


def _address(options: Options, host: str) -> str:
    scheme = "https" if options.https else "http"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{options.port}/"


def _of_this_computer() -> list[str]:
    """The IPv4 addresses that others may reach us by: that of the way out first."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way_out:
        try:
            way_out.connect(("192.0.2.1", 9))  # an address that nobody has; connecting a UDP socket sends nothing
            found.append(str(way_out.getsockname()[0]))
        except OSError:
            pass
    try:
        named = [str(info[4][0]) for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)]
    except OSError:
        named = []
    found += [host for host in named if not is_loopback(host)]
    return list(dict.fromkeys(found))
