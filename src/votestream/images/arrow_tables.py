"""Arrow tables and Parquet files with a column of images and one of labels, read in small batches."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from votestream.common.extras import import_package
from votestream.images.files import ImageError, open_image
from votestream.images.pairs import IMAGE_NAMES, LABEL_NAMES, Columns, Pair, as_image, chosen, named
from votestream.images.urls import Place

ROWS = 64  # read at once; files that come along in them are held together


def is_arrow(thing: Any) -> bool:
    """Whether this is a table, data set or reader of pyarrow."""
    pa = sys.modules.get("pyarrow")
    if pa is None:
        return False
    dataset = sys.modules.get("pyarrow.dataset")
    kinds = (pa.Table, pa.RecordBatchReader, *((dataset.Dataset,) if dataset is not None else ()))
    return isinstance(thing, kinds)


def pairs_of_table(table: Any, name: str, columns: Columns) -> Iterator[Pair]:
    """The pairs of a pyarrow Table, Dataset or RecordBatchReader."""
    batches = table.to_batches() if hasattr(table, "to_batches") else table
    return _pairs(batches, table.schema, name, columns)


def pairs_of_file(path: Place, columns: Columns) -> Iterator[Pair]:
    """The pairs of a Parquet or Arrow file; of a Parquet file nothing but the two columns is read."""
    pa = import_package("pyarrow", f"reading {path}")
    try:
        with open_image(path) as file:
            if path.suffix.lower() in (".parquet", ".pq"):
                parquet = import_package("pyarrow.parquet", f"reading {path}")
                whole = parquet.ParquetFile(file, pre_buffer=False)  # else all of the file is in memory at the end
                found = _find(whole.schema_arrow, str(path), columns)
                batches = whole.iter_batches(ROWS, columns=[found.image, found.label])
                yield from _pairs(batches, whole.schema_arrow, str(path), found)
            else:
                reader = _arrow_reader(pa, file)
                yield from _pairs(_batches(reader), reader.schema, str(path), columns)
    except (pa.ArrowException, OSError) as error:
        raise ImageError(f"{path} cannot be read: {str(error).rstrip('.')}.") from error


def _arrow_reader(pa: Any, file: Any) -> Any:
    """A file that can be read in any order (Feather), or one that was written as a stream, as by `datasets`."""
    try:
        return pa.ipc.open_file(file)
    except pa.ArrowInvalid:
        file.seek(0)
        return pa.ipc.open_stream(file)


def _batches(reader: Any) -> Iterator[Any]:
    if hasattr(reader, "num_record_batches"):
        return (reader.get_batch(i) for i in range(reader.num_record_batches))
    return iter(reader)


def _pairs(batches: Iterable[Any], schema: Any, name: str, columns: Columns) -> Iterator[Pair]:
    image, label = _find(schema, name, columns)
    names = (_described(schema).get(str(label)) or {}).get("names")
    row = 0
    for whole in batches:
        for start in range(0, whole.num_rows, ROWS):
            part = whole.slice(start, ROWS)
            pairs = zip(part.column(image).to_pylist(), part.column(label).to_pylist(), strict=True)
            for value, number in pairs:
                called = f"row {row} of {name}"
                yield as_image(value, called), named(number, names, called)
                row += 1


def _find(schema: Any, name: str, columns: Columns) -> Columns:
    """Find the two columns: by Hugging Face's description of the table, by their types, or by their names."""
    described = _described(schema)

    def of_kind(kind: str) -> list[str]:
        return [column for column in schema.names if (described.get(column) or {}).get("_type") == kind]

    images = of_kind("Image") or [field.name for field in schema if _holds_images(field.type)]
    labels = of_kind("ClassLabel") or [field.name for field in schema if _holds_labels(field.type)]
    return Columns(
        _one("image", columns.image, images, schema.names, IMAGE_NAMES, name),
        _one("label", columns.label, labels, schema.names, LABEL_NAMES, name),
    )


def _one(what: str, asked: str | None, fitting: list[str], there: list[str], usual: tuple[str, ...], name: str) -> str:
    if asked is None and len(fitting) == 1:
        return fitting[0]
    return chosen(what, asked, there, [each for each in usual if each in fitting], name)


def _holds_images(kind: Any) -> bool:
    types = import_package("pyarrow.types", "reading a table")
    if types.is_struct(kind):
        return "bytes" in [kind.field(i).name for i in range(kind.num_fields)]
    return bool(types.is_binary(kind) or types.is_large_binary(kind))


def _holds_labels(kind: Any) -> bool:
    types = import_package("pyarrow.types", "reading a table")
    if types.is_dictionary(kind):
        kind = kind.value_type
    return bool(types.is_integer(kind) or types.is_string(kind) or types.is_large_string(kind))


def _described(schema: Any) -> dict[str, Any]:
    """The description of the columns that `datasets` has written."""
    try:
        about = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        return dict(about["info"]["features"])
    except (ValueError, KeyError, TypeError):
        return {}
