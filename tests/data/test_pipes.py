"""Pipes of data give what PyTorch's give, and refuse what they refuse."""

import copy
import functools
import io
import itertools
import os
import pickle
import warnings

import pytest

import rushlight as rl

torch = pytest.importorskip("torch", reason="the oracle is not installed")


def even(x):
    return x % 2 == 0


def third(x):
    return x % 3


def third_or_none(x):
    return None if x == 0 else x % 3


def double(x):
    return 2 * x


def add(a, b):
    return a + b


def first(x):
    return x[0]


def listed(pipe):
    return [each if not isinstance(each, tuple) else list(each) for each in pipe]


def iterated(t, make):
    """What a pipe gives, twice, and its length or the error for asking."""
    it, mp = t.utils.data.datapipes.iter, t.utils.data.datapipes.map
    t.manual_seed(3)
    pipe = make(it, mp)
    pipes = pipe if isinstance(pipe, list) else [pipe]
    told = []
    for each in pipes:
        try:
            told.append(len(each))
        except (TypeError, AttributeError) as error:
            told.append(type(error).__name__)
    for _ in range(2):
        told += [list(each) for each in pipes]
    return told, [each._number_of_samples_yielded for each in pipes], str(pipes)


PIPES = {
    "wrapped": lambda it, mp: it.IterableWrapper(range(5)),
    "mapped": lambda it, mp: it.IterableWrapper(range(5)).map(double),
    "columns": lambda it, mp: it.IterableWrapper([(1, 2, 3), (4, 5, 6)]).map(
        add, input_col=[0, 2]
    ),
    "columns to one": lambda it, mp: it.IterableWrapper([(1, 2, 3)]).map(
        add, input_col=(0, 2), output_col=[1]
    ),
    "columns behind": lambda it, mp: it.IterableWrapper([[1, 2]]).map(double, 1, -1),
    "column of dicts": lambda it, mp: it.IterableWrapper([{"a": 1}]).map(
        double, "a", "b"
    ),
    "column replaced": lambda it, mp: it.IterableWrapper([(1, 2)]).map(double, 0),
    "batched": lambda it, mp: it.IterableWrapper(range(5)).batch(2),
    "batched whole": lambda it, mp: it.IterableWrapper(range(5)).batch(2, True),
    "batches of batches": lambda it, mp: it.IterableWrapper(range(9)).batch(2).batch(3),
    "unbatched": lambda it, mp: (
        it.IterableWrapper(range(9)).batch(2).batch(3).unbatch()
    ),
    "unbatched twice": lambda it, mp: (
        it.IterableWrapper(range(9)).batch(2).batch(3).unbatch(2)
    ),
    "unbatched whole": lambda it, mp: it.IterableWrapper([1, [2, [3]]]).unbatch(-1),
    "filtered": lambda it, mp: it.IterableWrapper(range(9)).filter(even),
    "filtered by a column": lambda it, mp: it.IterableWrapper([(1, 2), (2, 1)]).filter(
        even, input_col=1
    ),
    "concatenated": lambda it, mp: it.IterableWrapper("ab").concat(
        it.IterableWrapper(range(2))
    ),
    "zipped": lambda it, mp: it.IterableWrapper("abc").zip(it.IterableWrapper("de")),
    "in turn": lambda it, mp: it.IterableWrapper("abc").mux(it.IterableWrapper("de")),
    "shuffled": lambda it, mp: it.IterableWrapper(range(20)).shuffle(),
    "shuffled a little": lambda it, mp: it.IterableWrapper(range(20)).shuffle(
        buffer_size=4
    ),
    "shuffled apart": lambda it, mp: it.IterableWrapper([[1, 2], [3, 4]]).shuffle(
        unbatch_level=1
    ),
    "shuffled apart twice": lambda it, mp: it.IterableWrapper(
        [[[1, 2], [3]], [[4, 5]]]
    ).shuffle(unbatch_level=2),
    "shuffled with a seed": lambda it, mp: (
        it.IterableWrapper(range(9)).shuffle().set_seed(5)
    ),
    "not shuffled": lambda it, mp: (
        it.IterableWrapper(range(9)).shuffle().set_shuffle(False)
    ),
    "sampled": lambda it, mp: it.Sampler(it.IterableWrapper("abc")),
    "grouped": lambda it, mp: it.IterableWrapper(range(10)).groupby(third),
    "grouped with keys": lambda it, mp: it.IterableWrapper(range(10)).groupby(
        third, keep_key=True, group_size=2
    ),
    "grouped by a small buffer": lambda it, mp: it.IterableWrapper(range(10)).groupby(
        third, buffer_size=4, group_size=3, guaranteed_group_size=2
    ),
    "grouped and dropped": lambda it, mp: it.IterableWrapper(range(10)).groupby(
        third, buffer_size=3, group_size=3, drop_remaining=True
    ),
    "a share": lambda it, mp: shared(it.IterableWrapper(range(10)).sharding_filter()),
    "a larger share": lambda it, mp: shared(
        it.IterableWrapper(range(11)).sharding_filter()
    ),
    "collated": lambda it, mp: (
        it.IterableWrapper([[1, 2], [3]]).collate().map(method("tolist"))
    ),
    "collated by a function": lambda it, mp: it.IterableWrapper([[1, 2]]).collate(sum),
    "forked": lambda it, mp: it.IterableWrapper(range(4)).fork(3),
    "forked once": lambda it, mp: it.IterableWrapper(range(4)).fork(1),
    "copied": lambda it, mp: it.IterableWrapper([[1]]).fork(2, copy="deep"),
    "parted": lambda it, mp: it.IterableWrapper(range(9)).demux(3, third),
    "parted in turn by a small buffer": lambda it, mp: it.Zipper(
        *it.IterableWrapper([1, 2, 0] * 4).demux(3, third, buffer_size=2)
    ),
    "parted but for None": lambda it, mp: it.IterableWrapper(range(9)).demux(
        3, third_or_none, drop_none=True
    ),
    "read": lambda it, mp: (
        it.IterableWrapper([("a", io.StringIO("abcde"))]).read_from_stream(2).map(first)
    ),
    "by index": lambda it, mp: mp.SequenceWrapper(range(5)).map(double),
    "by index, batched": lambda it, mp: mp.SequenceWrapper(range(5)).batch(2),
    "by index, joined": lambda it, mp: mp.SequenceWrapper("ab").concat(
        mp.SequenceWrapper("c")
    ),
    "by index, zipped": lambda it, mp: mp.SequenceWrapper("ab").zip(
        mp.SequenceWrapper("cde")
    ),
    "by index, shuffled": lambda it, mp: mp.SequenceWrapper(range(9)).shuffle(),
    "some, shuffled": lambda it, mp: mp.SequenceWrapper("abcdef").shuffle(
        indices=[1, 3, 5]
    ),
}


