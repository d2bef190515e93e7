"""One reader over one log: `python -m perf.importer.readers NAME LOG`; prints what it counted."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path


def longhaul(path: str) -> int:
    """Longhaul's reader to rows of samples, scores and models."""
    return _longhaul(path, with_messages=False)


def longhaul_messages(path: str) -> int:
    """Longhaul's reader to rows of samples, scores, models and messages."""
    return _longhaul(path, with_messages=True)


def _longhaul(path: str, *, with_messages: bool) -> int:
    from longhaul.evallog.log import open_log
    from longhaul.importer import rows

    count = 0
    for sample in open_log(Path(path), path).samples():
        rows.sample_row(sample)
        for score in sample.scores:
            rows.score_row(score)
        for model, usage in sample.models.items():
            rows.model_row(model, usage)
        if with_messages:
            for message in sample.messages():
                rows.message_row(message)
        count += 1
    return count


def read_eval_log(path: str) -> int:
    """inspect_ai: the whole log in memory."""
    from inspect_ai.log import read_eval_log as read

    return len(read(path).samples or [])


def read_eval_log_samples(path: str) -> int:
    """inspect_ai: a generator of samples."""
    from inspect_ai.log import read_eval_log_samples as read

    return sum(1 for _ in read(path, all_samples_required=False))


def samples_df(path: str) -> int:
    """inspect_ai: a data frame of full samples."""
    from inspect_ai.analysis import samples_df as read

    return len(read(path, full=True, quiet=True))


def messages_df(path: str) -> int:
    """inspect_ai: a data frame of messages."""
    from inspect_ai.analysis import messages_df as read

    return len(read(path, quiet=True))


def zstd(path: str) -> int:
    """The limit: unpack every sample with libzstd, look at nothing."""
    return _unpack(path, len)


def zstd_and_scan(path: str) -> int:
    """The limit of a JSON reader: unpack, and let msgspec walk over the bytes without keeping anything."""
    import msgspec

    class Nothing(msgspec.Struct):
        pass

    return _unpack(path, msgspec.json.Decoder(Nothing).decode)


def _unpack(path: str, use: Callable[[bytes], object]) -> int:
    import zstandard

    from longhaul.evallog.archive import Archive

    unpacker = zstandard.ZstdDecompressor()
    count = 0
    with Archive(Path(path)) as archive, open(path, "rb") as file:
        for name, member in archive.members.items():
            if name.startswith("samples/"):
                file.seek(archive._offsets[name])
                use(unpacker.decompress(file.read(member.packed_bytes), max_output_size=member.size_bytes))
                count += 1
    return count


READERS: dict[str, Callable[[str], int]] = {
    reader.__name__: reader
    for reader in (
        *(longhaul, longhaul_messages, zstd, zstd_and_scan),
        *(read_eval_log, read_eval_log_samples, samples_df, messages_df),
    )
}

if __name__ == "__main__":
    os.environ.setdefault("INSPECT_DISPLAY", "none")
    print(READERS[sys.argv[1]](sys.argv[2]))
