"""Files keep what programs set on tensors, and the classes of tensors, as PyTorch's do."""

import io

import pytest

import rushlight as rl

torch = pytest.importorskip("torch", reason="the oracle is not installed")


class Tagged(rl.Tensor):
    """A user's class of tensors, without a way of its own into files."""


class TakenApart(rl.Tensor):
    """A user's class of tensors that says what it is made of."""

    def __reduce_ex__(self, protocol):
        return rl.zeros, (2,)


def there_and_back(value, old=False, write=rl, read=rl, **options):
    file = io.BytesIO()
    write.save(value, file, _use_new_zipfile_serialization=not old)
    file.seek(0)
    return read.load(file, **options)


def tensors_with_attributes(module):
    plain = module.arange(4.0)[1:]
    sparse, parameter = module.eye(2).to_sparse(), module.nn.Parameter(module.ones(2))
    meta = module.ones(2, device="meta")
    for tensor in (plain, sparse, parameter, meta):
        tensor.tag = [1, {"a": 2}]
    return [plain, sparse, parameter, meta]


@pytest.mark.parametrize("old", [False, True])
def test_attributes_come_back_in_both_formats_and_from_both_sides(old):
    for write, read in ((rl, rl), (rl, torch), (torch, rl)):
        given = tensors_with_attributes(write)
        found = there_and_back(given, old, write, read)
        for before, after in zip(given, found, strict=True):
            assert after.tag == [1, {"a": 2}]
            assert type(after).__name__ == type(before).__name__
            assert after.requires_grad == before.requires_grad
            if before.device.type == "cpu":
                assert after.to_dense().tolist() == before.to_dense().tolist()


def test_classes_of_tensors_come_back_where_the_file_is_trusted():
    tagged = rl.ones(2).as_subclass(Tagged)
    tagged.tag = 3
    found = there_and_back({"a": tagged, "b": [tagged]}, weights_only=False)
    assert type(found["a"]) is Tagged and found["a"].tag == 3
    assert found["a"] is found["b"][0]
    with rl.serialization.safe_globals([Tagged]):
        assert type(there_and_back(tagged)) is Tagged
    with pytest.raises(Exception, match="not an allowed global"):
        there_and_back(tagged)
    made = there_and_back(rl.ones(3).as_subclass(TakenApart), weights_only=False)
    assert type(made) is rl.Tensor and made.tolist() == [0, 0]


def test_modules_whose_shapes_are_not_known_yet_can_be_saved():
    for make in (
        lambda: rl.nn.LazyLinear(4),
        lambda: rl.nn.LazyBatchNorm1d(),
    ):
        module = there_and_back(make(), weights_only=False)
        assert module.has_uninitialized_params()
        assert module(rl.ones(2, 3)).ndim == 2
        state = there_and_back(make().state_dict(), weights_only=False)
        assert list(state) == list(make().state_dict())


def test_what_a_hostile_file_says_of_a_class_is_refused():
    from rushlight.serialization._names import _rebuild_meta, _rebuild_of_type

    sizes = rl.float32, (2,), (1,), False
    assert _rebuild_of_type(_rebuild_meta, rl.Tensor, sizes, {}).device.type == "meta"
    for build, kind, state in (
        (dict, rl.Tensor, {}),
        (_rebuild_meta, dict, {}),
        (_rebuild_meta, "Tensor", {}),
        (_rebuild_meta, rl.Tensor, [1]),
        (_rebuild_meta, rl.Tensor, ({}, 3)),
    ):
        with pytest.raises(Exception, match="tensor"):
            _rebuild_of_type(build, kind, sizes, state)
