"""The accuracies that README.md and docs/ show are those of results/, to the last digit."""

from __future__ import annotations

import csv
import statistics
from pathlib import Path

import pytest

from votestream.bench.methods import OFFLINE
from votestream.bench.metrics import interval, measured
from votestream.bench.paper import STEPS, figure, in_steps
from votestream.bench.results import Results
from votestream.bench.suites import SUITES
from votestream.bench.tables import by_stream, stream_title

ROOT = Path(__file__).parent.parent
STREAMS = ("split-cifar100", "split-cifar10")
LITE = "efficientnet_lite0"
AFTER_THE_FIRST = ("Avg after the first", "Last")
COMPARED = {
    "GaussianVoting": ("online", "GaussianVoting", 1000),
    "SLDA": ("online", "SLDA", None),
    "nearest class mean": ("online", "NCM", None),
    "GaussianVoting, careful: several views and stages of the same frozen network": (
        ("online", "GaussianVoting, careful", 2000)
    ),
    "GaussianVoting (within 1.28 MB in all)": ("online", "GaussianVoting", 2000),
    "CandidatesVoting": ("online", "CandidatesVoting", 2000),
    'the same, read to the letter (`preset="paper"`)': ("online", "CandidatesVoting, to the letter", 2000),
    "RanPAC (at most 1.28 MB in all)": ("online", "RanPAC", 2000),
    "nearest neighbours (kNN)": ("online", "kNN", 2000),
    "GDumb": ("online", "GDUMB", 2000),
    "MIR": ("online", "MIR", 2000),
    "experience replay (ER)": ("online", "ER", 2000),
    "ASER": ("online", "ASER", 2000),
    "GSS": ("online", "GSS", 2000),
    "A-GEM": ("online", "A-GEM", 2000),
    "fine-tuning, nothing kept": ("online", "Fine-tuning", None),
    "FeCAM, a full covariance a class": ("online", "FeCAM", None),
    "linear probe on all features, gone over many times": ("ablation", "Upper bound: linear, on all features", None),
}
IN_THE_README = {  # method and Q in results/online.csv
    "GaussianVoting": ("GaussianVoting", 2000),
    "StreamingLDA": ("SLDA", None),
    "NearestClassMean": ("NCM", None),
    "CandidatesVoting": ("CandidatesVoting", 2000),
    "GDumb": ("GDUMB", 2000),
}
METHOD = {
    "as the paper says: largest logit (Baseline + EA)": ("ablation", "Baseline + EA, to the letter"),
    "as the paper says: nearest exemplar (+ CS(w/o))": ("ablation", "Baseline + EA + CS(w/o), to the letter"),
    "as the paper says: vote (+ CS(w))": ("ablation", "Baseline + EA + CS(w), to the letter"),
    "our defaults, not centred: vote": ("ablation", "Baseline + EA + CS(w), not centred"),
    "our defaults: largest logit (Baseline + EA)": ("ablation", "Baseline + EA"),
    "our defaults: vote": ("ablation", "Baseline + EA + CS(w)"),
    "our defaults, β = 0.5: vote": ("beta", "our defaults, beta 0.5"),
    "our defaults, without augmentation: vote": ("ablation", "Baseline + CS(w)"),
    "our defaults, 3 pairs a sample: vote": ("bytes", "CandidatesVoting, 3 pairs"),
}
BY_BUDGET = {
    "gaussian_voting": ("online", "GaussianVoting"),
    "candidates_voting, 3 pairs": ("bytes", "CandidatesVoting, 3 pairs"),
    "candidates_voting": ("online", "CandidatesVoting"),
    "er_features, 3 pairs": ("bytes", "Feature replay, 3 pairs"),
    "er_features": ("online", "Feature replay"),
    "knn": ("online", "kNN"),
    "ranpac": ("online", "RanPAC"),
}
OWN_SIZE = {
    "gaussian_voting": ("bytes", "GaussianVoting, no limit"),
    "joint": ("bytes", "Upper bound: linear, on all features"),
    "ranpac": ("bytes", "RanPAC, 2000 random features"),
    **{
        name: ("online", label)
        for name, label in (("fecam", "FeCAM"), ("slda", "SLDA"), ("ncm", "NCM"), ("rls", "RLS"))
    },
}
SINCE_THE_PAPER = {
    "gaussian_voting, Q = 2000": ("online", "GaussianVoting", 2000),
    "klda, 3 draws, Q = 2000": ("online", "KLDA", 2000),
    "randumb, Q = 2000": ("online", "RanDumb", 2000),
    "foal, Q = 2000": ("online", "F-OAL", 2000),
    "srda": ("online", "SRDA", None),
    "foal, 1,000 random features": ("bytes", "F-OAL, 1000 random features", None),
    "foal, 1,000 random features, on two stages": ("bytes", "F-OAL, 1000 random features, two stages", None),
    "randumb, 5,000 random features": ("bytes", "RanDumb, 5000 random features", None),
    "klda, 5 draws of 5,000 random features": ("bytes", "KLDA, 5 draws of 5000 random features", None),
}


