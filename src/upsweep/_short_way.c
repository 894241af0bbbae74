/* Remembered calls of NumPy's arrays, run without Python: see short_way.py.

A `Launch` runs a plan once more. A call that it ran teaches it a likeness: the layouts of the arrays, the types of the numbers, and
all other arguments by identity. `find` runs a call that is like one of those remembered, and returns None for any other call. So
nothing is checked here, and the only error is a lack of memory. The GIL guards the memory of launches. */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030A0000
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#include <Python.h>
#include <numpy/arrayobject.h>
#include <stdint.h>
#include <string.h>

/* The arguments of a call: those that hold arrays and numbers, each one or a tuple or None; then the others. */
enum { INPUTS, MARKS, OUT, INITIAL, HOLDING, OTHERS = 13, ARGUMENTS = HOLDING + OTHERS };
enum { ITEMS = 8, DIMS = 4, LINE = 64, SLOTS = 1024, PROBES = 4 };

/* Compiled code in numba's calling convention: `upsweep.cpu.entry`. */
typedef int32_t (*Entry)(int64_t *result, int64_t *raised, int64_t table, int64_t memory, int64_t operands);

/* An array but for its memory. */
typedef struct {
    PyArray_Descr *dtype;
    int nd;
    npy_intp shape[DIMS], strides[DIMS];
} Layout;

typedef struct {
    PyObject_HEAD
    Entry entry;
    int64_t table;
    Py_ssize_t scratch;
    int large;          /* Other threads may run meanwhile. */
    int told;           /* The marks are one list of any length. */
    PyObject *keep;     /* It holds the memory of the table. */
    /* The likeness, which is written once. */
    int learnt;
    uint64_t hash;
    PyTypeObject *kinds[HOLDING];
    int behind[HOLDING], results;
    PyTypeObject *types[ITEMS];
    PyObject *holders[ITEMS];   /* The function that makes an array of a number, or of an array of another dtype. */
    Layout layouts[ITEMS];      /* Of the items that are arrays; behind all items, of the results that are made. */
    PyObject *others[OTHERS];
    int several;        /* The results are a tuple. */
} Launch;

/* A call: its items are the arrays and numbers of all arguments, those of an argument lie before its `behind`. */
typedef struct {
    PyObject *const *given;
    int count, behind[HOLDING];
    PyObject *items[ITEMS];
    uint64_t hash;
} Call;

static Launch *slots[SLOTS + PROBES];
static PyTypeObject *launch_type;
static PyObject *memory_key;

static uint64_t mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 32;
}

/* Add an item to a call; 0 where it cannot be remembered. */
static int add_item(Call *call, int argument, PyObject *item) {
    if (call->count == ITEMS) return 0;
    call->items[call->count++] = item;
    if (!PyArray_CheckExact(item)) {
        call->hash = mix(call->hash, (uintptr_t)Py_TYPE(item));
        return argument != OUT;
    }
    PyArrayObject *x = (PyArrayObject *)item;
    if (PyArray_NDIM(x) > DIMS || (argument == OUT && !PyArray_ISWRITEABLE(x))) return 0;
    call->hash = mix(call->hash, (uintptr_t)PyArray_DESCR(x));
    /* Marks of another length may be alike. */
    for (int d = 0; argument != MARKS && d < PyArray_NDIM(x); d++)
        call->hash = mix(mix(call->hash, (uint64_t)PyArray_DIM(x, d)), (uint64_t)PyArray_STRIDE(x, d));
    return 1;
}

/* Read the arguments of a call; 0 where it cannot be remembered. */
static int read_call(Call *call, PyObject *const *given) {
    call->given = given;
    call->count = 0;
    call->hash = 0;
    for (int argument = 0; argument < HOLDING; argument++) {
        PyObject *one = given[argument];
        int several = PyTuple_CheckExact(one);
        Py_ssize_t count = several ? PyTuple_Size(one) : one != Py_None;
        for (Py_ssize_t at = 0; at < count; at++)
            if (!add_item(call, argument, several ? PyTuple_GetItem(one, at) : one)) return 0;
        call->behind[argument] = call->count;
    }
    for (int at = 0; at < OTHERS; at++) call->hash = mix(call->hash, (uintptr_t)given[HOLDING + at]);
    return 1;
}

