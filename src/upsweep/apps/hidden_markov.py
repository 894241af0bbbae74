"""Hidden Markov models by scans of matrices over semirings, sums of products and maxima of sums; or step after step."""

from __future__ import annotations

from typing import Any

from upsweep import api, homes
from upsweep.apps.kinds import enter, real
from upsweep.apps.trellis import Parts, best_path_in_order, forward_in_order, prefixes, product
from upsweep.arguments import ShapeError, check_order
from upsweep.engine import choose
from upsweep.moves import loops


@homes.apart
def hmm_forward(
    initial: Any, transition: Any, likelihood: Any, *, logarithms: bool = False, order: str = "tree"
) -> tuple[Any, Any]:
    """The forward algorithm: how likely each state is, given the observations up to its time.

    The vector of `p(state_t = j, y_0 ... y_t)` is a product of matrices `M_t[i, j] = transition[i, j] likelihood[t, j]`; each
    product is kept at a largest entry of 1, with the logarithm of its size beside it.

    Args:
        initial: probabilities of the first state, shape (K,).
        transition: `transition[i, j]`, the probability of j after i, shape (K, K).
        likelihood: `likelihood[..., t, j]`, that of observation t in state j, shape (..., T, K): many sequences of one model.
        logarithms: whether these three are logarithms, as for `viterbi`; they may lie far below those of any float. A state that
            is less likely than the likeliest one of its time by more than a factor of e^700 counts as impossible.
        order: "tree" for all steps at once, or "sequential" for the loop over time, which costs K^2 operations a step instead of
            2 K^3: take it on a CPU. On a GPU each of its steps is several launches.

    Returns:
        `(filtered, log_likelihood)`: the states' probabilities, shape (..., T, K), and `log p(y_0 ... y_t)`, shape (..., T),
        float64, of the likelihood's kind. From an observation on that no state explains, the probabilities are NaN and the
        log-likelihood is -inf. From an observation on that is NaN, both are NaN.

    Raises:
        ShapeError: shapes that do not fit.
        ValueError: another `order`.

    >>> from upsweep import apps
    >>> filtered, log_likelihood = apps.hmm_forward([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.5], [1.0, 0.0]])
    >>> filtered.tolist(), log_likelihood.round(4).tolist()
    ([[0.5, 0.5], [1.0, 0.0]], [-0.6931, -1.291])

    Source: Rabiner, "A tutorial on hidden Markov models" (1989); Hassan, Sarkka and Garcia-Fernandez, "Temporal parallelization
    of inference in hidden Markov models" (2021).
    """
    check_order(order)
    if logarithms:
        xp, given, give = enter(likelihood, initial, transition)
        seen, start, switch = (real(xp, v, "a model") for v in given)
        _check(start, switch, seen)
        # In the first step a state may be as unlikely as its observation is likely.
        seen = xp.concat([seen[..., :1, :] + start, seen[..., 1:, :]], axis=-2)
        most, top = _largest(xp, seen), _largest(xp, xp.reshape(switch, (-1,)))
        filtered, total = hmm_forward(
            xp.ones_like(start), xp.exp(switch - top), xp.exp(seen - most[..., None]), order=order
        )
        most[..., 1:] += top
        return give(filtered), give(total + api.scan(most, axis=-1, order=order))
    xp, model, give = _model(initial, transition, likelihood)
    if order == "sequential":
        known = loops(choose(model))
        joint, sizes = known.forward_in_order(*model) if known else forward_in_order(xp, *model)
        sizes = api.scan(_logarithms(xp, sizes), axis=-1, order=order)
    else:

        def combine(a: Parts, b: Parts) -> Parts:
            matrix, size = _unit(xp, product(a[0], b[0]))
            return matrix, a[1] + b[1] + size

        matrices, sizes = prefixes(xp, combine, _unit(xp, _steps(xp, model, lambda a, b: a * b)))
        joint, sizes = xp.moveaxis(matrices[..., 0, :], 0, -2), xp.moveaxis(sizes, 0, -1)
    total = xp.sum(joint, axis=-1)
    total = xp.where(total > 0, total, xp.zeros_like(total) * xp.nan)
    log_likelihood = sizes + xp.log(total)
    log_likelihood = xp.where(xp.isnan(log_likelihood), sizes, log_likelihood)
    return give(joint / total[..., None]), give(log_likelihood)


