"""What a program chooses for saving and loading, as PyTorch's choices do."""

import io
import mmap
import os
import pickle
import sys
import types
import zipfile

import pytest

import rushlight as rl
from rushlight import serialization

torch = pytest.importorskip("torch", reason="the oracle is not installed")
OTHER = {"little": "big", "big": "little"}[sys.byteorder]
DTYPES = ["float64", "float32", "float16", "bfloat16", "int64", "int16", "uint8", "bool",
          "complex64", "complex128"]  # fmt: skip


def saved(library, value, **options):
    file = io.BytesIO()
    library.save(value, file, **options)
    file.seek(0)
    return file


def with_order(file, order):
    """An archive whose ``byteorder`` says something else, or nothing."""
    made = io.BytesIO()
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(made, "w") as new:
        for info in old.infolist():
            own = info.filename.endswith("/byteorder")
            if not own or order is not None:
                new.writestr(info.filename, order if own else old.read(info))
    made.seek(0)
    return made


@pytest.mark.parametrize("name", DTYPES)
def test_files_of_the_other_byte_order_are_turned_round(name):
    value = torch.arange(1, 4).to(getattr(torch, name))
    data = with_order(saved(torch, value), OTHER).getvalue()
    theirs = torch.load(io.BytesIO(data)).untyped_storage().tolist()
    assert rl.load(io.BytesIO(data)).untyped_storage().tolist() == theirs


@pytest.mark.parametrize("choice", ["NATIVE", "LITTLE", "BIG", None])
def test_files_that_do_not_say_their_order_have_the_chosen_one(choice):
    data = with_order(saved(torch, torch.tensor([1, 256])), None).getvalue()
    found = []
    for library in rl, torch:
        kinds = library.serialization
        kinds.set_default_load_endianness(choice and kinds.LoadEndianness[choice])
        try:
            found.append(library.load(io.BytesIO(data)).tolist())
        finally:
            kinds.set_default_load_endianness(None)
    assert found[0] == found[1]
    with pytest.raises(TypeError, match="Invalid argument type"):
        serialization.set_default_load_endianness("little")


def test_an_unknown_byte_order_is_named():
    data = with_order(saved(torch, torch.ones(1)), "sideways").getvalue()
    for library in rl, torch:
        with pytest.raises(ValueError, match="Unknown endianness type"):
            library.load(io.BytesIO(data))


def test_the_order_is_left_out_on_demand():
    file = saved(rl, rl.ones(2), _disable_byteorder_record=True)
    assert "archive/byteorder" not in zipfile.ZipFile(file).namelist()
    file.seek(0)
    assert torch.load(file).tolist() == [1, 1]


def test_checksums_are_left_out_on_demand_and_not_missed():
    for library in rl, torch:
        assert library.serialization.get_crc32_options() is True
        library.serialization.set_crc32_options(False)
        try:
            file = saved(library, {"x": library.ones(3)})
        finally:
            library.serialization.set_crc32_options(True)
        assert {info.CRC for info in zipfile.ZipFile(file).infolist()} == {0}
        for reader in rl, torch:
            file.seek(0)
            assert reader.load(file)["x"].tolist() == [1, 1, 1]


@pytest.mark.parametrize("writer", [rl, torch], ids=["ours", "theirs"])
def test_numbers_that_were_skipped_are_zeros(writer):
    with writer.serialization.skip_data():
        file = saved(writer, {"x": writer.ones(3)})
    for reader in rl, torch:
        file.seek(0)
        assert reader.load(file)["x"].tolist() == [0, 0, 0]
    file = saved(writer, {"x": writer.ones(3)})
    with rl.serialization.skip_data():
        assert rl.load(file)["x"].shape == (3,)


def test_a_shared_mapping_writes_to_the_file(tmp_path):
    path = tmp_path / "model.pt"
    rl.save({"x": rl.ones(4)}, path)
    with serialization.set_default_mmap_options(mmap.MAP_SHARED):
        rl.load(path, mmap=True)["x"].fill_(7)
    assert serialization.get_default_mmap_options() == mmap.MAP_PRIVATE
    assert torch.load(path, mmap=True)["x"].tolist() == [7] * 4
    with pytest.raises(
        ValueError, match="expected mmap.MAP_PRIVATE or mmap.MAP_SHARED"
    ):
        serialization.set_default_mmap_options(77)


def test_mapping_wants_a_path_and_an_archive(tmp_path):
    path = tmp_path / "old.pt"
    torch.save({}, path, _use_new_zipfile_serialization=False)
    for library in rl, torch:
        with pytest.raises(
            RuntimeError, match="mmap can only be used with files saved"
        ):
            library.load(path, mmap=True)
        with pytest.raises(ValueError, match="f must be a file path"):
            library.load(saved(torch, {}), mmap=True)


VALUES = {
    "shared": lambda t: (lambda x: {"a": x, "b": x.view(2, 3).t()[1:]})(t.arange(6.0)),
    "parameter": lambda t: t.nn.Parameter(t.ones(2)),
    "empty": lambda t: [t.empty(0, 3), t.tensor(2)],
    "plain": lambda t: {"a": (1, None, 2.5), "b": t.Size([2]), "c": t.float16},
}


@pytest.mark.parametrize("case", VALUES)
def test_pytorch_reads_the_old_format_that_we_write(case):
    file = saved(rl, VALUES[case](rl), _use_new_zipfile_serialization=False)
    theirs, wanted = torch.load(file), VALUES[case](torch)
    assert str(theirs) == str(wanted)
    file.seek(0)
    assert str(rl.load(file)).replace("rushlight", "torch") == str(wanted)
    if case == "shared":
        theirs["a"][1] = 50
        assert theirs["b"][0, 0] == 50


