"""Learned models on disk: arrays and one JSON header in an .npz file, never a pickle.

A file is untrusted: sizes are checked before anything is unpacked, NumPy is told to refuse
objects, the header is a strict contract, and the trees check every node themselves. The worst a
bad file can do is raise ``InputError``.
"""

import zipfile
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from brtheory.contracts import Contract, parse_contract
from brtheory.errors import InputError
from brtheory.files import atomic_path
from brtheory.prediction.features import FEATURES
from brtheory.prediction.trees import TreeEnsemble
from brtheory.prediction.two_stage import TwoStageModel

LARGEST_BYTES = 64 << 20
"""Most bytes a model may unpack to."""
HEADER = "header"
STAGES = ("finish", "mean")
COLUMNS = ("roots", "feature", "left", "right", "threshold", "value")


class StageHeader(Contract):
    """Numbers of one stage's trees."""

    base: float
    depth: int


class ModelHeader(Contract):
    """Header of a model file."""

    format: Literal["brtheory.predictor/1"] = Field("brtheory.predictor/1", alias="schema")
    features: tuple[str, ...] = Field(strict=False, description="Columns of a row, in order.")
    horizon: int
    slope: float
    intercept: float
    finish: StageHeader
    mean: StageHeader


def save_model(model: TwoStageModel, path: Path) -> None:
    """Write a model; whole or not at all, and the same bytes for the same model.

    Raises
    ------
    InputError
        If the name does not end in ``.npz``.
    """
    _check_suffix(path)
    header = ModelHeader(
        schema="brtheory.predictor/1",
        features=FEATURES,
        horizon=model.horizon,
        slope=model.slope,
        intercept=model.intercept,
        finish=StageHeader(base=model.finish.base, depth=model.finish.depth),
        mean=StageHeader(base=model.mean.base, depth=model.mean.depth),
    )
    text = header.model_dump_json(by_alias=True).encode()
    arrays: dict[str, NDArray[np.generic]] = {HEADER: np.frombuffer(text, dtype=np.uint8)}
    for stage in STAGES:
        trees: TreeEnsemble = getattr(model, stage)
        arrays |= {f"{stage}_{column}": getattr(trees, column) for column in COLUMNS}
    with atomic_path(path) as part, part.open("wb") as stream:
        np.savez_compressed(stream, allow_pickle=False, **arrays)


def load_model(path: Path) -> TwoStageModel:
    """Read a model.

    Raises
    ------
    InputError
        If the file is none, is too large, or holds anything that does not fit.
    """
    _check_suffix(path)
    arrays = _read_arrays(path)
    if HEADER not in arrays or arrays[HEADER].dtype != np.uint8:
        raise InputError(str(path), "a predictor made by `brtheory predict train`", "no header")
    text = arrays[HEADER].tobytes().decode(errors="replace")
    header = parse_contract(text, ModelHeader, name=f"{path}: {HEADER}")
    if header.features != FEATURES:
        raise InputError(f"{path}: features", ", ".join(FEATURES), ", ".join(header.features))
    try:
        return TwoStageModel(
            horizon=header.horizon,
            finish=_trees(arrays, "finish", header.finish),
            mean=_trees(arrays, "mean", header.mean),
            slope=header.slope,
            intercept=header.intercept,
        )
    except InputError as error:
        raise InputError(f"{path}: {error.where}", error.expected, error.got) from error


def _trees(arrays: dict[str, NDArray[np.generic]], stage: str, header: StageHeader) -> TreeEnsemble:
    columns = {}
    for column in COLUMNS:
        name = f"{stage}_{column}"
        if name not in arrays:
            raise InputError(stage, f"an array {name}", "none")
        columns[column] = arrays[name]
    return TreeEnsemble(base=header.base, depth=header.depth, **columns)  # type: ignore[arg-type]  # dtypes are checked by TreeEnsemble


def _read_arrays(path: Path) -> dict[str, NDArray[np.generic]]:
    try:
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(member.file_size for member in archive.infolist())
        if unpacked > LARGEST_BYTES:
            raise InputError(str(path), f"at most {LARGEST_BYTES:,} bytes", f"{unpacked:,}")
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except FileNotFoundError as error:
        raise InputError(str(path), "a model file", "no such file") from error
    except (zipfile.BadZipFile, ValueError, EOFError, KeyError, NotImplementedError) as error:
        raise InputError(str(path), "an .npz file of plain arrays", str(error)) from error


def _check_suffix(path: Path) -> None:
    if path.suffix != ".npz":
        raise InputError(str(path), "a file ending in .npz", path.name)
