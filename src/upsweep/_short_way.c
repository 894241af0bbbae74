/* Remembered calls, run without Python: see short_way.py.

A `Known` runs a plan once more, on the CPU or on a GPU (`_short_way_cpu.c`, `_short_way_gpu.c`). It is taught how the arrays and
numbers of a call become operands, and these results, and runs calls by that (`again`). A call that it ran teaches it a likeness:
the layouts of NumPy's arrays, what `engine.LIKENESS` says of others, the types of the numbers, and all other arguments by identity.
`find` runs a call that is like one of those remembered, and returns None for any other call. So nothing is checked here, and errors
are those of a driver, of making memory, or of an array's own library. The GIL guards the memory of calls. */
#include "_short_way.h"

enum { SLOTS = 1024, PROBES = 4 };

static Known *slots[SLOTS + PROBES];
static PyTypeObject *run_by[2];

static PyObject *made(const Layout *like) {
    Py_INCREF(like->dtype);
    return PyArray_NewFromDescr(&PyArray_Type, like->dtype, like->nd, like->shape, like->strides, NULL, 0, NULL);
}

/* An item as it is run: a number becomes an array. */
static PyObject *held(const Known *known, const Call *call, int at) {
    PyObject *x = call->items[at];
    if (!known->holders[at]) return Py_NewRef(x);
    PyObject *array = PyObject_CallFunctionObjArgs(known->holders[at], x, NULL);
    if (!array) PyErr_Clear();
    if (array && !PyArray_CheckExact(array)) Py_CLEAR(array);
    return array;
}

/* New memory for a result. */
static PyObject *room(const Known *known, const Call *call, int at) {
    if (!known->makers) return made(&known->layouts[call->count + at]);
    return PyObject_CallFunctionObjArgs(PyTuple_GetItem(known->makers, at), call->items[known->like], NULL);
}

/* The operands of a call as a tuple, with new memory for results where the call gives none. NULL where a number needs a check, or
with an exception. */
static PyObject *operands_of(const Known *known, const Call *call) {
    int before = call->behind[OUT], count = call->count + known->results;
    PyObject *operands = PyTuple_New(count);
    for (int at = 0; operands && at < count; at++) {
        int item = at < before ? at : at - known->results;
        PyObject *x = item < before && at >= before ? room(known, call, at - before) : held(known, call, item);
        if (x) PyTuple_SetItem(operands, at, x);
        else Py_CLEAR(operands);
    }
    return operands;
}

/* An operand as a result. An array of NumPy's without dimensions becomes a number. */
static PyObject *result_at(const Known *known, const Call *call, PyObject *operands, int at) {
    PyObject *y = PyTuple_GetItem(operands, call->behind[OUT] + at), *give = NULL;
    if (!known->makers) return PyArray_Return((PyArrayObject *)Py_NewRef(y));
    give = PyTuple_GetItem(known->givers, at);
    return give == Py_None ? Py_NewRef(y) : PyObject_CallFunctionObjArgs(give, y, NULL);
}

/* The arrays that a call was given to write to, whose library is told so. */
static PyObject *written(const Call *call) {
    for (int at = call->behind[MARKS]; at < call->behind[OUT]; at++) {
        PyObject *wrote = call->twin[at] < 0 ? Py_None : PyTuple_GetItem(likeness_of(call->items[at]), WROTE);
        PyObject *none = wrote == Py_None ? Py_NewRef(wrote) : PyObject_CallFunctionObjArgs(wrote, call->items[at], NULL);
        if (!none) return NULL;
        Py_DECREF(none);
    }
    return Py_NewRef(call->given[OUT]);
}

/* The result of a call that ran. */
static PyObject *result_of(const Known *known, const Call *call, PyObject *operands) {
    if (call->given[OUT] != Py_None) return written(call);
    if (!known->several) return result_at(known, call, operands, 0);
    PyObject *results = PyTuple_New(known->results);
    for (int at = 0; results && at < known->results; at++) {
        PyObject *y = result_at(known, call, operands, at);
        if (y) PyTuple_SetItem(results, at, y);
        else Py_CLEAR(results);
    }
    return results;
}

static PyObject *run_as(const Known *known, const Call *call) {
    PyObject *operands = operands_of(known, call), *y = NULL;
    int ran = operands ? known->run(known, operands) : -!!PyErr_Occurred();
    if (ran > 0) y = result_of(known, call, operands);
    Py_XDECREF(operands);
    return ran ? y : Py_NewRef(Py_None);
}

/* Whether a launch was taught calls of so many items, with results that are made or given. */
static int fits(const Known *known, const Call *call) {
    return known->count == call->count && !known->results == (call->given[OUT] != Py_None);
}