def test_predicting_among_many_classes_is_what_was_measured():
    (table,) = table_rows("docs/choosing.md", "| 10,000 classes")
    for row, (name, *shown) in zip(rows_of("many_classes"), table, strict=True):
        assert name.startswith(row["features"])
        assert shown == [
            f"{int(row['rows_a_second']):,} ({row['share']})",
            f"{row['first_s']} s",
            f"{row['peak_MB']} MB ({row['times_model']} x {row['model_MB']})",
            f"{100 * float(row['same']):.2f} % of {int(row['held_out']):,}",
        ]


@pytest.fixture(scope="module")
def values():
    """All values of a metric, by suite, stream, method, Q and backbone."""
    found: dict[tuple, list[float]] = {}
    for suite in ("online", "ablation", "beta", "bytes"):
        tables = by_stream(SUITES[suite], Results(ROOT / "results" / "accuracy" / f"{suite}.csv").rows())
        for row in (row for rows in tables.values() for row in rows):
            key = suite, row["stream"], row["method"], int(row["Q"]) if row["Q"] else None, row["backbone"]
            for metric in ("Avg", "Last", "bytes"):
                if row[metric]:
                    found.setdefault((*key, metric), []).append(float(row[metric]))

    def get(metric, suite, stream, method, Q, backbone="reduced_resnet18"):
        return found.get((suite, stream, method, Q, backbone, metric), [])

    return get


def table_rows(path, heading):
    """Cells of each row of the tables whose first line begins like `heading`, one list a table."""
    tables: list[list[list[str]]] = []
    inside = False
    for line in (ROOT / path).read_text().splitlines():
        if line.lstrip().startswith("|") and (inside or line.startswith(heading)):
            if not inside:
                tables.append([])
            inside = True
            tables[-1].append([cell.strip().replace("**", "") for cell in line.strip().strip("|").split("|")])
        else:
            inside = False
    return [[row for row in table[2:] if any(row[1:])] for table in tables]


def mean(values):
    return f"{statistics.fmean(values):.1f}" if values else "–"


def spread(values):
    return f"{mean(values)} ± {interval(values):.1f}" if len(values) > 1 else mean(values)


def megabytes(values, small=10):
    if not values:
        return "–"
    size = statistics.fmean(values) / 1e6
    return f"{size:.2f}" if size < small else f"{size:.1f}" if small == 1 and size < 20 else f"{size:.0f}"


def test_the_readme_shows_what_the_bench_measured(values):
    (rows,) = table_rows("README.md", "| | Split CIFAR-100")
    assert [row[0].split("`")[1] for row in rows] == list(IN_THE_README)
    for (name, *shown), (method, Q) in zip(rows, IN_THE_README.values(), strict=True):
        measured = []
        for stream in STREAMS:
            measured.append(mean(values("Last", "online", stream, method, Q)))
            measured.append(megabytes(values("bytes", "online", stream, method, Q), small=1))
        assert shown == measured, name
    careful = [mean(values("Last", "online", stream, "GaussianVoting, careful", 2000)) for stream in STREAMS]
    assert f"reaches {' and '.join(careful)}" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_comparison_shows_what_the_bench_measured(values):
    (rows,) = table_rows("docs/accuracy.md", "| | MB | Split CIFAR-100")
    assert [row[0] for row in rows] == list(COMPARED)
    for name, size, *shown in rows:
        suite, method, Q = COMPARED[name]
        if size:
            assert size == " / ".join(megabytes(values("bytes", suite, s, method, Q), small=1) for s in STREAMS), name
        for stream, ours, papers in zip(STREAMS, shown[::2], shown[1::2], strict=True):
            measured = [values(metric, suite, stream, method, Q) for metric in ("Avg", "Last")]
            assert ours == " / ".join(map(mean, measured)), name
            row = "Ours" if method.startswith("Candidates") else method
            printed = [figure("online", stream, row, Q, metric) for metric in ("Avg", "Last")]
            assert papers == ("" if None in printed else " / ".join(f"{value:.1f}" for value in printed)), name


def test_last_by_budget_is_what_the_bench_measured(values):
    (table,) = table_rows("docs/reproduction.md", "  | Last (the paper's)")
    assert len(table) == 10
    for name, *shown in table:
        method = {"GDumb": "GDUMB"}.get(name, name)
        row = "Ours" if method.startswith("Candidates") else method.split(",")[0]
        cells = [(stream, Q) for stream in STREAMS for Q in (1000, 2000, 5000, 10_000)]
        for (stream, Q), text in zip(cells, shown, strict=True):
            printed = figure("online", stream, row, Q, "Last")
            papers = "" if printed is None else f" ({printed:.1f})"
            assert text == mean(values("Last", "online", stream, method, Q)) + papers, (name, Q)


