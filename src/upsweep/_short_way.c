/* Remembered calls of NumPy's arrays, run without Python: see short_way.py.

A `Launch` runs a plan once more. A call that it ran teaches it a likeness: the layouts of the arrays, and all other arguments by
identity. `find` runs a call that is like one of those remembered, and returns None for any other call. So nothing is checked here,
and the only error is a lack of memory. The GIL guards the memory of launches. */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030A0000
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#include <Python.h>
#include <numpy/arrayobject.h>
#include <stdint.h>
#include <string.h>

enum { ARRAYS = 6, DIMS = 4, OTHERS = 14, LINE = 64, SLOTS = 1024, PROBES = 4 };

/* Compiled code in numba's calling convention: `upsweep.cpu.entry`. */
typedef int32_t (*Entry)(int64_t *result, int64_t *raised, int64_t table, int64_t memory, int64_t operands);

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
    PyObject *keep;     /* It holds the memory of the table. */
    /* The likeness, which is written once; 0 arrays until then. */
    uint64_t hash;
    int inputs, arrays; /* The inputs, and behind them what is written: arrays of the call, or results that are made. */
    PyTypeObject *kinds[2];
    Layout layouts[ARRAYS];
    PyObject *others[OTHERS];
    int several;        /* The results are a tuple. */
} Launch;

/* The arguments of a call: inputs and outputs, each an array or a tuple of arrays, or None; then the others. */
typedef struct {
    PyObject *const *given;
    int inputs, arrays;
    PyArrayObject *array[ARRAYS];
    uint64_t hash;
} Call;

static Launch *slots[SLOTS + PROBES];
static PyTypeObject *launch_type;
static PyObject *memory_key;

static uint64_t mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 32;
}

/* Add the arrays of one argument to a call; 0 where it is no array that may be remembered. */
static int add_arrays(Call *call, PyObject *given) {
    int several = PyTuple_CheckExact(given);
    Py_ssize_t count = several ? PyTuple_Size(given) : 1;
    if (call->arrays + count > ARRAYS) return 0;
    for (Py_ssize_t at = 0; at < count; at++) {
        PyObject *x = several ? PyTuple_GetItem(given, at) : given;
        if (!PyArray_CheckExact(x) || PyArray_NDIM((PyArrayObject *)x) > DIMS) return 0;
        call->array[call->arrays++] = (PyArrayObject *)x;
    }
    return 1;
}

/* Read the arguments of a call; 0 where it cannot be remembered. */
static int read_call(Call *call, PyObject *const *given) {
    call->given = given;
    call->arrays = 0;
    if (!add_arrays(call, given[0])) return 0;
    call->inputs = call->arrays;
    if (given[1] != Py_None && !add_arrays(call, given[1])) return 0;
    uint64_t hash = mix((uintptr_t)Py_TYPE(given[0]), (uintptr_t)Py_TYPE(given[1]));
    for (int at = 0; at < call->arrays; at++) {
        PyArrayObject *x = call->array[at];
        hash = mix(hash, (uintptr_t)PyArray_DESCR(x));
        for (int d = 0; d < PyArray_NDIM(x); d++)
            hash = mix(mix(hash, (uint64_t)PyArray_DIM(x, d)), (uint64_t)PyArray_STRIDE(x, d));
        if (at >= call->inputs && !PyArray_ISWRITEABLE(x)) return 0;
    }
    for (int at = 0; at < OTHERS; at++) hash = mix(hash, (uintptr_t)given[2 + at]);
    call->hash = hash;
    return 1;
}

static int lies(const Layout *layout, PyArrayObject *x) {
    size_t size = layout->nd * sizeof(npy_intp);
    return layout->dtype == PyArray_DESCR(x) && layout->nd == PyArray_NDIM(x)
        && !memcmp(layout->shape, PyArray_DIMS(x), size) && !memcmp(layout->strides, PyArray_STRIDES(x), size);
}