static int lies(const Layout *layout, PyArrayObject *x, int told) {
    size_t size = layout->nd * sizeof(npy_intp);
    return layout->dtype == PyArray_DESCR(x) && layout->nd == PyArray_NDIM(x)
        && (told || (!memcmp(layout->shape, PyArray_DIMS(x), size) && !memcmp(layout->strides, PyArray_STRIDES(x), size)));
}

static int alike(const Launch *known, const Call *call) {
    if (known->hash != call->hash || memcmp(known->behind, call->behind, sizeof known->behind)) return 0;
    for (int at = 0; at < HOLDING; at++)
        if (known->kinds[at] != Py_TYPE(call->given[at])) return 0;
    for (int at = 0; at < call->count; at++) {
        PyObject *x = call->items[at];
        int told = known->told && at >= call->behind[INPUTS] && at < call->behind[MARKS];
        if (known->types[at] != Py_TYPE(x)) return 0;
        if (PyArray_CheckExact(x) && !lies(&known->layouts[at], (PyArrayObject *)x, told)) return 0;
    }
    return !memcmp(known->others, call->given + HOLDING, sizeof known->others);
}

/* This thread's scratch memory, on a cache line; no Python runs until it is used. */
static char *scratch(Py_ssize_t size) {
    PyObject *own = PyThreadState_GetDict(), *memory = own ? PyDict_GetItemWithError(own, memory_key) : NULL;
    if (own && (!memory || PyByteArray_Size(memory) < size + LINE)) {
        memory = PyByteArray_FromStringAndSize(NULL, size + LINE);
        if (memory && PyDict_SetItem(own, memory_key, memory)) Py_CLEAR(memory);
        Py_XDECREF(memory);
    }
    if (!memory) return PyErr_Occurred() ? NULL : (char *)PyErr_NoMemory();
    return (char *)(((uintptr_t)PyByteArray_AsString(memory) + LINE - 1) / LINE * LINE);
}

/* Run a launch on a tuple of arrays: 1 if it ran, 0 if it did not, -1 with an exception. */
static int run(const Launch *known, PyObject *operands) {
    int64_t result, raised, failed;
    char *memory = scratch(known->scratch);
    if (!memory) return -1;
    PyThreadState *others = known->large ? PyEval_SaveThread() : NULL;
    failed = known->entry(&result, &raised, known->table, (int64_t)memory, (int64_t)operands);
    if (others) PyEval_RestoreThread(others);
    return !failed;
}

static PyObject *made(const Layout *like) {
    Py_INCREF(like->dtype);
    return PyArray_NewFromDescr(&PyArray_Type, like->dtype, like->nd, like->shape, like->strides, NULL, 0, NULL);
}

/* An item as the array that is read: a number becomes one. */
static PyObject *held(const Launch *known, const Call *call, int at) {
    PyObject *x = call->items[at];
    if (!known->holders[at]) return Py_NewRef(x);
    PyObject *array = PyObject_CallFunctionObjArgs(known->holders[at], x, NULL);
    if (!array) PyErr_Clear();
    if (array && !PyArray_CheckExact(array)) Py_CLEAR(array);
    return array;
}

/* The operands of a call as a tuple, with new memory for results where the call gives none. NULL where a number needs a check, or
with an exception. */
static PyObject *operands_of(const Launch *known, const Call *call) {
    int before = call->behind[OUT], count = call->count + known->results;
    PyObject *operands = PyTuple_New(count);
    for (int at = 0; operands && at < count; at++) {
        int item = at < before ? at : at - known->results;
        PyObject *x = item < before && at >= before ? made(&known->layouts[call->count + at - before]) : held(known, call, item);
        if (x) PyTuple_SetItem(operands, at, x);
        else Py_CLEAR(operands);
    }
    return operands;
}

/* One of the operands as a result. An array without dimensions becomes a number. */
static PyObject *result_at(PyObject *operands, int at) {
    return PyArray_Return((PyArrayObject *)Py_NewRef(PyTuple_GetItem(operands, at)));
}

/* The result of a call that ran. */
static PyObject *result_of(const Launch *known, const Call *call, PyObject *operands) {
    if (call->given[OUT] != Py_None) return Py_NewRef(call->given[OUT]);
    if (!known->several) return result_at(operands, call->behind[OUT]);
    PyObject *results = PyTuple_New(known->results);
    for (int at = 0; results && at < known->results; at++) {
        PyObject *y = result_at(operands, call->behind[OUT] + at);
        if (y) PyTuple_SetItem(results, at, y);
        else Py_CLEAR(results);
    }
    return results;
}

