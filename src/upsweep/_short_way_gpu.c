/* Launches on a GPU: `run` of upsweep/gpu/again.py, whose words these are. The driver is called by the addresses of its functions. */
#define NO_IMPORT_ARRAY
#include "_short_way.h"

/* The driver's functions: 0 is success. Handles are pointers. */
typedef int Start(
    void *kernel, unsigned grid, unsigned, unsigned, unsigned block, unsigned, unsigned, unsigned shared, void *stream,
    void **parameters, void **extra);
typedef int Current(void **context);
typedef int MakeCurrent(void *context);
typedef struct {
    Start *launch;
    Current *current;
    MakeCurrent *make_current;
} Driver;

/* What Python gave: the functions that give the addresses of arrays, None for numbers; pairs of arrays that may overlap; launches by
the remainders of all addresses, and the function that adds to them; the stream of an array, which is `place` or else the first; a
workspace; the exception of an error. */
enum { POINTERS, PAIRS, WAYS, LEARN, STREAM, PLACE, MEET, FAIL, HELD };

typedef struct {
    Known known;
    Driver driver;
    void *context;
    Py_ssize_t first, count;
    PyObject *held[HELD];
} Launches;

typedef struct { int64_t array, written, low, high, alike; } Pair;

/* The bytes of a launch are these words, then `slots`, then `numbers`, then the parameters. */
typedef struct { int64_t kernel, grid, block, shared, meets, arrivals, nodes, slots, numbers; } Head;
typedef struct { int64_t array, offset; } Slot;
typedef struct { int64_t array, place, size; } Number;
enum { WORKSPACE = 4, VALUE = 16 };   /* The words of a workspace, which are the first parameters; the bytes of a number. */

static int fails(const Launches *self, int status) {
    PyObject *none = PyObject_CallFunction(self->held[FAIL], "i", status);
    Py_XDECREF(none);
    return -1;
}

/* The number that a function gives of an object; -1 with an exception. */
static uint64_t word_of(PyObject *function, PyObject *x) {
    PyObject *given = PyObject_CallFunctionObjArgs(function, x, NULL);
    uint64_t word = given ? PyLong_AsUnsignedLongLong(given) : (uint64_t)-1;
    Py_XDECREF(given);
    return word;
}

/* Where the arrays begin; 0 of numbers. */
static int find_addresses(const Launches *self, PyObject *operands, uint64_t *at) {
    for (Py_ssize_t k = 0; k < self->count; k++) {
        PyObject *pointer = PyTuple_GetItem(self->held[POINTERS], k);
        if (pointer == Py_None) continue;
        at[k] = word_of(pointer, PyTuple_GetItem(operands, k));
        if (at[k] == (uint64_t)-1 && PyErr_Occurred()) return -1;
    }
    return 1;
}

static int overlaps(const Launches *self, const uint64_t *at) {
    const Pair *pair = (const Pair *)PyBytes_AsString(self->held[PAIRS]);
    for (Py_ssize_t count = PyBytes_Size(self->held[PAIRS]) / sizeof(Pair); count--; pair++) {
        int64_t apart = (int64_t)(at[pair->written] - at[pair->array]);
        if (pair->low < apart && apart < pair->high && !(pair->alike && !apart)) return 1;
    }
    return 0;
}

/* The launches of arrays that begin there. */
static PyObject *way_of(const Launches *self, const uint64_t *at, PyObject *first) {
    PyObject *phases = PyTuple_New(self->count), *way = NULL;
    for (Py_ssize_t k = 0; phases && k < self->count; k++) {
        PyObject *phase = PyLong_FromLong(at[k] & 15);
        if (phase) PyTuple_SetItem(phases, k, phase);
        else Py_CLEAR(phases);
    }
    if (phases) way = Py_XNewRef(PyDict_GetItemWithError(self->held[WAYS], phases));
    if (!way && !PyErr_Occurred()) way = PyObject_CallFunctionObjArgs(self->held[LEARN], phases, first, NULL);
    Py_XDECREF(phases);
    return way;
}

