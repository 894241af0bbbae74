"""Closed forms of what kernels cost: the formula sheet that runs are held to."""

from __future__ import annotations

from upsweep.textbook.table import Formula


def ceil(a: int, b: int) -> int:
    """a / b, rounded up."""
    return -(-a // b)


def power(n: int) -> int:
    """The power of two that holds n."""
    return 1 << max(n - 1, 0).bit_length()


def log(n: int) -> int:
    """log2 n, rounded up."""
    return max(n - 1, 0).bit_length()


def ks_work(n: int) -> int:
    """Kogge-Stone's additions, for any n: the sum of n - 2^d over the levels."""
    return sum(n - (1 << d) for d in range(log(n)))


def bk_work(n: int) -> int:
    """Brent-Kung's additions, for any n: n minus the ones of n going up, n minus the digits of n coming down."""
    return 2 * n - n.bit_count() - n.bit_length()


KS_WORK = Formula("n log2 n - (n - 1); for any n the sum of n - 2^d", lambda n, b: ks_work(n))
LEVELS = Formula("ceil(log2 n)", lambda n, b: log(n))
TWO_A_LEVEL = Formula("2 ceil(log2 n)", lambda n, b: 2 * log(n))
ONE_A_LEVEL = Formula(
    "ceil(log2 n); the notes' own code has one more, which is redundant", lambda n, b: log(n)
)
BK_WORK = Formula("2n - 2 - log2 n; for any n 2n - ones(n) - digits(n)", lambda n, b: bk_work(n))
BK_STEPS = Formula("2 log2 n - 1", lambda n, b: 2 * log(n) - 1 if n > 1 else 0, powers=True)
BK_BARRIERS = Formula("2 log2 n", lambda n, b: 2 * log(n) if n > 1 else 1, powers=True)
ALL_BUT_ONE = Formula("n - 1", lambda n, b: n - 1)
NONE = Formula("0", lambda n, b: 0)
FULL_TREE = Formula("2 (N - 1), N the power of two that holds n", lambda n, b: 2 * (2 * power(b) - 1))
FULL_STEPS = Formula("2 log2 N", lambda n, b: 2 * log(2 * power(b)))
FULL_BARRIERS = Formula("2 log2 N + 1", lambda n, b: 2 * log(2 * power(b)) + 1)


def harris_work(n: int, sparse: int, wide: int) -> int:
    """The additions of Harris's (l, f, t) on a power of two of items, l and f as far as n has levels for them."""
    sparse = min(sparse, log(n))
    m = n >> sparse
    wide = min(wide, log(m))
    inner = m // 2 * wide + sum(m - (1 << d) for d in range(wide, log(m)))
    return 2 * (n - m) - sparse + inner


def lf_work(n: int, k: int) -> int:
    """Ladner and Fischer's size of P_k on a power of two of items, F the Fibonacci numbers."""
    levels = log(n)
    return 2 * n + (2 * n >> k) - fibonacci(5 + levels - k) - k + 1


def fibonacci(k: int) -> int:
    """The k-th Fibonacci number, from F(1) = F(2) = 1."""
    a, b = 0, 1
    for _ in range(k):
        a, b = b, a + b
    return a


def sections_work(n: int, section: int) -> int:
    """B W(S) + W(B) + (n - S): sections of Kogge-Stone, Kogge-Stone over their sums, and one addition for each other item."""
    full, rest = divmod(n, min(section, n))
    section = min(section, n)
    return full * ks_work(section) + ks_work(rest) + ks_work(ceil(n, section)) + max(n - section, 0)


def three_phase_work(n: int, threads: int) -> int:
    """(n - T) + (T log2 T - (T - 1)) + (T - 1)(n/T - 1), where T divides n."""
    return (n - threads) + ks_work(threads) + (threads - 1) * (n // threads - 1)


def matrix_work(n: int, threads: int) -> int:
    """2 (n - T) + (T log2 T - (T - 1)) + (T - 1), where T divides n: every row is reduced, and scanned again."""
    return 2 * (n - threads) + ks_work(threads) + threads - 1