static PyObject *find(PyObject *module, PyObject *const *given, Py_ssize_t count) {
    Call call;
    PyObject *y = NULL;
    if (count != ARGUMENTS || !read_call(&call, given, 0)) Py_RETURN_NONE;
    for (int probe = 0; !y && !PyErr_Occurred() && probe < PROBES; probe++) {
        Known *known = slots[call.hash % SLOTS + probe];
        if (!known || known->hash != call.hash) continue;
        /* Comparing and making memory may run Python, which may forget this launch. */
        Py_INCREF(known);
        if (alike(known, &call)) y = run_as(known, &call);
        Py_DECREF(known);
    }
    Py_XDECREF(call.alike);
    return y || PyErr_Occurred() ? y : Py_NewRef(Py_None);
}

/* Put a launch where calls of its likeness find it, in the place of another one if there is no room. */
static void put(Known *known) {
    static unsigned turn;
    Known **place = &slots[known->hash % SLOTS], **into = place + turn++ % PROBES;
    for (int probe = PROBES - 1; probe >= 0; probe--)
        if (!place[probe] || place[probe] == known) into = place + probe;
    Known *before = *into;
    *into = (Known *)Py_NewRef((PyObject *)known);
    Py_XDECREF(before);
}

/* The layout of an array; 0 of one that has none, and of anything else. */
static int learn_layout(Layout *layout, PyObject *x) {
    PyArrayObject *array = (PyArrayObject *)x;
    if (!PyArray_CheckExact(x) || PyArray_NDIM(array) > DIMS) return 0;
    layout->dtype = PyArray_DESCR(array);
    layout->nd = PyArray_NDIM(array);
    memcpy(layout->shape, PyArray_DIMS(array), layout->nd * sizeof(npy_intp));
    memcpy(layout->strides, PyArray_STRIDES(array), layout->nd * sizeof(npy_intp));
    Py_INCREF(layout->dtype);
    return !PyDataType_HASFIELDS(layout->dtype);
}

/* Teach a launch the likeness of a call that it ran. */
static void learn(Known *known, const Call *call) {
    for (int at = 0; at < call->count; at++) {
        PyObject *x = call->items[at];
        known->types[at] = Py_TYPE(x);
        if (PyArray_CheckExact(x) ? !learn_layout(&known->layouts[at], x) : !known->holders[at] && call->twin[at] < 0) return;
    }
    for (int at = 0; at < OTHERS; at++) known->others[at] = Py_NewRef(call->given[HOLDING + at]);
    for (int at = 0; at < HOLDING; at++) known->kinds[at] = Py_TYPE(call->given[at]);
    memcpy(known->behind, call->behind, sizeof known->behind);
    memcpy(known->twin, call->twin, sizeof known->twin);
    known->alike = Py_XNewRef(call->alike);
    known->hash = call->hash;
    known->learnt = 1;
}

static PyObject *remember(PyObject *module, PyObject *const *given, Py_ssize_t count) {
    Call call;
    /* What runs a call is `again` of a launch, or a function of Python's. */
    Known *known = count == 1 + ARGUMENTS && PyCFunction_CheckExact(given[0]) ? (Known *)PyCFunction_GetSelf(given[0]) : NULL;
    if (known && (Py_TYPE(known) == run_by[0] || Py_TYPE(known) == run_by[1]) && read_call(&call, given + 1, 1)) {
        /* Half a likeness is never finished. */
        if (fits(known, &call) && !known->types[0]) learn(known, &call);
        if (known->learnt && known->hash == call.hash) put(known);
        Py_XDECREF(call.alike);
    }
    Py_RETURN_NONE;
}

static PyObject *forget(PyObject *module, PyObject *nothing) {
    for (int at = 0; at < SLOTS + PROBES; at++) Py_CLEAR(slots[at]);
    memset(learnt_so, 0, sizeof learnt_so);
    Py_RETURN_NONE;
}

static PyObject *tell_apart(PyObject *module, PyObject *by) {
    Py_XDECREF(likenesses);
    likenesses = Py_NewRef(by);
    Py_RETURN_NONE;
}

void free_known(Known *known) {
    clear_known(known);
    for (int at = 0; at < ITEMS; at++) Py_XDECREF(known->layouts[at].dtype);
}

/* For the collector of garbage: an operator may hold what holds this launch. */
int visit_known(Known *known, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(known));
    for (int at = 0; at < ITEMS; at++) Py_VISIT(known->holders[at]);
    for (int at = 0; at < OTHERS; at++) Py_VISIT(known->others[at]);
    Py_VISIT(known->alike);
    Py_VISIT(known->makers);
    Py_VISIT(known->givers);
    return 0;
}