def shared(pipe):
    pipe.apply_sharding(3, 1)
    return pipe


def method(name):
    import operator

    return operator.methodcaller(name)


@pytest.mark.parametrize("case", PIPES)
def test_pipes_give_what_pytorchs_give(case):
    def run(t):
        if not case.startswith(("by index", "some")) or "shuffled" in case:
            return iterated(t, PIPES[case])
        pipe = PIPES[case](t.utils.data.datapipes.iter, t.utils.data.datapipes.map)
        return [pipe[i] for i in range(len(pipe))], str(pipe)

    assert run(rl) == run(torch)


def refused(t, program):
    t.manual_seed(0)
    try:
        return program(t, t.utils.data.datapipes.iter, t.utils.data.datapipes.map)
    except Exception as error:
        words = str(error).split("\n")[0].replace(",buffer", ", buffer")
        return type(error).__name__, words


def two_iterators(t, it, mp):
    pipe = it.IterableWrapper(range(3))
    one = iter(pipe)
    next(one)
    next(iter(pipe))
    next(one)


def branches(t, it, mp):
    one, two = it.IterableWrapper(range(3)).fork(2)
    first_, second = iter(one), iter(two)
    next(first_), next(second)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        next(iter(one))
    try:
        next(second)
    except RuntimeError as error:
        return str(error).split(",")[0]


