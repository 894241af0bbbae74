"""Verdicts are true: values, replays, races as films, barriers at every size, and counts."""

import inspect
import tracemalloc
from dataclasses import replace

import pytest

from portions import every
from upsweep import lab
from upsweep.lab.findings import KINDS
from upsweep.lab.play import text
from upsweep.lab.races import any_race, races
from upsweep.lab.sync import SIZES, races_without
from upsweep.textbook import KERNELS
from upsweep.textbook.dialect import cuda
from upsweep.textbook.mistakes import MISTAKES

KOGGE_STONE = """\
def scan(x, y, n):
    t = cuda.threadIdx.x
    xy = cuda.shared.array(BLOCK, dtype)
    if t < n:
        xy[t] = x[t]
    stride = 1
    while stride < BLOCK:
        cuda.syncthreads()
        if t >= stride:
            temp = op(xy[t - stride], xy[t])
        cuda.syncthreads()
        if t >= stride:
            xy[t] = temp
        stride *= 2
    y[t] = xy[t]
"""


def scanned(text=KOGGE_STONE, n=16, **given):
    return lab.trace(text, n=n, expect=given.pop("expect", "inclusive"), **given)


def operator_of(name):
    return "max" if KERNELS[name].needs == "idempotent" else "add"


# --- values -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("y[t] = xy[t]", "y[t] = xy[t] * 2", "line 15 changes a value by something else than the operator"),
        ("y[t] = xy[t]", "y[t] = xy[t] + 1", "line 15 takes 1 for an identity, which it is not"),
        ("xy[t] = x[t]", "xy[t] = x[t] * 2", "line 5 changes a value by something else than the operator"),
    ],
)
def test_values_are_compared_too(old, new, says):
    assert not lab.check(scanned())
    report = lab.check(scanned(KOGGE_STONE.replace(old, new)))
    assert report.kinds == {"wrong value"}
    assert says in str(report)
    assert len(report[0].words) == 16


def test_a_wrong_identity_is_found():
    report = lab.check(lab.trace("blelloch", n=16, op="mul", identity=0))
    assert "takes 0 for an identity, which it is not" in str(report)
    assert not lab.check(lab.trace("blelloch", n=16, op="mul"))


def test_an_operator_without_the_law_is_named():
    assert "add would have to be idempotent" in str(lab.check(lab.trace("knowles", n=16)))
    assert "would have to be associative" in str(
        lab.check(lab.trace("brent-kung", n=16, op=lambda a, b: a - b))
    )
    letters = [chr(97 + k) for k in range(16)]
    report = lab.check(lab.trace("vector-reduction", x=letters, op=lambda a, b: a + b))
    assert "would have to commute" in str(report)


# --- replays ------------------------------------------------------------------------------------------------------------


def replayed(trace):
    """The values that the page shows at the end are those that the machine holds."""
    page = lab.to_dict(trace)
    memory = {word: shown for word, shown, *_ in page["words"]}
    for step in page["steps"]:
        memory.update({word: shown for word, shown, *_ in step["words"]})
    held = {a.base + k: text(v) for a in trace.arrays for k, v in enumerate(a.words) if v is not None}
    return {trace.place(w): memory.get(w) for w in held}, {trace.place(w): v for w, v in held.items()}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_play_as_they_ran(name):
    shown, held = replayed(lab.trace(name))
    assert shown == held


@pytest.mark.parametrize("name", every(4, KERNELS))
def test_racing_runs_play_as_they_ran(name):
    t = lab.trace(name, n=16, op=operator_of(name))
    for spot in sorted({t.spot(site) for _, _, site in t.machine.passed}):
        for schedule in ("ascending", "descending"):
            run = t.case.run(lab.Schedule(schedule), without=[spot])
            shown, held = replayed(run)
            assert shown == held, (spot, schedule)
            assert lab.counts(run).steps >= lab.identify(run).depth


def test_a_thread_reads_what_its_step_shows():
    """In every step, a load shows the word's value at that time, and not the value that a later step writes."""
    t = lab.trace("brent-kung", n=16)
    page = lab.to_dict(t.case.run(without=[lab.barriers(t).needed[0]]))
    memory = {word: shown for word, shown, *_ in page["words"]}
    for step in page["steps"]:
        for kind, _, _, _, _, word, shown, *_ in step["events"]:
            if kind == "load":
                assert memory.get(word, "?") == shown
            elif kind == "store":
                memory[word] = shown


