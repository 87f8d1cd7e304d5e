"""skops files of learners, with the published list of trusted types."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import votestream as vs

pytest.importorskip("skops")
from skops import io

from votestream.compat.skops import TRUSTED
from votestream.testing.samples import Samples

GO_ON = {
    "ncm": {},
    "slda": {},
    "rls": {},
    "fecam": {},
    "gaussian_voting": {},
    "ranpac": {"projection": 60},
    "foal": {"projection": 60},
    "klda": {"projection": 60, "draws": 2},
    "randumb": {"projection": 60},
    "srda": {},
    "joint": {},
}
DRAW = ["candidates_voting", "er_features", "knn"]


@pytest.mark.parametrize("track", [False, True])
@pytest.mark.parametrize("name", GO_ON)
def test_a_model_comes_back_by_the_trusted_list_and_goes_on_as_it_was(name, track):
    stream = Samples()
    settings = GO_ON[name] | ({} if name == "joint" else {"track": track})
    model = vs.create(name, device="cpu", **settings).partial_fit(stream.X[:90], stream.y[:90])
    back = io.loads(io.dumps(model), trusted=TRUSTED)
    for one in (model, back):
        one.partial_fit(stream.X[90:], stream.y[90:])
    assert np.array_equal(back.predict_proba(stream.X), model.predict_proba(stream.X))


def test_every_type_on_the_list_is_needed():
    stream, met = Samples(), set()
    for name, settings in GO_ON.items():
        given = settings | ({} if name == "joint" else {"track": True})
        model = vs.create(name, device="cpu", **given).fit(stream.X, stream.y)
        met.update(io.get_untrusted_types(data=io.dumps(model)))
    assert sorted(met) == TRUSTED


@pytest.mark.parametrize("name", DRAW)
def test_learners_that_draw_are_not_loaded_by_the_list(name):
    stream = Samples()
    data = io.dumps(vs.create(name, device="cpu").fit(stream.X, stream.y))
    with pytest.raises(io.exceptions.UntrustedTypesFoundException, match=r"torch\._C\.Generator"):
        io.loads(data, trusted=TRUSTED)


def test_a_pipeline_comes_back_too():
    stream = Samples()
    model = make_pipeline(StandardScaler(), vs.StreamingLDA(device="cpu")).fit(stream.X, stream.y)
    back = io.loads(io.dumps(model), trusted=TRUSTED)
    assert np.array_equal(back.predict(stream.X), model.predict(stream.X))