def own_iterator(t, it, mp):
    class Own(t.utils.data.IterDataPipe):
        def __iter__(self):
            self.left = iter(range(3))
            return self

        def __next__(self):
            return next(self.left)

    pipe = Own()
    one = iter(pipe)
    next(one)
    two = iter(pipe)
    next(two)
    counted = pipe._number_of_samples_yielded
    try:
        next(one)
    except RuntimeError as error:
        return counted, str(error).split(":")[0]


def no_promise(t, it, mp):
    with t.utils.data.guaranteed_datapipes_determinism():

        @t.utils.data.non_deterministic
        class Drawn(t.utils.data.IterDataPipe):
            def __iter__(self):
                yield 1

        return Drawn()


REFUSED = {
    "two iterators": two_iterators,
    "branches": branches,
    "own iterator": own_iterator,
    "no promise": no_promise,
    "an error inside": lambda t, it, mp: list(it.IterableWrapper("ab").map(int)),
    "no such method": lambda t, it, mp: hasattr(it.IterableWrapper("ab"), "nothing"),
    "a name twice": lambda t, it, mp: t.utils.data.functional_datapipe("map")(
        it.Mapper
    ),
    "no pipe": lambda t, it, mp: t.utils.data.functional_datapipe("new")(dict),
    "no pipes": lambda t, it, mp: it.Concater(),
    "other pipes": lambda t, it, mp: it.Concater(mp.SequenceWrapper("a")),
    "zip of others": lambda t, it, mp: it.Zipper([1]),
    "no buffer": lambda t, it, mp: it.IterableWrapper("a").shuffle(buffer_size=0),
    "empty batches": lambda t, it, mp: it.IterableWrapper("a").batch(0),
    "too deep": lambda t, it, mp: list(it.IterableWrapper([1]).unbatch()),
    "no level": lambda t, it, mp: list(it.IterableWrapper([1]).unbatch(-2)),
    "no fork": lambda t, it, mp: it.IterableWrapper("a").fork(0),
    "no copy": lambda t, it, mp: it.IterableWrapper("a").fork(2, copy="odd"),
    "far ahead": lambda t, it, mp: list(
        it.IterableWrapper(range(9)).fork(2, buffer_size=3)[0]
    ),
    "too many wait": lambda t, it, mp: list(
        it.IterableWrapper(range(9)).demux(3, third, buffer_size=1)[2]
    ),
    "no such branch": lambda t, it, mp: list(
        it.IterableWrapper(range(9)).demux(2, third)[0]
    ),
    "groups": lambda t, it, mp: it.IterableWrapper("a").groupby(
        third, guaranteed_group_size=2
    ),
    "large groups": lambda t, it, mp: it.IterableWrapper("a").groupby(
        third, group_size=7, buffer_size=3
    ),
    "groups fail": lambda t, it, mp: list(
        it.IterableWrapper(range(9)).groupby(third, group_size=3, buffer_size=3)
    ),
    "columns": lambda t, it, mp: it.IterableWrapper("a").map(add, 1),
    "result without": lambda t, it, mp: it.IterableWrapper("a").map(double, None, 1),
    "two results": lambda t, it, mp: it.IterableWrapper("a").map(double, 1, [1, 2]),
    "no function": lambda t, it, mp: it.IterableWrapper("a").map(3),
    "no answer": lambda t, it, mp: list(it.IterableWrapper([1]).filter(double)),
    "no mode": lambda t, it, mp: it.FileOpener(["a"], mode="w"),
    "no path": lambda t, it, mp: list(it.FileOpener([3])),
    "encoded bytes": lambda t, it, mp: it.FileOpener([3], mode="b", encoding="utf-8"),
    "share": lambda t, it, mp: (
        it.IterableWrapper("a").sharding_filter().apply_sharding(2, 2)
    ),
    "share of a share": lambda t, it, mp: t.utils.data.graph_settings.apply_sharding(
        it.IterableWrapper("a").sharding_filter().sharding_filter(), 2, 1
    ),
    "far index": lambda t, it, mp: mp.SequenceWrapper("a").batch(2)[1],
    "far zip": lambda t, it, mp: mp.SequenceWrapper("a").zip(mp.SequenceWrapper("bc"))[
        1
    ],
    "far join": lambda t, it, mp: mp.SequenceWrapper("a").concat(
        mp.SequenceWrapper("b")
    )[2],
    "no join": lambda t, it, mp: mp.Concater(it.IterableWrapper("a")),
    "empty buffer": lambda t, it, mp: it.IterableWrapper("a").shuffle(buffer_size=0),
    "not __iter__": lambda t, it, mp: t.utils.data.runtime_validation(first),
    "not iterable": lambda t, it, mp: t.utils.data.non_deterministic(dict),
    "reading on": lambda t, it, mp: list(it.IterableWrapper([3]).read_from_stream()),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_pytorchs_refuse_is_refused(case):
    found, wanted = refused(rl, REFUSED[case]), refused(torch, REFUSED[case])
    assert found == wanted


def loaded(t, make, **options):
    """Two passes of a loader over a pipe, and the next number of the generator."""
    t.manual_seed(7)
    pipe = make(t.utils.data.datapipes.iter, t.utils.data.datapipes.map)
    loader = t.utils.data.DataLoader(pipe, **options)
    told = [[batch.tolist() for batch in loader] for _ in range(2)]
    return told, t.rand(1).item()


LOADED = {
    "plain": (lambda it, mp: it.IterableWrapper(range(9)), {"batch_size": 4}),
    "shuffled": (
        lambda it, mp: it.IterableWrapper(range(9)).shuffle(),
        {"batch_size": 4, "shuffle": True},
    ),
    "not shuffled": (
        lambda it, mp: it.IterableWrapper(range(9)).shuffle(),
        {"batch_size": 4, "shuffle": False},
    ),
    "shared": (
        lambda it, mp: it.IterableWrapper(range(9)).shuffle().sharding_filter(),
        {"batch_size": 2, "num_workers": 2},
    ),
    "kept workers": (
        lambda it, mp: it.IterableWrapper(range(9)).shuffle().sharding_filter(),
        {"batch_size": 2, "num_workers": 2, "persistent_workers": True},
    ),
    "each has all": (
        lambda it, mp: it.IterableWrapper(range(5)).map(double),
        {"batch_size": 2, "num_workers": 2},
    ),
    "by index": (
        lambda it, mp: mp.SequenceWrapper(range(7)).map(double),
        {"batch_size": 2, "shuffle": True},
    ),
    "by index, workers": (
        lambda it, mp: mp.SequenceWrapper(range(7)).map(double),
        {"batch_size": 2, "num_workers": 2},
    ),
}


@pytest.mark.filterwarnings("ignore:This process")
@pytest.mark.filterwarnings("ignore:.*fork.*")
@pytest.mark.parametrize("case", LOADED)
def test_loaders_give_the_order_of_pytorchs(case):
    make, options = LOADED[case]
    assert loaded(rl, make, **options) == loaded(torch, make, **options)


def test_shares_are_of_processes_first_and_then_of_workers(monkeypatch):
    from rushlight.utils.data import _pipes

    monkeypatch.setattr(_pipes, "_in_group", lambda: True)
    monkeypatch.setattr(rl.distributed, "get_world_size", lambda: 3)
    taken = []
    for rank in range(3):
        monkeypatch.setattr(rl.distributed, "get_rank", lambda rank=rank: rank)
        for worker in range(2):
            pipe = rl.utils.data.datapipes.iter.IterableWrapper(range(12))
            pipe = pipe.sharding_filter()
            _pipes.shared_out(pipe, 2, worker)
            taken.append(list(pipe))
    # torch.utils.data._utils.worker counts so: worker times processes, and the rank
    assert taken == [[0, 6], [3, 9], [1, 7], [4, 10], [2, 8], [5, 11]]


def test_threads_share_a_pipe_out_as_processes_do():
    make, options = LOADED["shared"]
    processes = loaded(rl, make, **options)
    threads = loaded(rl, make, **options, multiprocessing_context="thread")
    assert threads[0][0] == processes[0][0]


def test_a_loader_over_a_pipe_goes_on_where_it_was():
    it = rl.utils.data.datapipes.iter
    loader = rl.utils.data.DataLoader(it.IterableWrapper(range(20)).shuffle(), 3)
    batches = iter(loader)
    next(batches), next(batches)
    state = loader.state_dict()
    rest = [batch.tolist() for batch in batches]
    loader.load_state_dict(state)
    assert [batch.tolist() for batch in loader] == rest


def test_a_shuffle_is_put_behind_where_none_is():
    pipe = rl.utils.data.datapipes.iter.IterableWrapper(range(9))
    with pytest.warns(UserWarning, match="does not contain a `Shuffler`"):
        loader = rl.utils.data.DataLoader(pipe, batch_size=9, shuffle=True)
    assert sorted(next(iter(loader)).tolist()) == list(range(9))


def described(graph):
    return [(str(pipe), described(below)) for pipe, below in graph.values()]


def test_graphs_of_pipes_are_pytorchs():
    def run(t):
        it, mp = t.utils.data.datapipes.iter, t.utils.data.datapipes.map
        one, two = it.IterableWrapper(range(9)).map(double).shuffle().fork(2)
        pipe = one.zip(two, mp.SequenceWrapper("a").shuffle()).sharding_filter()
        graph = t.utils.data.graph.traverse_dps(pipe)
        pipes = t.utils.data.graph_settings.get_all_graph_pipes(graph)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            old = t.utils.data.graph.traverse(pipe)
        return described(graph), described(old), [str(each) for each in pipes]

    assert run(rl) == run(torch)


def test_pipes_are_wound_forward_as_pytorchs():
    def run(t):
        it = t.utils.data.datapipes.iter
        path = f"{t.__name__}.utils.data.datapipes.utils.snapshot"
        restore = __import__(path, fromlist=["x"])._simple_graph_snapshot_restoration
        pipe = it.IterableWrapper(range(20)).shuffle()
        restore(pipe, 5, t.Generator().manual_seed(4))
        try:
            restore(pipe, 5)
        except RuntimeError as error:
            told = str(error)
        return list(pipe), told, len(list(pipe))

    assert run(rl) == run(torch)


@pytest.mark.parametrize("case", sorted(set(PIPES) - {"read", "collated"}))
def test_pipes_are_pickled_and_copied_with_what_they_wait_for(case):
    it, mp = rl.utils.data.datapipes.iter, rl.utils.data.datapipes.map
    pipe = PIPES[case](it, mp)
    pipe = pipe[0] if isinstance(pipe, list) else pipe
    twins = pickle.loads(pickle.dumps(pipe)), copy.deepcopy(pipe), pipe
    found = []
    for twin in twins:
        rl.manual_seed(0)
        found.append(list(twin))
    assert found[0] == found[1] == found[2]
    assert {type(twin) for twin in twins} == {type(pipe)}


def test_files_are_listed_opened_and_read(tmp_path):
    for name, text in {"b.txt": "2", "a.txt": "1", "c.json": "[3]"}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "d.txt").write_text("4")

    def run(t):
        it = t.utils.data.datapipes.iter
        files = it.FileLister(str(tmp_path), ["*.txt", "*.json"], recursive=True)
        read = list(files.open_files("b").read_from_stream())
        with pytest.warns(FutureWarning, match="deprecated since 1.12"):
            decoded = files.open_files("b").routed_decode()
        plain = list(it.FileLister(str(tmp_path), "*.txt"))
        return read, list(decoded), plain, list(it.FileOpener(plain).map(named))

    assert run(rl) == run(torch)