int clear_known(Known *known) {
    for (int at = 0; at < ITEMS; at++) Py_CLEAR(known->holders[at]);
    for (int at = 0; at < OTHERS; at++) Py_CLEAR(known->others[at]);
    Py_CLEAR(known->alike);
    Py_CLEAR(known->makers);
    Py_CLEAR(known->givers);
    return 0;
}

static PyObject *teach(PyObject *self, PyObject *given) {
    Known *known = (Known *)self;
    PyObject *holders, *made, *givers;
    int like, several;
    if (!PyArg_ParseTuple(given, "O!O!Oip", &PyTuple_Type, &holders, &PyTuple_Type, &made, &givers, &like, &several)) return NULL;
    int count = (int)PyTuple_Size(holders), results = (int)PyTuple_Size(made);
    if (known->count || count + results > ITEMS) Py_RETURN_FALSE;
    for (int at = 0; givers == Py_None && at < results; at++)
        if (!learn_layout(&known->layouts[count + at], PyTuple_GetItem(made, at))) Py_RETURN_FALSE;
    for (int at = 0; at < count; at++)
        if (PyTuple_GetItem(holders, at) != Py_None) known->holders[at] = Py_NewRef(PyTuple_GetItem(holders, at));
    if (givers != Py_None) {
        known->makers = Py_NewRef(made);
        known->givers = Py_NewRef(givers);
    }
    known->count = count;
    known->results = results;
    known->several = several;
    known->like = like;
    Py_RETURN_TRUE;
}

static PyObject *again(PyObject *self, PyObject *const *given, Py_ssize_t count) {
    Call call;
    if (count != HOLDING) Py_RETURN_NONE;
    PyObject *marks = given[3] == Py_None ? Py_NewRef(Py_None) : PyObject_GetAttrString(given[3], "values"), *y = NULL;
    if (!marks) return NULL;
    PyObject *arguments[HOLDING] = {[INPUTS] = given[0], [MARKS] = marks, [OUT] = given[2], [INITIAL] = given[1]};
    if (read_items(&call, arguments) && fits((Known *)self, &call)) y = run_as((Known *)self, &call);
    Py_DECREF(marks);
    return y || PyErr_Occurred() ? y : Py_NewRef(Py_None);
}

PyMethodDef known_methods[] = {
    {"teach", teach, METH_VARARGS,
     "teach(holders, made, givers, like, several): how calls become operands and operands results; whether there is room to know it.\n"
     "A holder makes an array of an item, or None of one that needs a check; it is None for an array that is run as it is. What is made\n"
     "is memory, by functions, where the item `like` lies, of which givers make results; without them, arrays like these of NumPy's."},
    {"again", (PyCFunction)(void *)again, METH_FASTCALL,
     "again(xs, initial, out, segments): the result of a call that is like the one of which this was taught; None if it did not run."},
    {NULL}};

PyObject *call_known(PyObject *known, PyObject *given, PyObject *names) {
    PyObject *operands;
    if (!PyArg_ParseTuple(given, "O!", &PyTuple_Type, &operands)) return NULL;
    int ran = ((Known *)known)->run((Known *)known, operands);
    return ran < 0 ? NULL : PyBool_FromLong(ran);
}

static PyMethodDef functions[] = {
    {"find", (PyCFunction)(void *)find, METH_FASTCALL,
     "find(xs, marks, out, initial, *others): the result of a call that is like a remembered one; None if none is, or it did not run."},
    {"remember", (PyCFunction)(void *)remember, METH_FASTCALL,
     "remember(known, xs, marks, out, initial, *others): have calls like this one found, which `known` ran, if it is in C."},
    {"forget", forget, METH_NOARGS, "forget(): have no call found."},
    {"tell_apart", tell_apart, METH_O, "tell_apart(LIKENESS): how arrays that are not NumPy's are told apart, by their types."},
    {NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_short_way", NULL, -1, functions};

PyMODINIT_FUNC PyInit__short_way(void) {
    import_array();
    run_by[0] = cpu_type();
    run_by[1] = run_by[0] ? gpu_type() : NULL;
    PyObject *made = run_by[1] ? PyModule_Create(&module) : NULL;
    if (made && PyModule_AddObjectRef(made, "Launch", (PyObject *)run_by[0])) Py_CLEAR(made);
    if (made && PyModule_AddObjectRef(made, "Launches", (PyObject *)run_by[1])) Py_CLEAR(made);
    return made;
}