def rows_of(name):
    (path,) = (ROOT / "results").glob(f"*/{name}.csv")
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_what_gss_keeps_is_what_was_measured():
    (table,) = table_rows("docs/reproduction.md", "  | kept in the end")
    shares = {
        f"{row['rule']}, {row['budget']} images": [f"{100 * float(row[f'task {n}']):.1f}" for n in range(1, 6)]
        for row in rows_of("gss_memory")
        if row["after task"] == "5"
    }
    assert {name: shown for name, *shown in table} == shares


def test_the_tasks_that_filled_gss_memory_end_as_the_bench_measured():
    (table,) = table_rows("docs/reproduction.md", "  | Last, by task")
    images = {"split-cifar100": 2500, "split-cifar10": 10_000}  # of a task, in the training part
    assert [name for name, *_ in table] == ["GSS", "GSS, to the letter", "ER"]
    rows = rows_of("online")
    for name, *shown in table:
        cells = [(stream, Q) for stream in STREAMS for Q in (1000, 2000, 5000, 10_000)]
        for (stream, Q), text in zip(cells, shown, strict=True):
            filling = max(1, Q // images[stream])
            own = [row for row in rows if (row["method"], row["stream"], row["Q"]) == (name, stream, str(Q))]
            ends = [[float(value) for value in row["by task"].split(";")[-1].split()] for row in own]
            assert len(ends) == 3
            parts = slice(filling), slice(filling, -1)
            averages = [mean([value for end in ends for value in end[part]]) for part in parts]
            assert text == " / ".join(averages), (name, stream, Q)


def test_the_speed_of_online_rivals_is_what_was_measured():
    lines = (ROOT / "docs" / "bench.md").read_text().splitlines()
    head = lines.index("| | ER | A-GEM | MIR | GSS | GSS, to the letter | ASER |")
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[head : head + 6]]
    learners = [name.replace("-", "").lower() for name in table[0][1:]]
    shown = {row[0]: dict(zip(learners, row[1:], strict=True)) for row in table[2:]}
    rows = rows_of("rivals_speed")
    for device, line in (("cuda", "time on the H200"), ("cpu", "time on the CPU")):
        times = {row["method"]: float(row["times er's"]) for row in rows if row["device"] == device}
        assert {name: text.split()[0] for name, text in shown[line].items() if text and name != "er"} == {
            name: f"{time:.1f}" for name, time in times.items() if name != "er"
        }


def test_the_speed_of_photos_is_what_was_measured():
    (table,) = table_rows("docs/photos.md", "| photos | cores |")
    fields = ("photos", "cores", "of_the_slower", "of_both_in_turn", "learner")
    assert table == [[row[field] for field in fields] for row in rows_of("photo_speed")]


def test_the_speed_of_photos_beside_a_gpu_is_what_was_measured():
    (table,) = table_rows("docs/photos.md", "| photos, beside a GPU |")
    assert table == [
        [
            row["photos"],
            f"{float(row['photos_per_second']):,.0f}",
            row["of_the_slower"],
            f"{float(row['by_processes']):,.0f}",
            row["processes_of_the_slower"],
        ]
        for row in rows_of("photo_speed_cuda")
    ]


def test_what_many_workers_do_is_what_was_measured():
    (table,) = table_rows("docs/scale.md", "| images, times one process |")
    measured = {}
    for row in rows_of("scale_out_h200"):
        if row["what"] == "images" and row["on"] != "here":
            name = row["detail"].split(",")[0] + (" on the H200" if row["device"] == "cuda" else "")
            measured[f"{name}, {row['on']}", row["workers"]] = f"{float(row['times here']):.2f}"
    shown = {
        (name, n): text for name, *texts in table for n, text in zip(("1", "2", "4", "8", "16"), texts, strict=True)
    }
    assert {cell: text for cell, text in shown.items() if text} == measured


def test_the_speed_of_the_service_is_what_was_measured():
    (table,) = table_rows("docs/serve.md", "| over HTTP, beside")
    told = {(row["what"], row["images"]): row for row in rows_of("serve_speed")}
    kinds = list(dict.fromkeys(images for _, images in told))
    shown = {(what, kind): text for what, *texts in table for kind, text in zip(kinds, texts, strict=True)}
    assert shown == {
        cell: f"{row['overhead_ms']} ms more" if row["overhead_ms"] else f"{row['ratio']} times"
        for cell, row in told.items()
    }