static PyObject *find(PyObject *module, PyObject *const *given, Py_ssize_t count) {
    Call call;
    if (count != ARGUMENTS || !read_call(&call, given)) Py_RETURN_NONE;
    for (int probe = 0; probe < PROBES; probe++) {
        Launch *known = slots[call.hash % SLOTS + probe];
        if (!known || !alike(known, &call)) continue;
        /* Making memory may run Python, which may forget this launch. */
        Py_INCREF(known);
        PyObject *operands = operands_of(known, &call), *y = NULL;
        int ran = operands ? run(known, operands) : -!!PyErr_Occurred();
        if (ran > 0) y = result_of(known, &call, operands);
        Py_XDECREF(operands);
        Py_DECREF(known);
        return ran ? y : Py_NewRef(Py_None);
    }
    Py_RETURN_NONE;
}

/* Put a launch where calls of its likeness find it, in the place of another one if there is no room. */
static void put(Launch *known) {
    static unsigned turn;
    Launch **place = &slots[known->hash % SLOTS], **into = place + turn++ % PROBES;
    for (int probe = PROBES - 1; probe >= 0; probe--)
        if (!place[probe] || place[probe] == known) into = place + probe;
    Launch *before = *into;
    *into = (Launch *)Py_NewRef((PyObject *)known);
    Py_XDECREF(before);
}

/* The layout of an array, or of a number as a result without dimensions; 0 of anything else. */
static int learn_layout(Layout *layout, PyObject *x) {
    if (PyArray_CheckExact(x) && PyArray_NDIM((PyArrayObject *)x) <= DIMS) {
        PyArrayObject *array = (PyArrayObject *)x;
        layout->dtype = PyArray_DESCR(array);
        layout->nd = PyArray_NDIM(array);
        memcpy(layout->shape, PyArray_DIMS(array), layout->nd * sizeof(npy_intp));
        memcpy(layout->strides, PyArray_STRIDES(array), layout->nd * sizeof(npy_intp));
        Py_INCREF(layout->dtype);
        return !PyDataType_HASFIELDS(layout->dtype);
    }
    layout->dtype = PyArray_IsScalar(x, Generic) ? PyArray_DescrFromScalar(x) : NULL;
    if (!layout->dtype) PyErr_Clear();
    return layout->dtype != NULL;
}

/* Teach a launch the likeness of a call that it ran, with the result y, and what makes arrays of its numbers. */
static void learn(Launch *known, const Call *call, PyObject *holders, PyObject *y) {
    for (int at = 0; at < call->count; at++) {
        PyObject *x = call->items[at], *holder = PyTuple_GetItem(holders, at);
        known->types[at] = Py_TYPE(x);
        if (holder != Py_None) known->holders[at] = Py_NewRef(holder);
        if (PyArray_CheckExact(x) ? !learn_layout(&known->layouts[at], x) : holder == Py_None) return;
    }
    known->several = PyTuple_CheckExact(y);
    if (call->given[OUT] == Py_None) known->results = known->several ? (int)PyTuple_Size(y) : 1;
    if (call->count + known->results > ITEMS) return;
    for (int at = 0; at < known->results; at++)
        if (!learn_layout(&known->layouts[call->count + at], known->several ? PyTuple_GetItem(y, at) : y)) return;
    for (int at = 0; at < OTHERS; at++) known->others[at] = Py_NewRef(call->given[HOLDING + at]);
    for (int at = 0; at < HOLDING; at++) known->kinds[at] = Py_TYPE(call->given[at]);
    memcpy(known->behind, call->behind, sizeof known->behind);
    known->hash = call->hash;
    known->learnt = 1;
}

static PyObject *remember(PyObject *module, PyObject *const *given, Py_ssize_t count) {
    Call call;
    Launch *known = count ? (Launch *)given[0] : NULL;
    if (count == 3 + ARGUMENTS && Py_TYPE(known) == launch_type && PyTuple_CheckExact(given[1]) && read_call(&call, given + 3)) {
        /* Half a likeness is never finished. */
        int first = call.count && !known->types[0] && PyTuple_Size(given[1]) == call.count;
        if (first) learn(known, &call, given[1], given[2]);
        if (known->learnt && known->hash == call.hash) put(known);
    }
    Py_RETURN_NONE;
}

