"""The types that skops meets in VoteStream's learners on statistics, for its `trusted=` list.

skops files of other learners are not on the list: skops drops the state of torch's random generators, so a model that
draws would not go on as it was. `model.save` keeps everything, for every learner, and checks what it reads.

>>> import skops.io, votestream as vs
>>> from votestream.compat.skops import TRUSTED
>>> data = skops.io.dumps(vs.StreamingLDA().fit([[0.0], [1.0]], ["a", "b"]))
>>> skops.io.loads(data, trusted=TRUSTED).predict([[0.9]]).tolist()
['b']
"""

from __future__ import annotations

from votestream.compat.versions import warn_outside

warn_outside("skops", oldest="0.16", newest="0.16")

TRUSTED = [
    "functools.partial",
    "torch.device",
    "votestream.compute.place.Place",
    "votestream.core.guard.Guard",
    "votestream.core.state.Naming",
    "votestream.core.state.State",
    "votestream.core.tasks.TaskLedger",
    "votestream.learners.exemplars.joint_probe.AllRows",
    "votestream.learners.exemplars.joint_probe.JointProbe",
    "votestream.learners.ours.gaussian_voting.GaussianVoting",
    "votestream.learners.statistics.fecam.FeCAM",
    "votestream.learners.statistics.foal.FOAL",
    "votestream.learners.statistics.foal._draw",
    "votestream.learners.statistics.klda.KLDA",
    "votestream.learners.statistics.klda._draw",
    "votestream.learners.statistics.ncm.NearestClassMean",
    "votestream.learners.statistics.random_features.Layer",
    "votestream.learners.statistics.random_features.RandomFeatureSums",
    "votestream.learners.statistics.randumb.RanDumb",
    "votestream.learners.statistics.ranpac.HeldOutSums",
    "votestream.learners.statistics.ranpac.RanPAC",
    "votestream.learners.statistics.ranpac._draw",
    "votestream.learners.statistics.rls.StreamingRidge",
    "votestream.learners.statistics.slda.StreamingLDA",
    "votestream.learners.statistics.srda.StreamingRDA",
    "votestream.memory.gaussian_memory.GaussianMemory",
    "votestream.memory.gaussians.ClassGaussians",
    "votestream.memory.gram.ClassGramSums",
    "votestream.memory.gram.GramSums",
    "votestream.memory.moments.ClassMoments",
    "votestream.memory.moments.Moments",
    "votestream.memory.pending.Pending",
    "votestream.memory.scatter.SharedScatter",
    "votestream.tracking.calibration.CalibrationSums",
    "votestream.tracking.drift.DriftWatch",
    "votestream.tracking.record.Record",
    "votestream.tracking.tallies.Confusions",
    "votestream.tracking.tallies.Course",
    "votestream.tracking.tallies.Lately",
    "votestream.tracking.tracker.Tracker",
    "votestream.tracking.tracker.record_bytes",
    "votestream.tracking.unit_moments.UnitMoments",
    "votestream.tracking.unknowns.NewestScores",
]