static int alike(const Launch *known, const Call *call) {
    if (known->hash != call->hash || known->inputs != call->inputs) return 0;
    if (known->kinds[0] != Py_TYPE(call->given[0]) || known->kinds[1] != Py_TYPE(call->given[1])) return 0;
    if (call->given[1] != Py_None && known->arrays != call->arrays) return 0;
    for (int at = 0; at < call->arrays; at++)
        if (!lies(&known->layouts[at], call->array[at])) return 0;
    return !memcmp(known->others, call->given + 2, sizeof known->others);
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

/* The arrays of a call as a tuple, with new memory for results where the call gives none. */
static PyObject *operands_of(const Launch *known, const Call *call) {
    PyObject *operands = PyTuple_New(known->arrays);
    for (int at = 0; operands && at < known->arrays; at++) {
        PyObject *x = at < call->arrays ? Py_NewRef((PyObject *)call->array[at]) : made(&known->layouts[at]);
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
    if (call->given[1] != Py_None) return Py_NewRef(call->given[1]);
    if (!known->several) return result_at(operands, known->inputs);
    PyObject *results = PyTuple_New(known->arrays - known->inputs);
    for (int at = known->inputs; results && at < known->arrays; at++) {
        PyObject *y = result_at(operands, at);
        if (y) PyTuple_SetItem(results, at - known->inputs, y);
        else Py_CLEAR(results);
    }
    return results;
}

static PyObject *find(PyObject *module, PyObject *const *given, Py_ssize_t count) {
    Call call;
    if (count != 2 + OTHERS || !read_call(&call, given)) Py_RETURN_NONE;
    for (int probe = 0; probe < PROBES; probe++) {
        Launch *known = slots[call.hash % SLOTS + probe];
        if (!known || !alike(known, &call)) continue;
        /* Making memory may run Python, which may forget this launch. */
        Py_INCREF(known);
        PyObject *operands = operands_of(known, &call), *y = NULL;
        int ran = operands ? run(known, operands) : -1;
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

/* Teach a launch the likeness of a call that it ran, with the result y. */
static void learn(Launch *known, const Call *call, PyObject *y) {
    int count = 0;
    known->arrays = -1;
    for (; count < call->arrays; count++)
        if (!learn_layout(&known->layouts[count], (PyObject *)call->array[count])) return;
    known->several = PyTuple_CheckExact(y);
    Py_ssize_t results = call->given[1] != Py_None ? 0 : known->several ? PyTuple_Size(y) : 1;
    for (Py_ssize_t at = 0; at < results; at++, count++)
        if (count == ARRAYS || !learn_layout(&known->layouts[count], known->several ? PyTuple_GetItem(y, at) : y)) return;
    for (int at = 0; at < OTHERS; at++) known->others[at] = Py_NewRef(call->given[2 + at]);
    for (int at = 0; at < 2; at++) known->kinds[at] = Py_TYPE(call->given[at]);
    known->hash = call->hash;
    known->inputs = call->inputs;
    known->arrays = count;
}

static PyObject *remember(PyObject *module, PyObject *const *given, Py_ssize_t count) {
    Call call;
    Launch *known = count ? (Launch *)given[0] : NULL;
    if (count == 4 + OTHERS && Py_TYPE(known) == launch_type && read_call(&call, given + 2)) {
        if (!known->arrays) learn(known, &call, given[1]);
        if (known->arrays > 0 && known->hash == call.hash) put(known);
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
    int large;
    PyObject *keep;
    if (!PyArg_ParseTuple(given, "KKnpO", &entry, &table, &scratch, &large, &keep)) return NULL;
    Launch *made = (Launch *)PyType_GenericAlloc(type, 0);
    if (!made) return NULL;
    made->entry = (Entry)(uintptr_t)entry;
    made->table = (int64_t)table;
    made->scratch = scratch;
    made->large = large;
    made->keep = Py_NewRef(keep);
    return (PyObject *)made;
}

static void free_launch(Launch *known) {
    PyTypeObject *type = Py_TYPE(known);
    PyObject_GC_UnTrack(known);
    Py_XDECREF(known->keep);
    for (int at = 0; at < ARRAYS; at++) Py_XDECREF(known->layouts[at].dtype);
    for (int at = 0; at < OTHERS; at++) Py_XDECREF(known->others[at]);
    PyObject_GC_Del(known);
    Py_DECREF(type);
}

/* For the collector of garbage: an operator may hold what holds this launch. */
static int visit_launch(Launch *known, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(known));
    for (int at = 0; at < OTHERS; at++) Py_VISIT(known->others[at]);
    return 0;
}

static int clear_launch(Launch *known) {
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
    {Py_tp_doc, "Launch(entry, table, scratch, large, keep): runs a plan on a tuple of arrays, and says whether it did."},
    {0, NULL}};
static PyType_Spec launch_spec = {
    "upsweep._short_way.Launch", sizeof(Launch), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, launch_slots};

static PyMethodDef functions[] = {
    {"find", (PyCFunction)(void *)find, METH_FASTCALL,
     "find(xs, out, *others): the result of a call that is like a remembered one; None if none is, or it did not run."},
    {"remember", (PyCFunction)(void *)remember, METH_FASTCALL,
     "remember(launch, y, xs, out, *others): have calls like this one, which the launch ran and which gave y, found."},
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
