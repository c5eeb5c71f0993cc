"""Programs may ask for a GPU and are told that there is none."""

import pytest

import rushlight as rl


def test_the_usual_choice_of_device_falls_to_the_cpu():
    assert rl.device("cuda" if rl.cuda.is_available() else "cpu").type == "cpu"
    assert rl.cuda.device_count() == 0


def test_seeding_gpus_without_any_changes_nothing():
    rl.manual_seed(3)
    rl.cuda.manual_seed_all(4)
    assert rl.initial_seed() == 3


@pytest.mark.parametrize("name", ["synchronize", "current_device", "get_device_name"])
def test_using_a_gpu_says_that_there_is_no_backend(name):
    with pytest.raises(AssertionError, match="not compiled with CUDA enabled"):
        getattr(rl.cuda, name)()


def test_a_tensor_on_a_gpu_is_refused_with_the_remedy():
    with pytest.raises(AssertionError, match="not compiled with CUDA[^$]*remedy"):
        rl.zeros(2, device="cuda")