def test_a_race_is_a_film_of_two_threads_in_both_orders():
    t = lab.trace("ks-no-second-barrier")
    film = lab.film(t, lab.check(t)[0])
    first, then = film.orders
    assert film.word == "xy[1]"
    assert [(s.thread, s.kind) for s in first.shots] == [(2, "load"), (1, "load"), (1, "store")]
    assert [(s.thread, s.kind) for s in then.shots] == [(1, "load"), (1, "store"), (2, "load")]
    assert (first.shots[0].value, then.shots[-1].value) == ("2", "3")
    assert then.wrong == ("y[2]", "7", "6")
    assert film.to_dict()["orders"][1]["wrong"] == ["y[2]", "7", "6"]
    assert lab.film(t, lab.check(t)[-1]) is None


def test_a_film_shows_the_right_and_the_wrong():
    """Both orders are real runs. The intended order ends well, though other pairs race too."""
    t = lab.trace("brent-kung", n=16)
    racing = t.case.run(without=lab.barriers(t).needed[:1])
    film = lab.film(racing, lab.check(racing)[0])
    assert [order.wrong for order in film.orders] == [None, ("y[1]", "2", "3")]
    for order in film.orders:
        again = racing.case.run(order.schedule, racing.without)
        assert again.values == order.run.values


def test_the_pictures_of_a_film_are_steps_of_its_run():
    t = lab.trace("ks-no-second-barrier")
    for order in lab.film(t, lab.check(t)[0]).to_dict()["orders"]:
        run = order["trace"]
        assert len(run["steps"]) == len(order["shots"]) + 2
        for shot, step in zip(order["shots"], run["steps"][1:]):
            ((kind, block, thread, line, _, _, shown, *_),) = step["events"]
            assert (kind, block, thread, line, shown) == (
                shot["kind"], shot["block"], shot["thread"], shot["line"], shot["value"],
            )  # fmt: skip
        memory = {word: text for word, text, *_ in run["words"]}
        for step in run["steps"]:
            memory.update({word: text for word, text, *_ in step["words"]})
        first = run["result"]["first"]
        wrong = order["wrong"]
        assert memory[first + 2] == (wrong[1] if wrong else "6")


def test_a_race_of_two_blocks_is_a_film_too():
    t = lab.trace("hopeful-neighbours")
    film = lab.film(t, lab.check(t)[0])
    assert {shot.block for order in film.orders for shot in order.shots} == {0, 1}
    assert [order.wrong is None for order in film.orders] == [False, True]


# --- barriers -----------------------------------------------------------------------------------------------------------


def test_two_missing_barriers_are_found():
    t = lab.trace("kogge-stone", n=16)
    racing = t.case.run(without=lab.barriers(t).needed)
    mends = lab.barriers(racing).missing
    assert len(mends) == 4
    for spots in mends:
        assert not lab.check(racing.case.run(without=racing.without, before=spots))


@pytest.mark.parametrize(("name", "line"), [("warp-shuffle", "if warp > 0:"), ("sklansky", "if t < items:"),
                                            ("reduce-then-scan", "if t >= stride and i < n:")])  # fmt: skip
def test_a_barrier_that_can_go_at_one_size_stays_for_the_others(name, line):
    t = lab.trace(name, n=16)
    found = lab.barriers(t)
    assert not found.redundant
    assert found.elsewhere
    spot, n = found.elsewhere[-1]
    source = next(k.source for k in t.kernels if k.source.name == spot.kernel)
    assert source.line(spot.line + 1) == line
    assert not races(t.case.run(without=[spot]))
    assert races(lab.trace(name, n=n).case.run(without=[spot]))
    assert f"but n = {n} needs it" in str(found)


def test_needless_means_at_every_size():
    found = lab.barriers(
        scanned(KOGGE_STONE.replace("    y[t] = xy[t]", "    cuda.syncthreads()\n    y[t] = xy[t]"))
    )
    assert [spot.line for spot in found.redundant] == [15]
    assert set(SIZES) <= set(found.sizes)


def test_a_launch_that_is_given_is_judged_for_itself():
    found = lab.barriers(lab.trace(KOGGE_STONE, 1, 8, ([1] * 8, lab.empty(8), 8), BLOCK=8))
    assert found.sizes == (8,)


def test_a_barrier_within_a_branch_that_all_take_mends():
    racing = """\
def scan(x, y, n):
    t = cuda.threadIdx.x
    xy = cuda.shared.array(BLOCK, dtype)
    if n > 1:
        xy[t] = x[t]
        y[t] = xy[n - 1 - t]
    else:
        y[t] = x[t]
"""
    found = lab.barriers(lab.trace(racing, n=8))
    assert [[spot.line for spot in spots] for spots in found.missing] == [[6]]