@pytest.fixture(scope="module")
def in_many_passes():
    """Avg after the first task and Last of `offline`, as docs show them: ours, and the paper's."""
    rows = Results(ROOT / "results" / "accuracy" / "offline.csv").rows()

    def get(method, step, backbone="reduced_resnet18"):
        own = [row for row in rows if (row["method"], row["backbone"]) == (method, backbone)]
        own = [row for row in own if stream_title(SUITES["offline"], row) == in_steps(step)]
        return " / ".join(mean([measured(row, metric) for row in own]) for metric in AFTER_THE_FIRST) if own else ""

    def printed(paper_row, step):
        values = [figure("offline", in_steps(step), paper_row, Q, m) for m in AFTER_THE_FIRST for Q in (2000, None)]
        return " / ".join(f"{value:.1f}" for value in values if value is not None)

    return get, printed


def test_ours_in_the_offline_comparison_is_what_the_bench_measured(in_many_passes):
    get, printed = in_many_passes
    (table,) = table_rows("docs/reproduction.md", "  | CIFAR-100 in steps of")
    methods = {name: name for name in ("CandidatesVoting", "GaussianVoting")}
    methods["to the letter"] = "CandidatesVoting, to the letter"
    assert {row[0] for row in table} > {"the paper", *methods}
    for name, *shown in table:
        if name == "the paper":
            assert shown == [printed("Ours", step) for step in STEPS]
        elif name in methods:
            assert shown == [get(methods[name], step, LITE) for step in STEPS], name


def test_the_offline_rivals_are_what_the_bench_measured(in_many_passes):
    get, printed = in_many_passes
    (table,) = table_rows("docs/reproduction.md", "  | CIFAR-100, many passes")
    assert len(table) == 13
    for name, *shown in table:
        method = name.split(",")[0]
        ours = method if "one pass" in name else None
        row = "Ours" if ours == "CandidatesVoting" else method.upper() if method in OFFLINE else method
        for step, measured_here, papers in zip((50, 20, 10, 5), shown[::2], shown[1::2], strict=True):
            assert measured_here == get(ours or f"{name}, short", step), (name, step)
            assert papers == printed(row, step), (name, step)


def test_the_offline_rivals_with_all_their_passes_are_what_the_bench_measured(in_many_passes):
    get, printed = in_many_passes
    (table,) = table_rows("docs/reproduction.md", "  | CIFAR-100, all passes")
    assert len(table) == 5
    for name, *shown in table:
        row = name.split(",")[0].upper()
        for step, measured_here, papers in zip((20, 10, 5), shown[::2], shown[1::2], strict=True):
            assert measured_here == get(name, step), (name, step)
            assert papers == printed(row, step), (name, step)


def test_the_parts_of_the_method_are_worth_what_the_bench_measured(values):
    (rows,) = table_rows("docs/method.md", "| Avg / Last |")
    assert [row[0] for row in rows] == list(METHOD)
    for name, *shown in rows:
        for stream, text in zip(STREAMS, shown, strict=True):
            measured = [values(metric, METHOD[name][0], stream, METHOD[name][1], 2000) for metric in ("Avg", "Last")]
            assert text == " / ".join(map(spread, measured)), name


def test_rivals_since_the_paper_are_what_the_bench_measured(values):
    (table,) = table_rows("docs/choosing.md", "| since the paper")
    assert [row[0] for row in table] == list(SINCE_THE_PAPER)
    for name, *shown in table:
        suite, method, Q = SINCE_THE_PAPER[name]
        for stream, last, size in zip(STREAMS, shown[::2], shown[1::2], strict=True):
            assert last == spread(values("Last", suite, stream, method, Q)), name
            assert size == f"{megabytes(values('bytes', suite, stream, method, Q))} MB", name


def test_accuracy_against_bytes_is_what_the_bench_measured(values):
    tables = table_rows("docs/choosing.md", "| CIFAR-")
    streams = [(STREAMS[0], "reduced_resnet18"), (STREAMS[1], "reduced_resnet18"), (STREAMS[0], LITE)]
    for (stream, backbone), rows in zip(streams, tables, strict=True):
        assert {row[0] for row in rows} == set(BY_BUDGET)
        for name, *shown in rows:
            suite, method = BY_BUDGET[name]
            for Q, text in zip((1000, 2000, 5000, 10_000), shown, strict=True):
                assert text == spread(values("Last", suite, stream, method, Q, backbone)), (name, Q, backbone)
    own = table_rows("docs/choosing.md", "| of its own size")
    for backbone, rows in zip(("reduced_resnet18", LITE), own, strict=True):
        assert {row[0] for row in rows} == set(OWN_SIZE)
        for name, *shown in rows:
            suite, method = OWN_SIZE[name]
            for stream, last, size in zip(STREAMS, shown[::2], shown[1::2], strict=False):
                assert last == spread(values("Last", suite, stream, method, None, backbone)), (name, backbone)
                assert size == f"{megabytes(values('bytes', suite, stream, method, None, backbone))} MB", name
