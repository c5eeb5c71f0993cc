"""Backward passes of several threads lose nothing."""

import threading

import rushlight as rl


def test_threads_that_reach_one_leaf_each_leave_their_gradient():
    leaf = rl.zeros(200_000, requires_grad=True)
    passes, count = 20, 4
    start = threading.Barrier(count)

    def work():
        start.wait()
        for _ in range(passes):
            (leaf * 2.0).sum().backward()

    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wanted = 2.0 * passes * count
    assert leaf.grad.min().item() == wanted
    assert leaf.grad.max().item() == wanted


def test_a_graph_that_one_thread_frees_is_refused_to_another():
    for _ in range(50):
        leaf = rl.ones(1000, requires_grad=True)
        loss = (leaf * leaf).sum()
        outcomes = []

        def work(loss=loss, outcomes=outcomes):
            try:
                loss.backward()
                outcomes.append("ok")
            except RuntimeError as error:
                outcomes.append(str(error)[:30])

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(outcomes) <= {"ok", "Trying to backward through the"}
        assert "ok" in outcomes