def test_what_no_barrier_mends():
    racing = "def scan(x, y, n):\n    xy = cuda.shared.array(1, dtype)\n    xy[0] = x[cuda.threadIdx.x]\n    y[0] = xy[0]\n"
    found = lab.barriers(lab.trace(racing, n=4))
    assert not found.missing
    assert found.hopeless == 2
    assert "there is a race at n = 2 that no barriers mend, however many" in str(found)


@pytest.mark.parametrize(("name", "count"), [("brent-kung", 2), ("three-phase", 5), ("ladner-fischer", 3)])
def test_any_number_of_missing_barriers_is_found(name, count):
    """All barriers taken out: Brent and Kung's three need only two, at the ends of its loops. The others need all of theirs."""
    t = lab.trace(name, n=16)
    racing = t.case.run(without=lab.barriers(t).needed)
    mends = lab.barriers(racing).missing
    assert {len(spots) for spots in mends} == {count}
    for spots in (mends[0], mends[-1]):
        for n in (16, 100):
            again = racing.case.sized(n).run(without=racing.without, before=spots)
            assert not races(again)
    for few in (mends[0][:k] + mends[0][k + 1 :] for k in range(count)):
        runs = (racing.case.sized(n).run(without=racing.without, before=few) for n in (16, 100, 1000))
        assert any(any_race(run, run.epoch) for run in runs)


def test_a_barrier_that_only_large_sizes_need():
    """Ladner and Fischer's circuit needs its middle barrier from n = 1000 on, and at none of the smaller tried sizes."""
    found = lab.barriers(lab.trace("ladner-fischer", n=16))
    (spot, n), *_ = found.elsewhere
    assert n == 1000
    assert spot not in found.redundant
    assert not races(lab.trace("ladner-fischer", n=257).case.run(without=[spot]))
    assert races(lab.trace("ladner-fischer", n=n).case.run(without=[spot]))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in KERNELS if lab.trace(name, n=37).machine.passed])
def test_the_sizes_tried_decide_for_all(name):
    """For the textbook: a barrier that is redundant, missing or mending at the sizes tried is so at every size from 1 to 1024."""
    t = lab.trace(name, n=16)
    found = lab.barriers(t)
    racing = t.case.run(without=found.needed[-1:])
    mend = lab.barriers(racing).missing[0]
    for n in range(1, 1025):
        run = t.case.sized(n).run(places=True)
        assert not any_race(run, run.epoch), n
        assert not any(races_without(run, [spot]) for spot in found.redundant), n
        mended = racing.case.sized(n).run(without=racing.without, before=mend)
        assert not any_race(mended, mended.epoch), n


# --- counts -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", every(4, KERNELS))
def test_steps_and_deficiency_are_possible(name):
    for n in (1, 2, 7, 16, 33, 100, 256):
        t = lab.trace(name, n=n, op=operator_of(name))
        card = lab.identify(t)
        assert lab.counts(t).steps >= card.depth
        assert card.deficiency is None or card.deficiency >= 0


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_have_no_negative_deficiency(name):
    assert (lab.identify(lab.trace(name)).deficiency or 0) >= 0


def test_a_chain_of_blocks_is_long():
    t = lab.trace("domino", n=256)
    assert (lab.counts(t).steps, lab.identify(t).depth) == (20, 19)


@pytest.mark.parametrize("n", [2, 16, 64])
def test_swaps(n):
    assert lab.counts(lab.trace("blelloch", n=n)).moves == n - 1
    assert lab.counts(lab.trace("kogge-stone-zero-padded", n=n)).moves == 0


@pytest.mark.parametrize(
    ("op", "spelled"),
    [
        ("add", "xy[t - stride] + xy[t]"),
        ("mul", "xy[t - stride] * xy[t]"),
        ("max", "max(xy[t - stride], xy[t])"),
    ],
)
def test_the_operator_written_out_counts_alike(op, spelled):
    plain, written = (
        scanned(text, op=op)
        for text in (KOGGE_STONE, KOGGE_STONE.replace("op(xy[t - stride], xy[t])", spelled))
    )
    assert not lab.check(written)
    assert lab.counts(written) == lab.counts(plain)
    assert lab.identify(written) == lab.identify(plain)


def test_flags_are_counted_as_they_are_added():
    assert lab.counts(lab.trace("compaction", n=16)).work == lab.counts(lab.trace("kogge-stone", n=16)).work


def test_another_sign_is_not_the_operator():
    report = lab.check(
        scanned(KOGGE_STONE.replace("op(xy[t - stride], xy[t])", "xy[t - stride] + xy[t]"), op="max")
    )
    assert report.kinds == {"wrong value"}


