/* Compiled code of the CPU engine: see upsweep/cpu/again.py. */
#define NO_IMPORT_ARRAY
#include "_short_way.h"

enum { LINE = 64 };

/* Compiled code in numba's calling convention: `upsweep.cpu.entry`. */
typedef int32_t (*Entry)(int64_t *result, int64_t *raised, int64_t table, int64_t memory, int64_t operands);

typedef struct {
    Known known;
    Entry entry;
    int64_t table;
    Py_ssize_t scratch;
    int large;          /* Other threads may run meanwhile. */
    PyObject *keep;     /* It holds the memory of the table. */
} Launch;

static PyObject *memory_key;

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

static int run(const Known *known, PyObject *operands) {
    const Launch *launch = (const Launch *)known;
    int64_t result, raised, failed;
    char *memory = scratch(launch->scratch);
    if (!memory) return -1;
    PyThreadState *others = launch->large ? PyEval_SaveThread() : NULL;
    failed = launch->entry(&result, &raised, launch->table, (int64_t)memory, (int64_t)operands);
    if (others) PyEval_RestoreThread(others);
    return !failed;
}

static PyObject *made(PyTypeObject *type, PyObject *given, PyObject *names) {
    unsigned long long entry, table;
    Py_ssize_t scratch;
    int large, told;
    PyObject *keep;
    if (!PyArg_ParseTuple(given, "KKnppO", &entry, &table, &scratch, &large, &told, &keep)) return NULL;
    Launch *made = (Launch *)PyType_GenericAlloc(type, 0);
    if (!made) return NULL;
    made->known.run = run;
    made->known.told = told;
    made->entry = (Entry)(uintptr_t)entry;
    made->table = (int64_t)table;
    made->scratch = scratch;
    made->large = large;
    made->keep = Py_NewRef(keep);
    return (PyObject *)made;
}

static void freed(Launch *launch) {
    PyTypeObject *type = Py_TYPE(launch);
    PyObject_GC_UnTrack(launch);
    free_known(&launch->known);
    Py_XDECREF(launch->keep);
    PyObject_GC_Del(launch);
    Py_DECREF(type);
}

static PyType_Slot slots[] = {
    {Py_tp_new, made},
    {Py_tp_dealloc, freed},
    {Py_tp_traverse, visit_known},
    {Py_tp_clear, clear_known},
    {Py_tp_methods, known_methods},
    {Py_tp_call, call_known},
    {Py_tp_doc, "Launch(entry, table, scratch, large, told, keep): runs a plan on a tuple of arrays, and says whether it did."},
    {0, NULL}};
static PyType_Spec spec = {
    "upsweep._short_way.Launch", sizeof(Launch), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};

PyTypeObject *cpu_type(void) {
    memory_key = PyUnicode_InternFromString("upsweep's scratch memory");
    return memory_key ? (PyTypeObject *)PyType_FromSpec(&spec) : NULL;
}