class Device:
    """What a package outside calls a device."""


def test_a_device_from_outside_is_registered_with_its_name():
    places = serialization._package_registry
    before = list(places)
    try:
        serialization.register_package(
            5,
            lambda storage: "shelf:0",
            lambda s, place: s if place == "shelf:0" else None,
        )
        file = saved(rl, rl.ones(2))
        assert serialization.location_tag(rl.ones(1).untyped_storage()) == "shelf:0"
        assert rl.load(file).tolist() == [1, 1]
        places[:] = before
        file.seek(0)
        with pytest.raises(
            RuntimeError, match=r"UntypedStorage \(tagged with shelf:0\)"
        ):
            rl.load(file)
        file.seek(0)
        assert rl.load(file, map_location={"shelf:0": "cpu"}).tolist() == [1, 1]
    finally:
        places[:] = before


@pytest.mark.parametrize("place", ["xyz", "cuda", "cuda:1", "cpu"])
def test_places_that_are_not_here_are_refused_in_pytorchs_words(place):
    answers = []
    for library in rl, torch:
        try:
            answers.append(library.load(saved(torch, torch.ones(2)), place).tolist())
        except RuntimeError as error:
            answers.append(str(error).replace("rushlight", "torch")[:60])
    assert answers[0] == answers[1]


def test_the_environment_chooses_what_may_run(monkeypatch):
    file = saved(torch, {"x": io.BytesIO})
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    with pytest.warns(UserWarning, match="forcing weights_only=False"):
        assert rl.load(file) == {"x": io.BytesIO}
    monkeypatch.setenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "yes")
    with pytest.raises(RuntimeError, match="but both were set"):
        rl.load(file)
    monkeypatch.delenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD")
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="GLOBAL _io.BytesIO was not an"):
        rl.load(file, weights_only=False)


def test_a_pickle_module_reads_what_is_trusted():
    class Reader(pickle.Unpickler):
        used = []

        def load(self):
            self.used.append(1)
            return super().load()

    module = types.SimpleNamespace(Unpickler=Reader)
    file = saved(rl, {"x": rl.ones(1)})
    assert rl.load(file, pickle_module=module, weights_only=False)["x"].tolist() == [1]
    assert Reader.used
    with pytest.raises(RuntimeError, match="when explicit pickle_module is specified"):
        rl.load(file, pickle_module=module, weights_only=True)


def test_names_that_load_would_refuse_are_listed_as_pytorch_lists_them(tmp_path):
    value = {"a": os.getcwd, "b": io.BytesIO, "c": rl.ones(1)}
    path = tmp_path / "x.pt"
    rl.save(value, path)
    wanted = sorted(torch.serialization.get_unsafe_globals_in_checkpoint(path))
    assert sorted(serialization.get_unsafe_globals_in_checkpoint(path)) == wanted
    with open(path, "rb") as file:
        assert sorted(serialization.get_unsafe_globals_in_checkpoint(file)) == wanted
    old = saved(rl, value, _use_new_zipfile_serialization=False)
    assert sorted(serialization.get_unsafe_globals_in_checkpoint(old)) == wanted


def test_modules_that_can_do_anything_stay_blocked():
    file = saved(rl, {"x": os.getcwd})
    with serialization.safe_globals([os.getcwd]):
        with pytest.raises(pickle.UnpicklingError, match="module posix is blocked"):
            rl.load(file)


def test_pairs_of_safe_globals_are_an_object_and_a_name():
    with pytest.raises(ValueError, match="Expected tuple of length 2"):
        serialization.add_safe_globals([(1, 2, 3)])
    with pytest.raises(TypeError, match="str of callable full path"):
        serialization.add_safe_globals([(Device, Device)])


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_archives_with_programs_are_refused_with_the_reason(tmp_path):
    path = tmp_path / "package.pt"
    with torch.package.PackageExporter(path) as exporter:
        exporter.save_pickle("m", "x.pkl", {"a": torch.ones(2)})
    for trusting in False, True:
        with pytest.raises(RuntimeError, match="PackageExporter.*would have to run"):
            rl.load(path, weights_only=not trusting)


def test_records_that_lie_over_one_another_are_refused():
    tensors = {str(i): rl.zeros(1000) for i in range(20)}
    data = saved(rl, tensors).getvalue()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        program = archive.read("archive/data.pkl")
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as bomb:
        bomb.writestr("archive/data.pkl", program)
        bomb.writestr("archive/version", b"3\n")
        bomb.writestr("archive/data/0", bytes(4000))
        (first,) = [i for i in bomb.infolist() if i.filename.endswith("data/0")]
        for i in range(1, 20):
            again = zipfile.ZipInfo(f"archive/data/{i}")
            for name in "header_offset", "CRC", "file_size", "compress_size":
                setattr(again, name, getattr(first, name))
            bomb.filelist.append(again)
            bomb.NameToInfo[again.filename] = again
    file.seek(0)
    with pytest.raises(RuntimeError, match="lies over others"):
        rl.load(file)


@pytest.mark.parametrize(
    "name", ["load", "save", *torch.serialization.__all__], ids=str
)
def test_every_name_is_there(name):
    if "hpu" in name or name == "StorageType":
        pytest.skip("a name for hardware, or an annotation, that few programs use")
    assert hasattr(serialization, name)