static PyObject *forget(PyObject *module, PyObject *nothing) {
    for (int at = 0; at < SLOTS + PROBES; at++) Py_CLEAR(slots[at]);
    Py_RETURN_NONE;
}

static PyObject *new_launch(PyTypeObject *type, PyObject *given, PyObject *names) {
    unsigned long long entry, table;
    Py_ssize_t scratch;
    int large, told;
    PyObject *keep;
    if (!PyArg_ParseTuple(given, "KKnppO", &entry, &table, &scratch, &large, &told, &keep)) return NULL;
    Launch *made = (Launch *)PyType_GenericAlloc(type, 0);
    if (!made) return NULL;
    made->entry = (Entry)(uintptr_t)entry;
    made->table = (int64_t)table;
    made->scratch = scratch;
    made->large = large;
    made->told = told;
    made->keep = Py_NewRef(keep);
    return (PyObject *)made;
}

static void free_launch(Launch *known) {
    PyTypeObject *type = Py_TYPE(known);
    PyObject_GC_UnTrack(known);
    Py_XDECREF(known->keep);
    for (int at = 0; at < ITEMS; at++) Py_XDECREF(known->layouts[at].dtype);
    for (int at = 0; at < ITEMS; at++) Py_XDECREF(known->holders[at]);
    for (int at = 0; at < OTHERS; at++) Py_XDECREF(known->others[at]);
    PyObject_GC_Del(known);
    Py_DECREF(type);
}

/* For the collector of garbage: an operator may hold what holds this launch. */
static int visit_launch(Launch *known, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(known));
    for (int at = 0; at < ITEMS; at++) Py_VISIT(known->holders[at]);
    for (int at = 0; at < OTHERS; at++) Py_VISIT(known->others[at]);
    return 0;
}

static int clear_launch(Launch *known) {
    for (int at = 0; at < ITEMS; at++) Py_CLEAR(known->holders[at]);
    for (int at = 0; at < OTHERS; at++) Py_CLEAR(known->others[at]);
    return 0;
}

static PyObject *call_launch(PyObject *known, PyObject *given, PyObject *names) {
    PyObject *operands;
    if (!PyArg_ParseTuple(given, "O!", &PyTuple_Type, &operands)) return NULL;
    int ran = run((Launch *)known, operands);
    return ran < 0 ? NULL : PyBool_FromLong(ran);
}

static PyType_Slot launch_slots[] = {
    {Py_tp_new, new_launch},
    {Py_tp_dealloc, free_launch},
    {Py_tp_traverse, visit_launch},
    {Py_tp_clear, clear_launch},
    {Py_tp_call, call_launch},
    {Py_tp_doc, "Launch(entry, table, scratch, large, told, keep): runs a plan on a tuple of arrays, and says whether it did."},
    {0, NULL}};
static PyType_Spec launch_spec = {
    "upsweep._short_way.Launch", sizeof(Launch), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, launch_slots};

static PyMethodDef functions[] = {
    {"find", (PyCFunction)(void *)find, METH_FASTCALL, "find(xs, marks, out, initial, *others): the result of a call that is like a remembered one; None if none is, or it did not run."},
    {"remember", (PyCFunction)(void *)remember, METH_FASTCALL,
     "remember(launch, holders, y, xs, marks, out, initial, *others): have calls like this one found, which the launch ran\n"
     "and which gave y. A holder makes an array of a number, or None of one that needs a check; for an array it may be None."},
    {"forget", forget, METH_NOARGS, "forget(): have no call found."},
    {NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_short_way", NULL, -1, functions};

PyMODINIT_FUNC PyInit__short_way(void) {
    import_array();
    memory_key = PyUnicode_InternFromString("upsweep's scratch memory");
    launch_type = (PyTypeObject *)PyType_FromSpec(&launch_spec);
    PyObject *made = memory_key && launch_type ? PyModule_Create(&module) : NULL;
    if (made && PyModule_AddObjectRef(made, "Launch", (PyObject *)launch_type)) Py_CLEAR(made);
    return made;
}