# --- no false alarms --------------------------------------------------------------------------------------------------------


def test_an_exchange_asks_for_nothing_written():
    text = "def put(x, y, n):\n    cuda.atomic.exch(y, cuda.threadIdx.x, x[cuda.threadIdx.x])\n"
    assert "uninitialised" not in lab.check(lab.trace(text, n=4)).kinds


def test_keywords_of_shared_arrays():
    for spelled in (
        "shape=BLOCK, dtype=dtype",
        "BLOCK, dtype=dtype",
        "shape=(BLOCK,), dtype=dtype",
        "dtype=dtype, shape=BLOCK",
    ):
        assert not lab.check(scanned(KOGGE_STONE.replace("(BLOCK, dtype)", f"({spelled})")))
    with pytest.raises(lab.KernelError, match="takes shape and dtype, and no alignment"):
        scanned(KOGGE_STONE.replace("(BLOCK, dtype)", "(BLOCK, dtype, alignment=16)"))


def double(a):
    return a + a


def test_functions_that_a_kernel_calls():
    def scan(x, y, n):
        i = cuda.threadIdx.x
        y[i] = double(x[i])

    t = lab.trace(scan, n=4)
    assert t.values == [2, 4, 6, 8]
    assert lab.counts(t).work == 4


# --- loops that never end -----------------------------------------------------------------------------------------------------


def test_a_forgotten_doubling_is_found_at_once():
    tracemalloc.start()
    report = lab.check(scanned(KOGGE_STONE.replace("        stride *= 2\n", "")))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    (cause,) = report.causes
    assert cause.kind == "endless loop"
    assert (
        "line 7: this loop never ends: after 8 rounds stride = 1 again, and nothing else decides"
        in cause.text
    )
    assert most < 30 << 20


@pytest.mark.parametrize("body", ["pass", "stride *= 1", "stride = 3 - stride", "stride += 0"])
def test_states_that_repeat(body):
    text = f"def spin(x, y, n):\n    stride = 1\n    while stride < n:\n        {body}\n    y[0] = x[0]\n"
    assert {f.kind for f in lab.check(lab.trace(text, n=4)).causes} == {"endless loop"}


def test_long_loops_end():
    text = """\
def long(x, y, n):
    k = 0
    total = x[0]
    while k < 5000:
        j = 0
        while j < 70:
            j += 1
        k += 70
    y[0] = total
"""
    assert not lab.check(lab.trace(text, 1, 1, ([1], lab.empty(1), 1)))


# --- reports ------------------------------------------------------------------------------------------------------------------


def test_temporaries_of_two_dimensions_have_two_indices():
    report = lab.check(lab.trace("gems-double-buffer"))
    (finding,) = [f for f in report if f.kind == "uninitialised"]
    assert finding.words[0] == "temp[1, 1]"


@pytest.mark.parametrize("name", ["kogge-stone", "brent-kung", "three-phase", "sklansky", "matrix"])
def test_one_cause_is_one_finding_and_comes_first(name):
    t = lab.trace(name, n=16)
    for spot in lab.barriers(t).needed:
        report = lab.check(t.case.run(without=[spot]))
        if not report:
            # The barrier is needed at another size.
            continue
        assert [f.kind for f in report.causes] == ["race"], str(report)
        assert report[0].kind == "race"
        assert len(report) <= 3


def test_kinds_are_those_of_the_table():
    found = {f.kind for name in MISTAKES for f in lab.check(lab.trace(name), witness=False)}
    assert found <= set(KINDS)
    assert all(set(row.finds) <= set(KINDS) for row in MISTAKES.values())


def test_a_case_takes_over_kernels():
    t = scanned()
    changed = replace(t.case).launching((KOGGE_STONE.replace("stride *= 2", "stride *= 4"),), ({},))
    assert lab.counts(changed.run()).barriers < lab.counts(t).barriers


def test_what_never_ends_is_not_tried_at_every_size(monkeypatch):
    """Every thread takes a number, not one of each block: at any size blocks wait for others that are no more."""
    monkeypatch.setattr("upsweep.lab.hooks.MOST_EVENTS", 100_000)
    made = []
    source = inspect.getsource(KERNELS["domino-dynamic"].function)
    greedy = source.replace("bid = number[0]", "bid = cuda.atomic.add(counter, 0, 1)")
    assert greedy != source
    case = lab.trace(greedy, like="domino-dynamic", n=8).case
    lab.barriers(replace(case, sized=lambda n: made.append(n) or case.sized(n)).run())
    assert 0 < len(made) < 8
