"""What a thread switches on is its own."""

import threading

from rushlight.core import state


def in_a_new_thread(function):
    found = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


def test_a_thread_starts_with_gradients_on_and_no_keys_changed():
    facts = in_a_new_thread(
        lambda: (
            state.is_grad_enabled(),
            state.is_inference_mode_enabled(),
            state.is_anomaly_enabled(),
            state.included_keys(),
            state.excluded_keys(),
        )
    )
    assert facts == (True, False, False, 0, 0)


def test_switches_of_one_thread_leave_the_others_alone():
    assert state.set_grad_enabled(False) is True
    try:
        assert in_a_new_thread(state.is_grad_enabled) is True
        assert state.is_grad_enabled() is False
    finally:
        assert state.set_grad_enabled(True) is False


def test_setting_returns_what_was_before():
    assert state.set_inference_mode(True) is False
    assert state.set_inference_mode(False) is True
    assert state.set_anomaly(True, False) == (False, True)
    assert state.is_anomaly_enabled() and not state.is_anomaly_check_nan_enabled()
    assert state.set_anomaly(False) == (True, False)
    assert state.set_hooks_enabled(True) is False
    assert state.set_hooks_enabled(False) is True


def test_key_sets_keep_all_64_bits():
    before = state.set_keys(1 << 63, (1 << 64) - 1)
    try:
        assert state.included_keys() == 1 << 63
        assert state.excluded_keys() == (1 << 64) - 1
    finally:
        state.set_keys(*before)


def test_many_threads_come_and_go():
    for _ in range(200):
        assert in_a_new_thread(state.is_grad_enabled)
