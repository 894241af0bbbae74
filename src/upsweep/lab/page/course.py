"""The course as the start screen shows it: its rungs in order, and the words that a reader may not know."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rung:
    """One step of the ladder; its number is its place in the table."""

    title: str
    kernel: str
    """The kernel that the page opens at it."""
    says: str
    watch: str
    """The thing to look at there."""


RUNGS = (
    Rung("One thread", "sequential", "Each prefix is made from the one before.",
         "One thread runs while all others would watch: the network is a single chain, as deep as it is long."),
    Rung("Every thread for itself", "naive", "Thread i adds x[0] to x[i], and waits for nobody.",
         "No step is saved, and most sums are made many times over: compare the work with rung 1."),
    Rung("Twice as far at every level", "kogge-stone", "After the level with stride s, a word holds the sum of 2s items.",
         "At every level the words below the network cover twice as many inputs. Then take out a barrier."),
    Rung("Exclusive", "kogge-stone-exclusive", "Load one item to the left, and begin with the identity.",
         "The last input is in no result: each y[i] leaves x[i] out."),
    Rung("Two buffers", "kogge-stone-double", "Read one buffer, write the other: one barrier a level is enough.",
         "In Memory, the two rows of xy take turns at being read and written."),
    Rung("The reduction tree", "reduction", "For the total alone, n - 1 operations in log2 n levels.",
         "Half as many threads work at every level; the sums that stay behind are what rung 7 needs."),
    Rung("Down again: as much work as one thread", "brent-kung", "A second tree hands the sums to the words between.",
         "In the middle step a single thread works: the tree turns round there."),
    Rung("Clear, swap, add", "blelloch", "Clear the root; every node passes its prefix down on both sides.",
         "Watch xy[15] become the identity half-way. Then set the operator to concat: does the order stay right?"),
    Rung("Banks", "blelloch-padded", "A gap after every 32 words keeps the threads of a warp in different banks.",
         "Set n to 256, compare with blelloch, and look at the red squares under Banks."),
    Rung("Between the extremes", "sklansky", "Fewer levels cost more operations, or more readers of one word.",
         "In the last level one word is read by half of all others: that is the fan-out."),
    Rung("More items than threads", "three-phase", "Each thread scans its own few; then each takes in what came before.",
         "Threads work alone, then together, then alone again. The kernel hierarchical does the same with blocks."),
    Rung("The single pass", "domino-dynamic", "A block waits for the sum of all blocks before it, and hands on its own.",
         "Blocks end one after the other, like dominoes. Open domino, hold 2 blocks and start the last ones first."),
    Rung("Looking back", "decoupled-look-back", "A block publishes its own sum at once, and adds up those before it.",
         "Hold 1 block, then all of them: how far back does a block look?"),
)  # fmt: skip

GLOSSARY = {
    "scan": "Every item combined with all items before it: y[i] = x[0] op x[1] op ... op x[i]. Also called prefix sum.",
    "prefix": "The combination of the items from the first up to one place; a scan is the list of all prefixes.",
    "inclusive": "The prefix at i takes x[i] in.",
    "exclusive": "The prefix at i leaves x[i] out, and the first one is the identity.",
    "operator": "What combines two values into one, such as +. The left operand is always the earlier one.",
    "identity": "The value that changes nothing: 0 for +, 1 for a product, the empty text for concatenation.",
    "associative": "(a op b) op c = a op (b op c): brackets may be moved, and so work may be shared out. Every scan needs it.",
    "commutative": "a op b = b op a: the operands may change places. Few scans need it, and concatenation lacks it.",
    "idempotent": "a op a = a, as for a maximum: an item may be taken in twice.",
    "thread": "One of many that run the same kernel, each with its own number t.",
    "threads": "Many run the same kernel, each with its own number t.",
    "warp": "32 threads that a GPU moves on together, one instruction at a time.",
    "block": "Threads that share memory and can wait for one another; here, how many threads that is.",
    "barrier": "A line at which every thread of a block waits until all have come to it: cuda.syncthreads().",
    "barriers": "Lines at which every thread of a block waits until all have come: cuda.syncthreads().",
    "schedule": "The order in which threads happen to run. A right kernel gives the same result under each.",
    "blocks held": "How many blocks the GPU runs at the same time; the others start when one ends.",
    "blocks start": "The order in which blocks begin, which a GPU does not promise.",
    "race": "Two threads touch one word, one of them writes, and nothing orders the two: the result depends on luck.",
    "RAW": "Read after write: a race in which one thread reads what another writes.",
    "WAR": "Write after read: a race in which one thread overwrites what another still has to read.",
    "WAW": "Write after write: a race in which two threads write one word.",
    "work": "How often the operator is applied, by all threads together. Processors times time is never less.",
    "steps": "How many applications come one after the other: the time with as many processors as one could want.",
    "size": "The number of nodes of the network: the work.",
    "depth": "The longest way through the network, in nodes.",
    "fan-out": "How many read one value at most.",
    "deficiency": "Size + depth - (2n - 2). It is never negative where all prefixes are made (Snir 1986); 0 is the best.",
    "shared memory": "Memory of one block, small and near; all of its threads see it.",
    "shared loads": "Reads of shared memory, the small and near memory of a block.",
    "shared stores": "Writes of shared memory, the small and near memory of a block.",
    "global loads": "Reads of global memory, which is large, far, and seen by all blocks.",
    "global stores": "Writes of global memory, which is large, far, and seen by all blocks.",
    "atomics": "Reads and writes in one breath, which no other thread can come between.",
    "shuffles": "Values passed from thread to thread within a warp, without memory.",
    "fence": "What a thread wrote before it, others see before what it writes after it.",
    "deadlock": "Everybody waits for somebody, and nobody moves.",
    "banks": "Shared memory has 32 of them side by side; word k lies in bank k mod 32, and a bank gives one word at a time.",
    "conflict": "Threads of one warp ask one bank for different words, which are then given one after the other.",
    "shared requests of warps": "Instructions of whole warps that read or write shared memory.",
    "wavefronts": "Rounds that the banks need to serve all requests: as many as requests where nothing conflicts.",
    "sectors": "Pieces of 32 bytes in which global memory is moved.",
    "branches that part a warp": "Tests that are true for some threads of a warp and false for others; those then run in turns.",
    "padding": "Unused words between others, so that these fall into different banks.",
    "network": "Wires are places, from top to bottom is time, a dot applies the operator to two values.",
    "uninitialised": "Memory that is read before anybody has written it holds anything at all.",
    "out of bounds": "A place before the first or after the last word of an array.",
    "divergent barrier": "A barrier that some threads of a block come to and others do not: undefined on a GPU.",
    "stride": "How far apart the two words lie that a thread combines.",
    "kernel": "The function that every thread runs on a GPU.",
}
"""Each term with its meaning, in one or two sentences."""