/* The bytes of numbers stand among the parameters, over and over in 16 bytes. 0 where one is of another dtype. */
static int put_numbers(const Number *number, int64_t count, PyObject *operands, char *parameters) {
    for (; count--; number++) {
        PyObject *x = PyTuple_GetItem(operands, number->array);
        if (!PyArray_CheckExact(x) || PyArray_NBYTES((PyArrayObject *)x) != number->size) return 0;
        for (int64_t at = 0; at < VALUE; at += number->size)
            memcpy(parameters + number->place + at, PyArray_DATA((PyArrayObject *)x), number->size);
    }
    return 1;
}

/* The workspace that a launch needs, whose address goes among the parameters. */
static PyObject *meet(const Launches *self, const Head *head, uint64_t stream, char *parameters) {
    PyObject *work = PyObject_CallFunction(
        self->held[MEET], "LLK", (long long)head->arrivals, (long long)head->nodes, (unsigned long long)stream);
    PyObject *place = work ? PyObject_GetAttrString(work, "place") : NULL;
    for (int k = 0; place && k < WORKSPACE; k++) {
        uint64_t word = PyLong_AsUnsignedLongLong(PyTuple_GetItem(place, k));
        memcpy(parameters + 8 * k, &word, 8);
    }
    if (!place) Py_CLEAR(work);
    Py_XDECREF(place);
    return work;
}

static int launch(const Launches *self, PyObject *bytes, PyObject *operands, const uint64_t *at, uint64_t stream) {
    const Head *head = (const Head *)PyBytes_AsString(bytes);
    const Slot *slots = (const Slot *)(head + 1);
    const Number *numbers = (const Number *)(slots + head->slots);
    const char *frozen = (const char *)(numbers + head->numbers);
    PyObject *copy = PyBytes_FromStringAndSize(frozen, PyBytes_Size(bytes) - (frozen - (const char *)head)), *work = NULL;
    if (!copy) return -1;
    char *parameters = PyBytes_AsString(copy);
    int ran = put_numbers(numbers, head->numbers, operands, parameters);
    for (int64_t slot = 0; slot < head->slots; slot++) {
        uint64_t address = slots[slot].array < 0 ? 0 : at[slots[slot].array] + slots[slot].offset;
        memcpy(parameters + 8 * (WORKSPACE + slot), &address, 8);
    }
    if (ran && head->meets && !(work = meet(self, head, stream, parameters))) ran = -1;
    if (ran > 0) {
        void *given[] = {parameters};
        int status;
        /* The driver may wait for what needs the GIL in another thread. */
        Py_BEGIN_ALLOW_THREADS
        status = self->driver.launch(
            (void *)(uintptr_t)head->kernel, (unsigned)head->grid, 1, 1, (unsigned)head->block, 1, 1, (unsigned)head->shared,
            (void *)(uintptr_t)stream, given, NULL);
        Py_END_ALLOW_THREADS
        if (status) ran = fails(self, status);
    }
    Py_XDECREF(work);
    Py_DECREF(copy);
    return ran;
}

/* Run the launches of a way on arrays that begin `at`, with what they leave each other behind these. */
static int launch_all(const Launches *self, PyObject *way, PyObject *operands, uint64_t *at) {
    PyObject *first = PyTuple_GetItem(operands, self->first), *make = PyTuple_GetItem(way, 1), *room = NULL;
    PyObject *place = self->held[PLACE], *launches = PyTuple_GetItem(way, 4);
    int ran = 1;
    if (make != Py_None) {
        room = PyObject_CallFunctionObjArgs(make, first, NULL);
        at[self->count] = room ? word_of(PyTuple_GetItem(self->held[POINTERS], self->first), room) : (uint64_t)-1;
        ran = PyErr_Occurred() ? -1 : !(at[self->count] & 15);
    }
    uint64_t stream = ran > 0 ? word_of(self->held[STREAM], place == Py_None ? first : place) : 0;
    if (stream == (uint64_t)-1 && PyErr_Occurred()) ran = -1;
    for (Py_ssize_t k = 0; ran > 0 && k < PyTuple_Size(launches); k++)
        ran = launch(self, PyTuple_GetItem(launches, k), operands, at, stream);
    Py_XDECREF(room);
    return ran;
}

