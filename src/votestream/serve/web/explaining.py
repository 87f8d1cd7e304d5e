"""The route that tells why a photo is answered as it is."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from votestream.serve.web import bodies
from votestream.serve.web.service import TheEngine, done, the_service
from votestream.serve.web.teaching import IMAGES

router = APIRouter()


@router.post("/explain", summary="Which parts of an image speak for its class", openapi_extra=IMAGES)
async def explain(request: Request, engine: TheEngine) -> JSONResponse:
    """`places`: how much the log-odds of the class against the second rise where that place of the image counts twice.

    `box` is the part of the image that the places cover. `places` is null where they cannot be told apart. Further
    files of a form are compared with the first: `nearest` lists them by the distance between features.
    """
    first, *others = await bodies.images(request, the_service(request).options.limits)
    found = await done(engine.explain(first, others))
    return JSONResponse(
        {
            "label": found.label,
            "against": found.against,
            "places": None if found.places is None else found.places.round(6).tolist(),
            "box": found.box,
            "nearest": [{"file": name, "distance": distance} for name, distance in found.nearest],
        }
    )
