/* Calls, and how they are told apart. */
#define NO_IMPORT_ARRAY
#include "_short_way.h"

PyObject *likenesses;
/* By what a call is but for the likeness of its arrays: whether one was learnt. The likeness takes longer than all else. */
char learnt_so[LEARNT];

static uint64_t mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 32;
}

PyObject *likeness_of(PyObject *x) {
    return likenesses ? PyDict_GetItem(likenesses, (PyObject *)Py_TYPE(x)) : NULL;
}

/* Add an item to a call; 0 where it cannot be remembered. */
static int add_item(Call *call, int argument, PyObject *item) {
    if (call->count == ITEMS) return 0;
    int at = call->count++;
    call->items[at] = item;
    call->twin[at] = -1;
    if (!PyArray_CheckExact(item)) {
        call->hash = mix(call->hash, (uintptr_t)Py_TYPE(item));
        if (!likeness_of(item)) return argument != OUT;
        for (call->twin[at] = 0; call->items[call->twin[at]] != item;) call->twin[at]++;
        call->hash = mix(call->hash, call->twin[at]);
        return 1;
    }
    PyArrayObject *x = (PyArrayObject *)item;
    if (argument == OUT && !PyArray_ISWRITEABLE(x)) return 0;
    call->hash = mix(call->hash, (uintptr_t)PyArray_DESCR(x));
    /* Marks of another length may be alike. */
    for (int d = 0; argument != MARKS && d < PyArray_NDIM(x); d++)
        call->hash = mix(mix(call->hash, (uint64_t)PyArray_DIM(x, d)), (uint64_t)PyArray_STRIDE(x, d));
    return 1;
}

/* Whether results may be written to the arrays that are not NumPy's. */
static int writable(const Call *call) {
    for (int at = call->behind[MARKS]; at < call->behind[OUT]; at++) {
        PyObject *x = call->items[at], *known = call->twin[at] < 0 ? NULL : likeness_of(x);
        PyObject *may = known ? PyObject_CallFunctionObjArgs(PyTuple_GetItem(known, WRITABLE), x, NULL) : Py_NewRef(Py_True);
        int truth = may ? PyObject_IsTrue(may) : -1;
        Py_XDECREF(may);
        if (truth <= 0) return 0;
    }
    return 1;
}

/* The likeness of the arrays that are not NumPy's, all of one type; NULL where they cannot be remembered. */
static PyObject *likeness(const Call *call) {
    PyObject *apart[ITEMS], *known = NULL;
    int count = 0;
    for (int at = 0; at < call->count; at++) {
        if (call->twin[at] < 0) continue;
        PyObject *one = likeness_of(call->items[at]);
        if (known && known != one) return NULL;
        known = one;
        if (call->twin[at] == at) apart[count++] = call->items[at];
    }
    int each = PyTuple_GetItem(known, TOGETHER) == Py_None;
    PyObject *alike = PyTuple_New(count), *like;
    for (int at = 0; alike && at < count; at++) {
        like = each ? PyObject_CallFunctionObjArgs(PyTuple_GetItem(known, OF), apart[at], NULL) : Py_NewRef(apart[at]);
        if (like) PyTuple_SetItem(alike, at, like);
        else Py_CLEAR(alike);
    }
    if (each || !alike) return alike;
    like = PyObject_CallFunctionObjArgs(PyTuple_GetItem(known, TOGETHER), alike, NULL);
    Py_DECREF(alike);
    return like;
}

int read_items(Call *call, PyObject *const *given) {
    call->given = given;
    call->count = 0;
    call->hash = 0;
    call->alike = NULL;
    for (int argument = 0; argument < HOLDING; argument++) {
        PyObject *one = given[argument];
        int several = PyTuple_CheckExact(one);
        Py_ssize_t count = several ? PyTuple_Size(one) : one != Py_None;
        for (Py_ssize_t at = 0; at < count; at++)
            if (!add_item(call, argument, several ? PyTuple_GetItem(one, at) : one)) return 0;
        call->behind[argument] = call->count;
    }
    return 1;
}

int read_call(Call *call, PyObject *const *given, int learning) {
    int others = 0;
    if (!read_items(call, given)) return 0;
    for (int at = 0; at < OTHERS; at++) call->hash = mix(call->hash, (uintptr_t)given[HOLDING + at]);
    for (int at = 0; at < call->count; at++) others |= call->twin[at] >= 0;
    if (!others) return 1;
    if (learning) learnt_so[call->hash % LEARNT] = 1;
    if (!learnt_so[call->hash % LEARNT]) return 0;
    Py_hash_t hash = -1;
    if (writable(call) && (call->alike = likeness(call))) hash = PyObject_Hash(call->alike);
    call->hash = mix(call->hash, (uint64_t)hash);
    if (hash == -1) Py_CLEAR(call->alike);
    /* The long way meets the same error. */
    PyErr_Clear();
    return hash != -1;
}

static int lies(const Layout *layout, PyArrayObject *x, int told) {
    size_t size = layout->nd * sizeof(npy_intp);
    return layout->dtype == PyArray_DESCR(x) && layout->nd == PyArray_NDIM(x)
        && (told || (!memcmp(layout->shape, PyArray_DIMS(x), size) && !memcmp(layout->strides, PyArray_STRIDES(x), size)));
}

int alike(const Known *known, const Call *call) {
    if (known->hash != call->hash || memcmp(known->behind, call->behind, sizeof known->behind)) return 0;
    for (int at = 0; at < HOLDING; at++)
        if (known->kinds[at] != Py_TYPE(call->given[at])) return 0;
    for (int at = 0; at < call->count; at++) {
        PyObject *x = call->items[at];
        int told = known->told && at >= call->behind[INPUTS] && at < call->behind[MARKS];
        if (known->types[at] != Py_TYPE(x) || known->twin[at] != call->twin[at]) return 0;
        if (PyArray_CheckExact(x) && !lies(&known->layouts[at], (PyArrayObject *)x, told)) return 0;
    }
    if (memcmp(known->others, call->given + HOLDING, sizeof known->others)) return 0;
    if (!known->alike || !call->alike) return known->alike == call->alike;
    int same = PyObject_RichCompareBool(known->alike, call->alike, Py_EQ);
    if (same < 0) PyErr_Clear();
    return same > 0;
}