def named(pair):
    return os.path.basename(pair[0]), pair[1].read(), pair[1].closed


def test_tensors_and_images_are_decoded(tmp_path):
    Image = pytest.importorskip("PIL.Image")
    from rushlight.utils.data.datapipes.utils import decoder

    rl.save({"a": rl.arange(3)}, tmp_path / "a.pt")
    Image.new("RGB", (3, 2), (255, 0, 51)).save(tmp_path / "b.png")
    for name in ("a.pt", "b.png"):
        data = (tmp_path / name).read_bytes()
        if name == "a.pt":
            assert decoder.basichandlers("pt", data)["a"].tolist() == [0, 1, 2]
            continue
        image = decoder.imagehandler("torch")("png", data)
        assert image.shape == (3, 2, 3) and image[2, 0, 0] == pytest.approx(0.2)
        assert decoder.imagehandler("rgb8")("png", data).shape == (2, 3, 3)
        assert decoder.imagehandler("pill")("png", data).mode == "L"
        assert decoder.imagehandler("pil")("txt", data) is None
    theirs = torch.utils.data.datapipes.utils.decoder
    assert decoder.imagespecs == theirs.imagespecs
    for text in ("jpg", "JPG seg.jpg", "a.b"):
        for path in ("x.jpg", "x.seg.jpg", "x.a.b", "b"):
            function = decoder.handle_extension(text, str)
            assert function(path, 1) == theirs.handle_extension(text, str)(path, 1) or (
                # PyTorch's looks at the first of several extensions alone.
                " " in text
            )


