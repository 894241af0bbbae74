"""Kogge and Stone's scan with mistakes."""

# pyright: reportPossiblyUnboundVariable=false
from upsweep.textbook.dialect import BLOCK, cuda, dtype, identity, op


def figure_11_3(x, y, n):
    """Kogge-Stone as PMPP prints it in figure 11.3: zeros for the tail, the later operand first, SECTION_SIZE beside blockDim."""
    xy = cuda.shared.array(BLOCK, dtype)  # SECTION_SIZE
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < n:
        xy[cuda.threadIdx.x] = x[i]
    else:
        xy[cuda.threadIdx.x] = 0
    stride = 1
    while stride < cuda.blockDim.x:
        cuda.syncthreads()
        if cuda.threadIdx.x >= stride:
            temp = xy[cuda.threadIdx.x] + xy[cuda.threadIdx.x - stride]
        cuda.syncthreads()
        if cuda.threadIdx.x >= stride:
            xy[cuda.threadIdx.x] = temp
        stride *= 2
    if i < n:
        y[i] = xy[cuda.threadIdx.x]


def kogge_stone_in_place(x, y, n):
    """Kogge-Stone that reads and writes in one breath: the second barrier and its register are missing."""
    t = cuda.threadIdx.x
    xy = cuda.shared.array(BLOCK, dtype)
    if t < n:
        xy[t] = x[t]
    stride = 1
    while stride < BLOCK:
        cuda.syncthreads()
        if t >= stride and t < n:
            xy[t] = op(xy[t - stride], xy[t])
        stride *= 2
    if t < n:
        y[t] = xy[t]


def kogge_stone_no_first_barrier(x, y, n):
    """Kogge-Stone without the barrier between one level's writes and the next one's reads."""
    t = cuda.threadIdx.x
    xy = cuda.shared.array(BLOCK, dtype)
    if t < n:
        xy[t] = x[t]
    stride = 1
    while stride < BLOCK:
        if t >= stride and t < n:
            temp = op(xy[t - stride], xy[t])
        cuda.syncthreads()
        if t >= stride and t < n:
            xy[t] = temp
        stride *= 2
    if t < n:
        y[t] = xy[t]


def kogge_stone_no_second_barrier(x, y, n):
    """Kogge-Stone with the register, but without the barrier between reading and overwriting."""
    t = cuda.threadIdx.x
    xy = cuda.shared.array(BLOCK, dtype)
    if t < n:
        xy[t] = x[t]
    stride = 1
    while stride < BLOCK:
        cuda.syncthreads()
        if t >= stride and t < n:
            temp = op(xy[t - stride], xy[t])
        if t >= stride and t < n:
            xy[t] = temp
        stride *= 2
    if t < n:
        y[t] = xy[t]


def kogge_stone_divergent(x, y, n):
    """Kogge-Stone with its barriers inside the branch that only some threads take."""
    t = cuda.threadIdx.x
    xy = cuda.shared.array(BLOCK, dtype)
    if t < n:
        xy[t] = x[t]
    stride = 1
    cuda.syncthreads()
    while stride < BLOCK:
        if t >= stride:
            temp = op(xy[t - stride], xy[t])
            cuda.syncthreads()
            xy[t] = temp
            cuda.syncthreads()
        stride *= 2
    if t < n:
        y[t] = xy[t]


def early_return(x, y, n):
    """Kogge-Stone whose threads past the end leave before the first barrier."""
    t = cuda.threadIdx.x
    xy = cuda.shared.array(BLOCK, dtype)
    if t >= n:
        return
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


def gpu_gems_double_buffer(x, y, n):
    """Exclusive scan between two buffers as GPU Gems 3 prints it, listing 39-2: it adds to the stale half."""
    t = cuda.threadIdx.x
    temp = cuda.shared.array((2, BLOCK), dtype)
    pout, pin = 0, 1
    if t > 0:
        temp[pout, t] = x[t - 1]
    else:
        temp[pout, t] = identity
    cuda.syncthreads()
    offset = 1
    while offset < n:
        pout, pin = pin, pout
        if t >= offset:
            temp[pout, t] += temp[pin, t - offset]
        else:
            temp[pout, t] = temp[pin, t]
        cuda.syncthreads()
        offset *= 2
    y[t] = temp[pout, t]


def notes_double_buffer(y, x):
    """The notes' double buffer, (Y, X) and no N: right between its buffers, without a guard, one barrier too many."""
    t = cuda.threadIdx.x
    source = 0
    target = cuda.blockDim.x
    xy = cuda.shared.array(0, dtype)
    xy[source + t] = x[t]
    cuda.syncthreads()
    stride = 1
    while stride < cuda.blockDim.x:
        if t >= stride:
            xy[target + t] = op(xy[source + t - stride], xy[source + t])
        else:
            xy[target + t] = xy[source + t]
        source, target = target, source
        cuda.syncthreads()
        stride *= 2
    y[t] = xy[source + t]