static int run_here(const Launches *self, PyObject *operands) {
    uint64_t *at = PyMem_Calloc(self->count + 1, sizeof(uint64_t));
    if (!at) return PyErr_NoMemory(), -1;
    int ran = find_addresses(self, operands, at);
    if (ran > 0 && overlaps(self, at)) ran = 0;
    if (ran > 0) {
        PyObject *way = way_of(self, at, PyTuple_GetItem(operands, self->first));
        ran = way ? launch_all(self, way, operands, at) : -1;
        Py_XDECREF(way);
    }
    PyMem_Free(at);
    return ran;
}

static int run(const Known *known, PyObject *operands) {
    const Launches *self = (const Launches *)known;
    void *before = NULL;
    int status = self->driver.current(&before);
    if (!status && before != self->context) status = self->driver.make_current(self->context);
    if (status) return fails(self, status);
    int ran = run_here(self, operands);
    if (before != self->context) status = self->driver.make_current(before);
    return status && ran >= 0 ? fails(self, status) : ran;
}

static PyObject *made(PyTypeObject *type, PyObject *given, PyObject *names) {
    unsigned long long functions[3], context;
    Py_ssize_t first;
    PyObject *held[HELD];
    if (!PyArg_ParseTuple(
            given, "(KKK)KnO!O!O!OOOOO", &functions[0], &functions[1], &functions[2], &context, &first, &PyTuple_Type,
            &held[POINTERS], &PyBytes_Type, &held[PAIRS], &PyDict_Type, &held[WAYS], &held[LEARN], &held[STREAM], &held[PLACE],
            &held[MEET], &held[FAIL]))
        return NULL;
    Launches *made = (Launches *)PyType_GenericAlloc(type, 0);
    if (!made) return NULL;
    made->known.run = run;
    made->driver.launch = (Start *)(uintptr_t)functions[0];
    made->driver.current = (Current *)(uintptr_t)functions[1];
    made->driver.make_current = (MakeCurrent *)(uintptr_t)functions[2];
    made->context = (void *)(uintptr_t)context;
    made->first = first;
    made->count = PyTuple_Size(held[POINTERS]);
    for (int at = 0; at < HELD; at++) made->held[at] = Py_NewRef(held[at]);
    return (PyObject *)made;
}

static int cleared(Launches *self) {
    for (int at = 0; at < HELD; at++) Py_CLEAR(self->held[at]);
    return clear_known(&self->known);
}

static int visited(Launches *self, visitproc visit, void *arg) {
    for (int at = 0; at < HELD; at++) Py_VISIT(self->held[at]);
    return visit_known(&self->known, visit, arg);
}

static void freed(Launches *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    for (int at = 0; at < HELD; at++) Py_XDECREF(self->held[at]);
    free_known(&self->known);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyType_Slot slots[] = {
    {Py_tp_new, made},
    {Py_tp_dealloc, freed},
    {Py_tp_traverse, visited},
    {Py_tp_clear, cleared},
    {Py_tp_methods, known_methods},
    {Py_tp_call, call_known},
    {Py_tp_doc,
     "Launches(driver, context, first, pointers, pairs, ways, learn, stream, place, meet, fail): runs a plan on a tuple of arrays,\n"
     "and says whether it did."},
    {0, NULL}};
static PyType_Spec spec = {
    "upsweep._short_way.Launches", sizeof(Launches), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};

PyTypeObject *gpu_type(void) { return (PyTypeObject *)PyType_FromSpec(&spec); }