def test_bytes_under_private_names_are_text_as_in_pytorch():
    data = {"_a": b"x", "_b": 0, "c.txt": b"y", "d": b"", "e.json": b"[1]"}
    ours, theirs = (
        package.utils.data.datapipes.utils.decoder.Decoder(
            package.utils.data.datapipes.utils.decoder.basichandlers
        )(dict(data).items())
        for package in (rl, torch)
    )
    assert ours == theirs and ours["_a"] == "x"


def test_streams_are_closed_with_the_last_of_their_parts():
    from rushlight.utils.data.datapipes.utils.common import StreamWrapper

    whole = io.StringIO("a")
    wrapped = StreamWrapper(whole, name="whole")
    parts = [StreamWrapper(io.StringIO(), wrapped) for _ in range(2)]
    wrapped.autoclose()
    parts[0].close()
    assert not whole.closed
    StreamWrapper.close_streams({"x": [parts[1]]})
    assert whole.closed and "whole" in repr(wrapped)
    alone = io.StringIO()
    del wrapped, parts
    StreamWrapper(alone)
    assert alone.closed


def test_values_are_checked_against_what_the_class_says():
    class Words(rl.utils.data.IterDataPipe[str]):
        def __init__(self, words):
            self.words = words

        @rl.utils.data.runtime_validation
        def __iter__(self):
            yield from self.words

    @rl.utils.data.argument_validation
    def count(pipe: rl.utils.data.IterDataPipe[str]):
        return len(list(pipe))

    assert count(Words(["a"])) == 1
    with pytest.raises(RuntimeError, match="Expected an instance as subtype of"):
        list(Words([3]))
    with rl.utils.data.runtime_validation_disabled():
        assert list(Words([3])) == [3]
    with pytest.raises(TypeError, match="Expected argument 'pipe' as a IterDataPipe"):
        count([1])


def test_functions_that_cannot_be_pickled_are_warned_of():
    pytest.importorskip("torch")
    it = rl.utils.data.datapipes.iter
    if rl.utils.data.datapipes.utils.common.DILL_AVAILABLE:
        pytest.skip("dill pickles them")
    with pytest.warns(UserWarning, match="Lambda function is not supported by pickle"):
        it.IterableWrapper("a").map(eval("lambda x: x"))
    with pytest.warns(UserWarning, match="Local function is not supported by pickle"):
        it.IterableWrapper("a").filter(functools.partial(lambda x: bool(x)))


def test_methods_are_listed_and_hooks_are_of_one_kind():
    pipe = rl.utils.data.datapipes.iter.IterableWrapper("a")
    theirs = torch.utils.data.datapipes.iter.IterableWrapper("a")
    assert {name for name in dir(theirs) if name[0] != "_"} <= set(dir(pipe))
    kinds = rl.utils.data.IterDataPipe, rl.utils.data.MapDataPipe
    for kind in kinds:
        kind.set_getstate_hook(itertools.count)
        with pytest.raises(RuntimeError, match="override existing getstate_hook"):
            kind.set_getstate_hook(len)
        kind.set_getstate_hook(None)
