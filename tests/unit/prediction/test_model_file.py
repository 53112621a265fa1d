"""Model files: equal after a round trip, and harmless whatever they hold."""

import json
import pickle
import zipfile

import numpy as np
import pytest

from brtheory.errors import InputError
from brtheory.prediction.features import FEATURES
from brtheory.prediction.model_file import LARGEST_BYTES, load_model, save_model
from brtheory.prediction.training import TrainingSettings, train
from brtheory.prediction.training_rows import TrainingRows


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    features = rng.uniform(0, 100, size=(600, len(FEATURES)))
    remaining = np.where(features[:, 0] < 50, rng.integers(1, 21, 600), 21)
    settings = TrainingSettings(trees=5)
    return train(TrainingRows(features, remaining), horizon=20, rng=rng, settings=settings)


@pytest.fixture
def file(model, tmp_path):
    path = tmp_path / "model.npz"
    save_model(model, path)
    return path


def rewritten(file, **changed):
    """The same file with other arrays; None leaves one out."""
    with np.load(file) as stored:
        arrays = dict(stored) | changed
    np.savez(file, **{name: array for name, array in arrays.items() if array is not None})
    return file


def with_header(file, **changed):
    with np.load(file) as stored:
        header = json.loads(stored["header"].tobytes()) | changed
    return rewritten(file, header=np.frombuffer(json.dumps(header).encode(), dtype=np.uint8))


def test_a_model_predicts_the_same_bits_after_a_round_trip(model, file):
    rows = np.random.default_rng(1).uniform(0, 100, size=(200, len(FEATURES)))
    loaded = load_model(file)
    assert [loaded.predict(row) for row in rows] == [model.predict(row) for row in rows]


def test_the_same_model_gives_the_same_file(model, file, tmp_path):
    save_model(model, tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == file.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again.npz", "model.npz"]


class Payload:
    """Leaves a mark if it is ever unpickled."""

    def __reduce__(self):
        return (np.savetxt, ("mark.txt", [1.0]))


@pytest.mark.parametrize("name", ["finish_value", "header", "stranger"])
def test_a_pickle_in_a_file_is_never_opened(file, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError):
        load_model(rewritten(file, **{name: np.array([Payload()], dtype=object)}))
    file.write_bytes(pickle.dumps(Payload()))
    with pytest.raises(InputError, match="npz file of plain arrays"):
        load_model(file)
    assert not (tmp_path / "mark.txt").exists()


def test_a_file_that_would_unpack_to_too_much_is_refused_before_it_is(file):
    with zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb.npy", bytes(LARGEST_BYTES))
    assert file.stat().st_size < LARGEST_BYTES // 100
    with pytest.raises(InputError, match="at most 67,108,864 bytes"):
        load_model(file)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"features": ["age"]}, "features: expected prompt_tokens"),
        ({"schema": "brtheory.predictor/9"}, "header"),
        ({"horizon": 0}, "at least 1 step"),
        ({"slope": -2.0}, "slope >= 0"),
        ({"slope": "steep"}, "header"),
        ({"stranger": 1}, "header"),
        ({"finish": {"base": 0.0, "depth": 99}}, "depth"),
    ],
)
def test_a_header_that_does_not_fit_is_refused_with_the_name_of_the_file(file, changed, message):
    with pytest.raises(InputError, match=message) as caught:
        load_model(with_header(file, **changed))
    assert str(file) in str(caught.value)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"header": None}, "no header"),
        ({"header": np.zeros(3)}, "no header"),
        ({"mean_left": None}, "an array mean_left"),
        ({"mean_left": np.array([7000], dtype=np.int32)}, "left"),
        ({"finish_threshold": np.array(["x"])}, "threshold"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(file, changed, message):
    with pytest.raises(InputError, match=message):
        load_model(rewritten(file, **changed))


def test_a_truncated_file_is_refused(file):
    file.write_bytes(file.read_bytes()[:500])
    with pytest.raises(InputError, match="npz file of plain arrays"):
        load_model(file)


def test_damaged_contents_are_refused(file):
    content = bytearray(file.read_bytes())
    content[200:260] = bytes(60)
    file.write_bytes(content)
    with pytest.raises(InputError):
        load_model(file)


def test_names_and_missing_files_are_checked(model, tmp_path):
    with pytest.raises(InputError, match=r"ending in \.npz"):
        save_model(model, tmp_path / "model.pkl")
    with pytest.raises(InputError, match="no such file"):
        load_model(tmp_path / "nothing.npz")