@homes.apart
def viterbi(initial: Any, transition: Any, likelihood: Any, *, order: str = "tree") -> tuple[Any, Any]:
    """The most likely sequence of states.

    In the tree all steps are taken at once: scores are products of matrices of logarithms, with max for + and + for *. Then each
    step's best predecessors are a function from states to states, and the scan of these from the end is the path.

    Args:
        initial, transition, likelihood: logarithms of what `hmm_forward` takes of one sequence; -inf for the impossible.
        order: as in `hmm_forward`.

    Returns:
        `(states, score)`: T states (int64) and the logarithm of the path's probability. Of predecessors that are equally good
        the lowest counts.

    Raises:
        ShapeError: shapes that do not fit.
        ValueError: another `order`.

    >>> from upsweep import apps
    >>> import numpy as np
    >>> switch, seen = np.log([[0.9, 0.1], [0.1, 0.9]]), np.log([[0.9, 0.1], [0.4, 0.6], [0.9, 0.1]])
    >>> states, score = apps.viterbi(np.log([0.5, 0.5]), switch, seen)
    >>> states.tolist()
    [0, 0, 0]

    Source: Viterbi (1967); Hassan, Sarkka and Garcia-Fernandez (2021).
    """
    check_order(order)
    xp, model, give = _model(initial, transition, likelihood)
    likelihood = model[-1]
    if likelihood.ndim != 2:
        raise ShapeError(f"likelihood has {likelihood.ndim} dimensions: pass one sequence, (T, K)")
    if not likelihood.shape[0]:
        none = xp.zeros(0, dtype=xp.int64, device=likelihood.device)
        return give(none), give(xp.zeros((), dtype=xp.float64, device=likelihood.device))
    if order == "sequential":
        known = loops(choose(model))
        path, score = known.best_path_in_order(*model) if known else best_path_in_order(xp, *model)
        return give(path), give(xp.max(score, axis=0))
    steps = _steps(xp, model, lambda a, b: a + b)

    def combine(a: Parts, b: Parts) -> Parts:
        best = a[0][..., :, :1] + b[0][..., :1, :]
        for k in range(1, best.shape[-1]):
            best = xp.maximum(best, a[0][..., :, k : k + 1] + b[0][..., k : k + 1, :])
        return (best,)

    (scores,) = prefixes(xp, combine, (steps,))
    scores = scores[:, 0, :]
    before = xp.argmax(scores[:-1, :, None] + steps[1:], axis=1)
    last = xp.argmax(scores[-1:], axis=1)
    choices = xp.concat([xp.broadcast_to(last[:, None], scores[:1].shape), xp.flip(before, axis=0)])
    (path,) = prefixes(xp, lambda a, b: (xp.take_along_axis(b[0], a[0], axis=1),), (choices,))
    return give(xp.flip(path[:, 0], axis=0)), give(xp.max(scores[-1], axis=0))


def _largest(xp: Any, logarithms: Any) -> Any:
    """The largest along the last axis; 0 where nothing is possible, so that 0 is taken off."""
    most = xp.max(logarithms, axis=-1)
    return xp.where(most > -xp.inf, most, xp.zeros_like(most))


def _model(initial: Any, transition: Any, likelihood: Any) -> tuple[Any, tuple[Any, Any, Any], Any]:
    xp, (likelihood, initial, transition), give = enter(likelihood, initial, transition)
    initial, transition, likelihood = (real(xp, v, "a model") for v in (initial, transition, likelihood))
    _check(initial, transition, likelihood)
    return xp, (initial, transition, likelihood), give


def _steps(xp: Any, model: tuple[Any, Any, Any], times: Any) -> Any:
    """One matrix a step, steps first. All rows of the first matrix are the first step's vector, so all rows of every product
    are equal.
    """
    initial, transition, likelihood = model
    likelihood = xp.moveaxis(likelihood, -2, 0)
    steps = times(transition, likelihood[..., None, :])
    steps[:1] = times(initial, likelihood[:1, ..., None, :])
    return steps


def _check(initial: Any, transition: Any, likelihood: Any) -> None:
    states = likelihood.shape[-1] if likelihood.ndim >= 2 else -1
    if states == 0 or tuple(initial.shape) != (states,) or tuple(transition.shape) != (states, states):
        shapes = ", ".join(str(tuple(v.shape)) for v in (initial, transition, likelihood))
        raise ShapeError(
            f"initial, transition and likelihood must be (K,), (K, K) and (T, K) or (..., T, K), got {shapes}"
        )


def _unit(xp: Any, matrices: Any) -> Parts:
    """Matrices with a largest entry of 1, and the logarithms of their divisors."""
    size = xp.max(matrices, axis=(-2, -1)) if matrices.shape[0] else matrices[..., 0, 0]
    some = xp.where(size > 0, size, xp.ones_like(size))
    return matrices / some[..., None, None], _logarithms(xp, size)


def _logarithms(xp: Any, sizes: Any) -> Any:
    """The logarithms of numbers: -inf where one is not above zero, NaN where it is NaN."""
    some = xp.where(sizes > 0, sizes, xp.ones_like(sizes))
    return xp.where(sizes > 0, xp.log(some), 0 * sizes - xp.inf)
