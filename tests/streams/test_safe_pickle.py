"""Whatever bytes stand in a pickle, reading it costs no more than its size allows, and ends in our own words."""

from __future__ import annotations

import pickle
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import votestream as vs
from votestream.streams import safe_pickle
from votestream.streams.safe_pickle import read_pickle

from .samples import cifar_content, python2, python3


def read(content: bytes):
    Path("a").write_bytes(content)
    return read_pickle(Path("a"), "fetch it again")


def peak_of_refusing(content: bytes) -> int:
    Path("a").write_bytes(content)
    tracemalloc.start()
    try:
        with pytest.raises(vs.DataError, match="fetch it again"):
            read_pickle(Path("a"), "fetch it again")
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("protocol", range(5))
def test_plain_values_are_read_from_every_protocol(protocol):
    value = {
        "a": [1, -70000, 2**70, 1.5, None, True, False],
        "b": ("x", (), ("é", "y"), [[]], {}),
        "c": {"d": b"\x00\xff"},
    }
    value["again"] = value["b"]
    assert read(pickle.dumps(value, protocol)) == value


@pytest.mark.parametrize("write", [python2, python3, lambda value: pickle.dumps(value, 4)])
def test_arrays_are_read_whoever_wrote_them(write):
    content = cifar_content(20, 10, 0, b"labels")
    content[b"turned"] = np.asfortranarray(content[b"data"])
    found = read(write(content))
    np.testing.assert_array_equal(found[b"data"], content[b"data"])
    np.testing.assert_array_equal(found[b"turned"], content[b"data"])
    assert found[b"labels"] == content[b"labels"]


FOUR_GB = struct.pack("<I", 2**32 - 1)
HUGE = struct.pack("<Q", 2**62)


@pytest.mark.parametrize(
    "content",
    [
        b"]r" + FOUR_GB,  # the memo's index; without the end, which would make it right
        b"]p4294967295\n",
        b"T" + struct.pack("<i", 2**31 - 1),
        b"X" + FOUR_GB,
        b"B" + FOUR_GB,
        b"\x8d" + HUGE,
        b"\x8e" + HUGE,
        b"\x8b" + struct.pack("<i", 2**31 - 1),
        b"\x96" + HUGE,
        b"\x80\x04\x95" + HUGE,
    ],
    ids=["memo", "memo as text", "string", "text", "bytes", "long text", "long bytes", "number", "bytearray", "frame"],
)
def test_a_few_bytes_that_claim_gigabytes_take_none(content):
    assert peak_of_refusing(content) < 1_000_000


def test_nine_bytes_with_a_huge_memo_index_take_no_memory():
    tracemalloc.start()
    assert read(b"\x80\x02]r" + FOUR_GB + b".") == []
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()


def test_one_text_encoded_over_and_over_does_not_fill_the_memory():
    text = b"X" + struct.pack("<I", 50_000) + b"x" * 50_000 + b"q\x00"
    again = b"c_codecs\nencode\nh\x00X\x06\x00\x00\x00latin1\x86R"
    assert peak_of_refusing(b"\x80\x02](" + text + again * 2_000 + b"e.") < 5_000_000


def test_containers_that_double_at_every_level_are_not_unfolded():
    doubled = b"}q\x00" + b"".join(b"}(U\x01ah%cU\x01bh%cuq%c" % (level, level, level + 1) for level in range(60))
    found = read(b"\x80\x02" + doubled + b".")
    assert found[b"a"] is found[b"b"]


def test_a_key_as_deep_as_a_well_does_not_crash_python():
    deep = b"\x80\x02})" + b"\x85" * 200_000 + b"Ns."
    with pytest.raises(vs.DataError, match="a key that is no text"):
        read(deep)


def test_deep_nesting_is_read_or_refused_without_a_recursion_error():
    deep = b"\x80\x02" + b"](" * 50_000 + b"e" * 50_000 + b"."
    assert read(deep)
    with pytest.raises(vs.DataError, match="an odd array"):
        read(b"\x80\x02cnumpy\ndtype\n)" + b"\x85" * 50_000 + b"\x85R.")


def test_more_operations_than_any_data_file_needs_are_refused(monkeypatch):
    monkeypatch.setattr(safe_pickle, "MOST_OPERATIONS", 1000)
    assert len(read(b"\x80\x02](" + b"]" * 900 + b"e.")) == 900
    with pytest.raises(vs.DataError, match="more than 1,000 operations"):
        read(b"\x80\x02](" + b"]" * 1000 + b"e.")


@pytest.mark.parametrize(
    "content",
    [b"\x80\x02c\x1b[2J\nevil\n.", b"\x80\x02c" + b"a" * 50_000 + b"\nb\n.", b"S" + b"\x1b" * 50_000 + b"\n."],
)
def test_messages_are_short_and_without_control_characters(content):
    with pytest.raises(vs.DataError) as caught:
        read(content)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("write", [python2, python3, lambda value: pickle.dumps(value, 4)])
def test_mutated_files_are_read_or_refused_in_our_words_within_bounded_memory(write):
    """Bytes changed, cut out, doubled and replaced by operations: only DataError comes out."""
    rng = np.random.default_rng(15)
    content = cifar_content(3, 3, 0, b"labels")
    content[b"data"] = content[b"data"][:, :40].copy()
    whole = write(content)
    refused = 0
    tracemalloc.start()
    for _ in range(200):
        damaged = bytearray(whole)
        for _ in range(rng.integers(1, 5)):
            at, way = int(rng.integers(len(damaged))), int(rng.integers(4))
            if way == 0:
                damaged[at] = int(rng.integers(256))
            elif way == 1:
                del damaged[at : at + int(rng.integers(1, 30))]
            elif way == 2:
                damaged[at:at] = damaged[at : at + int(rng.integers(1, 60))]
            else:
                damaged[at:at] = rng.bytes(9)
        try:
            read(bytes(damaged))
        except vs.DataError:
            refused += 1
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 80 < refused < 200
    assert peak < 5_000_000
