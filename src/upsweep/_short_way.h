/* What the files of the C part share: see `_short_way.c`. */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030A0000
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL upsweep_short_way
#include <Python.h>
#include <numpy/arrayobject.h>
#include <stdint.h>
#include <string.h>

/* Other libraries may have functions of these names. */
#ifdef __GNUC__
#pragma GCC visibility push(hidden)
#endif

/* The arguments of a call: those that hold arrays and numbers, each one or a tuple or None; then the others. */
enum { INPUTS, MARKS, OUT, INITIAL, HOLDING, OTHERS = 13, ARGUMENTS = HOLDING + OTHERS };
enum { ITEMS = 12, DIMS = 4 };

/* A NumPy array but for its memory. */
typedef struct {
    PyArray_Descr *dtype;
    int nd;
    npy_intp shape[DIMS], strides[DIMS];
} Layout;

/* What runs a plan once more, the first member of each such type. `run` takes a tuple of arrays: 1 if it ran, 0 if it did not, -1
with an exception. */
typedef struct Known {
    PyObject_HEAD
    int (*run)(const struct Known *, PyObject *operands);
    int told;                   /* The marks are one list of any length. */
    /* What it was taught, once. */
    int count, results, several;/* The items of a call; the results that are made; whether they are a tuple. */
    PyObject *holders[ITEMS];   /* The function that makes of an item what is run, such as an array of a number. */
    Layout layouts[ITEMS];      /* Of the items that are NumPy's arrays; behind all items, of the results that are made. */
    int like;                   /* Results that are not made by their layouts lie where this item does. */
    PyObject *makers, *givers;
    /* The likeness, which is written once. */
    int learnt;
    uint64_t hash;
    PyTypeObject *kinds[HOLDING];
    int behind[HOLDING];
    PyTypeObject *types[ITEMS];
    PyObject *alike;            /* The likeness of the arrays that are not NumPy's. */
    int twin[ITEMS];
    PyObject *others[OTHERS];
} Known;

/* A call: its items are the arrays and numbers of all arguments, those of an argument lie before its `behind`. */
typedef struct {
    PyObject *const *given;
    int count, behind[HOLDING];
    PyObject *items[ITEMS];
    uint64_t hash;
    int twin[ITEMS];            /* Of arrays that are not NumPy's: the first item that is the same; -1 of other items. */
    PyObject *alike;            /* Their likeness. */
} Call;

/* `engine.LIKENESS`: how arrays that are not NumPy's are told apart, by their types; and the places in an `engine.Likeness`. */
extern PyObject *likenesses;
enum { OF, WRITABLE = 2, WROTE, TOGETHER, LEARNT = 4096 };
extern char learnt_so[LEARNT];

/* What is known of the arrays of a type that is not NumPy's; NULL of numbers. */
PyObject *likeness_of(PyObject *x);
/* Read the arrays and numbers of a call; 0 where it has too many. */
int read_items(Call *call, PyObject *const *given);
/* Read the arguments of a call; 0 where it cannot be remembered, or is none that was learnt. The likeness is to be given back. */
int read_call(Call *call, PyObject *const *given, int learning);
/* Whether a call is like the one that is known; the same likeness stands for arrays that are alike. */
int alike(const Known *known, const Call *call);

/* For the `dealloc`, `traverse`, `clear`, `methods` and `call` of such a type. */
void free_known(Known *known);
int visit_known(Known *known, visitproc visit, void *arg);
int clear_known(Known *known);
extern PyMethodDef known_methods[];
PyObject *call_known(PyObject *known, PyObject *given, PyObject *names);

PyTypeObject *cpu_type(void);
PyTypeObject *gpu_type(void);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
