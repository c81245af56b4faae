/* kiln._call: calls of ops in C, on arrays of libraries with the exchange table of DLPack, as PyTorch has from 2.10 on.
 *
 * A plan says how a call runs on arrays of some types, shapes, strides and device. Python makes it in the first such
 * call. Later ones read the arrays through the table, without Python code. A call that needs more, and one that fails,
 * gives None: the caller makes it by ctypes, and has its errors from there. The package works without this module.
 * All functions hold the GIL, but for kiln_apply itself. */
#define Py_LIMITED_API 0x030a0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <kiln/tensor.h>
#include <stdbool.h>
#include <string.h>

enum { INPUTS_MAX = 8, OUTPUTS_MAX = 8, SCALARS_MAX = 8, DIMS_MAX = 8, TYPES_MAX = 16, PLANS = 64 };

/* ---- The exchange table, as DLPack 1.3 has it */

typedef struct dl_tensor {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} dl_tensor;

typedef struct exchange {
    uint32_t major, minor;
    const struct exchange *older;
    void *allocate, *export_managed, *import_managed; /* unused */
    int (*read)(void *object, dl_tensor *out);
    int (*current_stream)(int32_t device_type, int32_t device_id, void **out);
} exchange;

enum { EXCHANGE_MAJOR = 1 };

/* ---- Types of arrays */

typedef struct array_type {
    PyTypeObject *type;
    const exchange *table;
    PyObject *recorded, *recording, *lazy, *following, *forward;
} array_type;

static array_type types[TYPES_MAX];
static size_t type_count;

static const array_type *find_type(PyObject *array)
{
    for (size_t i = 0; i < type_count; i++)
        if (types[i].type == Py_TYPE(array))
            return &types[i];
    return NULL;
}

PyDoc_STRVAR(
    add_type_doc,
    "add_type(type, capsule, recorded, recording, lazy, following, forward)\n--\n\n"
    "Adds a type of arrays whose __dlpack_c_exchange_api__ is capsule. Returns whether it is known.\n\n"
    "A call is left to Python if for an array the attribute `recorded` and recording() are true,\n"
    "or lazy(array), which says that its memory has other values. So is one where a function f() of the tuple\n"
    "`following` is true, or the number forward._current_level is not below 0: the library follows its ops.");

static PyObject *add_type(PyObject *module, PyObject *args)
{
    PyObject *type, *capsule, *recorded, *recording, *lazy, *following, *forward;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOOOOO!O", &type, &capsule, &recorded, &recording, &lazy, &PyTuple_Type, &following,
                          &forward))
        return NULL;
    const exchange *table = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    if (table == NULL)
        return NULL;
    while (table != NULL && table->major > EXCHANGE_MAJOR)
        table = table->older;
    const bool known = PyType_Check(type) && table != NULL && table->major == EXCHANGE_MAJOR && table->read != NULL &&
                       type_count < TYPES_MAX;
    if (known) { /* for the life of the process */
        for (size_t i = 0; i < 6; i++)
            Py_INCREF(((PyObject *[]){ type, recorded, recording, lazy, following, forward })[i]);
        types[type_count++] =
            (array_type){ (PyTypeObject *)type, table, recorded, recording, lazy, following, forward };
    }
    return PyBool_FromLong(known);
}

/* Whether a function is true of an argument, or of none; so is one that fails. Steals its result. */
static bool is_true(PyObject *result)
{
    const int truth = result != NULL ? PyObject_IsTrue(result) : -1;
    Py_XDECREF(result);
    return truth != 0;
}

static bool is_followed(const array_type *type)
{
    static PyObject *level_name;
    for (Py_ssize_t i = 0; i < PyTuple_Size(type->following); i++)
        if (is_true(PyObject_CallNoArgs(PyTuple_GetItem(type->following, i))))
            return true;
    if (level_name == NULL && (level_name = PyUnicode_InternFromString("_current_level")) == NULL)
        return true;
    PyObject *level = PyObject_GetAttr(type->forward, level_name);
    const bool none = level != NULL && PyLong_AsLong(level) < 0 && PyErr_Occurred() == NULL;
    Py_XDECREF(level);
    return !none;
}

static bool needs_python(const array_type *type, PyObject *array, bool recording)
{
    return (recording && is_true(PyObject_GetAttr(array, type->recorded))) ||
           is_true(PyObject_CallFunctionObjArgs(type->lazy, array, NULL));
}

/* ---- Facts: all of the inputs that a plan depends on, as words */

typedef struct facts {
    uint64_t hash;
    size_t count;
    uint64_t words[INPUTS_MAX * (2 + 2 * DIMS_MAX)];
} facts;

static void add_fact(facts *out, uint64_t word)
{
    out->words[out->count++] = word;
    out->hash = (out->hash ^ word) * 0x9e3779b97f4a7c15u;
    out->hash ^= out->hash >> 32;
}

/* Reads the arrays; false: Python is to make the call, and no exception is set. */
static bool read_inputs(facts *out, const array_type **type, dl_tensor *views, PyObject *inputs, size_t count)
{
    const array_type *first = find_type(PyTuple_GetItem(inputs, 0));
    out->hash = out->count = 0;
    *type = first;
    if (first == NULL || is_followed(first))
        return PyErr_Clear(), false;
    const bool recording = is_true(PyObject_CallNoArgs(first->recording));
    for (size_t i = 0; i < count; i++) {
        PyObject *array = PyTuple_GetItem(inputs, (Py_ssize_t)i);
        const array_type *own = find_type(array);
        dl_tensor *view = &views[i];
        if (PyErr_Occurred() != NULL || own == NULL || own->table != first->table ||
            needs_python(own, array, recording) || own->table->read(array, view) != 0 || view->ndim > DIMS_MAX ||
            (view->ndim > 0 && view->strides == NULL))
            return PyErr_Clear(), false;
        add_fact(out,
                 (uint64_t)view->ndim << 32 | (uint64_t)view->lanes << 16 | (uint64_t)view->code << 8 | view->bits);
        add_fact(out, (uint64_t)(uint32_t)view->device_type << 32 | (uint32_t)view->device_id);
        for (int32_t d = 0; d < view->ndim; d++) {
            add_fact(out, (uint64_t)view->shape[d]);
            add_fact(out, (uint64_t)view->strides[d]);
        }
    }
    return true;
}

/* ---- Plans */

typedef struct plan {
    size_t uses; /* one of them the table's */
    kiln_service *service;
    kiln_device *device;
    PyObject *current; /* f(): the index of the device whose default stream NULL is; None: there is one device */
    size_t outputs;
    PyObject *make[OUTPUTS_MAX], *arguments[OUTPUTS_MAX]; /* a function of these makes result k, */
    Py_ssize_t of[OUTPUTS_MAX];                           /* or of the input of[k] where they are NULL */
    kiln_dtype dtypes[OUTPUTS_MAX + INPUTS_MAX];
    facts key;
} plan;

typedef struct calls {
    PyObject_HEAD PyObject *text; /* bytes */
    Py_ssize_t inputs, scalars;
    plan *plans[PLANS]; /* by their hash; a later one takes the place */
} calls;

static kiln_service *service; /* of this process: a child of fork has none of its parent's plans */
static kiln_status (*apply)(kiln_service *, const char *, const kiln_tensor *, size_t, const kiln_tensor *, size_t,
                            const double *, size_t, void *, kiln_report *);

PyDoc_STRVAR(use_doc, "use(apply, service)\n--\n\n"
                      "Sets the addresses of kiln_apply and of the service of this process. 0: none yet.");

static PyObject *use(PyObject *module, PyObject *args)
{
    unsigned long long function, address;
    (void)module;
    if (!PyArg_ParseTuple(args, "KK", &function, &address))
        return NULL;
    memcpy(&apply, &(uintptr_t){ (uintptr_t)function }, sizeof(apply)); /* an address as ctypes gives it */
    service = (kiln_service *)(uintptr_t)address;
    Py_RETURN_NONE;
}

static void release(plan *p)
{
    if (p == NULL || --p->uses > 0)
        return;
    for (size_t k = 0; k < p->outputs; k++) {
        Py_DECREF(p->make[k]);
        Py_XDECREF(p->arguments[k]);
    }
    Py_DECREF(p->current);
    PyMem_Free(p);
}

static plan *find_plan(calls *self, const facts *key)
{
    plan *p = self->plans[key->hash % PLANS];
    const bool found = p != NULL && p->service == service && p->key.count == key->count &&
                       memcmp(p->key.words, key->words, key->count * sizeof(*key->words)) == 0;
    return found ? p : NULL;
}

/* Sets the numbers of the types, outputs first; false with an exception. */
static bool take_types(plan *p, PyObject *codes, size_t count)
{
    for (size_t k = 0; k < count; k++) {
        const long code = PyLong_AsLong(PyTuple_GetItem(codes, (Py_ssize_t)k));
        if (PyErr_Occurred())
            return false;
        p->dtypes[k] = (kiln_dtype)code;
    }
    return true;
}

static bool take_makers(plan *p, PyObject *makers, Py_ssize_t inputs)
{
    for (Py_ssize_t k = 0; k < PyTuple_Size(makers); k++) {
        PyObject *pair = PyTuple_GetItem(makers, k);
        if (!PyTuple_Check(pair))
            return PyErr_SetString(PyExc_TypeError, "a maker is a pair"), false;
        PyObject *of;
        if (!PyArg_ParseTuple(pair, "OO", &p->make[k], &of))
            return false;
        Py_INCREF(p->make[k]);
        p->outputs++;
        p->arguments[k] = PyTuple_Check(of) ? Py_NewRef(of) : NULL;
        p->of[k] = PyTuple_Check(of) ? 0 : PyLong_AsSsize_t(of);
        if (PyErr_Occurred())
            return false;
        if (p->of[k] < 0 || p->of[k] >= inputs)
            return PyErr_SetString(PyExc_ValueError, "no such input"), false;
    }
    return true;
}

PyDoc_STRVAR(keep_doc,
             "keep(inputs, device, current, makers, codes)\n--\n\n"
             "Keeps how calls with such inputs run, unless their type is unknown.\n\n"
             "device: the address of the kiln_device. current: f(), the index of the device whose default stream is\n"
             "0, or None. makers: for each result a pair (f, arguments) or (f, i): f(*arguments) makes it, or\n"
             "f(inputs[i]). codes: the numbers of the types of the results and of the inputs.");

static PyObject *calls_keep(PyObject *object, PyObject *args)
{
    calls *self = (calls *)object;
    PyObject *inputs, *current, *makers, *codes;
    unsigned long long device;
    const array_type *type;
    dl_tensor views[INPUTS_MAX];
    if (!PyArg_ParseTuple(args, "O!KOO!O!", &PyTuple_Type, &inputs, &device, &current, &PyTuple_Type, &makers,
                          &PyTuple_Type, &codes))
        return NULL;
    const Py_ssize_t count = PyTuple_Size(inputs), outputs = PyTuple_Size(makers);
    if (count < 1 || count > INPUTS_MAX || outputs > OUTPUTS_MAX || PyTuple_Size(codes) != outputs + count)
        Py_RETURN_NONE;
    plan *p = PyMem_Calloc(1, sizeof(*p));
    if (p == NULL)
        return PyErr_NoMemory();
    p->uses = 1;
    p->service = service;
    p->device = (kiln_device *)(uintptr_t)device;
    p->current = Py_NewRef(current);
    if (!take_types(p, codes, (size_t)(outputs + count)) || !take_makers(p, makers, count)) {
        release(p);
        return NULL;
    }
    if (read_inputs(&p->key, &type, views, inputs, (size_t)count)) {
        plan **place = &self->plans[p->key.hash % PLANS], *before = *place;
        *place = p;
        p = before;
    }
    release(p);
    Py_RETURN_NONE;
}

/* ---- Calls */

static kiln_tensor tensor_of(const dl_tensor *view, kiln_dtype dtype, kiln_device *device)
{
    return (kiln_tensor){ .data = (char *)view->data + view->byte_offset,
                          .device = device,
                          .dtype = dtype,
                          .ndim = (uint32_t)view->ndim,
                          .shape = view->shape,
                          .strides = view->strides };
}

/* The stream of the library for a device; false where the default stream is that of another one. */
static bool find_stream(void **out, const plan *p, const exchange *table, const dl_tensor *view)
{
    *out = NULL;
    if (table->current_stream(view->device_type, view->device_id, out) != 0)
        return false;
    if (*out != NULL || p->current == Py_None)
        return true;
    PyObject *index = PyObject_CallNoArgs(p->current);
    const bool current = index != NULL && PyLong_AsLong(index) == view->device_id;
    Py_XDECREF(index);
    return current;
}

static bool make_results(PyObject **results, dl_tensor *views, const plan *p, const exchange *table, PyObject *inputs)
{
    for (size_t k = 0; k < p->outputs; k++) {
        results[k] = p->arguments[k] != NULL
                         ? PyObject_CallObject(p->make[k], p->arguments[k])
                         : PyObject_CallFunctionObjArgs(p->make[k], PyTuple_GetItem(inputs, p->of[k]), NULL);
        if (results[k] == NULL || table->read(results[k], &views[k]) != 0)
            return false;
    }
    return true;
}

/* Returns whether the op was launched. */
static bool launch(calls *self, const plan *p, const exchange *table, const dl_tensor *outs, const dl_tensor *ins,
                   const double *numbers)
{
    kiln_tensor tensors[OUTPUTS_MAX + INPUTS_MAX], *inputs = tensors + p->outputs;
    kiln_status status;
    void *stream;
    if (!find_stream(&stream, p, table, &ins[0]))
        return false;
    for (size_t k = 0; k < p->outputs; k++)
        tensors[k] = tensor_of(&outs[k], p->dtypes[k], p->device);
    for (Py_ssize_t k = 0; k < self->inputs; k++)
        inputs[k] = tensor_of(&ins[k], p->dtypes[p->outputs + (size_t)k], p->device);
    const char *text = PyBytes_AsString(self->text);
    Py_BEGIN_ALLOW_THREADS status = apply(p->service, text, tensors, p->outputs, inputs, (size_t)self->inputs, numbers,
                                          (size_t)self->scalars, stream, NULL);
    Py_END_ALLOW_THREADS return status == KILN_OK;
}

/* The result, or a tuple of several. Steals them. */
static PyObject *pack(PyObject **results, size_t count)
{
    if (count == 1)
        return results[0];
    PyObject *tuple = PyTuple_New((Py_ssize_t)count);
    for (size_t k = 0; k < count; k++)
        if (tuple == NULL)
            Py_DECREF(results[k]);
        else
            PyTuple_SetItem(tuple, (Py_ssize_t)k, results[k]); /* of a new tuple: it does not fail */
    return tuple;
}

static bool take_numbers(double *out, PyObject *numbers, Py_ssize_t count)
{
    if (PyTuple_Size(numbers) != count)
        return false;
    for (Py_ssize_t k = 0; k < count; k++)
        out[k] = PyFloat_AsDouble(PyTuple_GetItem(numbers, k));
    return PyErr_Occurred() == NULL;
}

PyDoc_STRVAR(run_doc, "run(inputs, numbers)\n--\n\n"
                      "The result of the op, a tuple of several, or None: the call is left to Python.");

static PyObject *calls_run(PyObject *object, PyObject *const *args, Py_ssize_t count)
{
    calls *self = (calls *)object;
    const array_type *type;
    dl_tensor ins[INPUTS_MAX], outs[OUTPUTS_MAX];
    PyObject *results[OUTPUTS_MAX] = { NULL }, *result = NULL;
    double numbers[SCALARS_MAX];
    facts key;
    plan *p = NULL;
    if (count == 2 && PyTuple_Check(args[0]) && PyTuple_Check(args[1]) && PyTuple_Size(args[0]) == self->inputs &&
        take_numbers(numbers, args[1], self->scalars) && read_inputs(&key, &type, ins, args[0], (size_t)self->inputs))
        p = find_plan(self, &key);
    if (p != NULL) {
        p->uses++; /* the calls below may run other threads, which replace it */
        if (make_results(results, outs, p, type->table, args[0]) && launch(self, p, type->table, outs, ins, numbers))
            result = pack(results, p->outputs);
        else
            for (size_t k = 0; k < p->outputs; k++)
                Py_XDECREF(results[k]);
        release(p);
    }
    PyErr_Clear();
    return result != NULL ? result : Py_NewRef(Py_None);
}

/* ---- The type and the module */

static PyObject *calls_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
    PyObject *text;
    Py_ssize_t inputs, scalars;
    (void)named;
    if (!PyArg_ParseTuple(args, "Snn", &text, &inputs, &scalars))
        return NULL;
    if (inputs < 1 || inputs > INPUTS_MAX || scalars < 0 || scalars > SCALARS_MAX)
        return PyErr_SetString(PyExc_ValueError, "too many arguments"), NULL;
    calls *self = (calls *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self != NULL) {
        self->text = Py_NewRef(text);
        self->inputs = inputs;
        self->scalars = scalars;
    }
    return (PyObject *)self;
}

static void calls_free(PyObject *object)
{
    calls *self = (calls *)object;
    PyTypeObject *type = Py_TYPE(object);
    for (size_t i = 0; i < PLANS; i++)
        release(self->plans[i]);
    Py_XDECREF(self->text);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static PyMethodDef calls_methods[] = {
    { "run", (PyCFunction)(void (*)(void))calls_run, METH_FASTCALL, run_doc },
    { "keep", calls_keep, METH_VARARGS, keep_doc },
    { NULL, NULL, 0, NULL },
};

static PyType_Slot calls_slots[] = {
    { Py_tp_doc, (void *)"Calls(text, inputs, scalars)\n--\n\nThe calls of an op by its spec, as bytes." },
    { Py_tp_new, (void *)calls_new },
    { Py_tp_dealloc, (void *)calls_free },
    { Py_tp_methods, calls_methods },
    { 0, NULL },
};

static PyType_Spec calls_spec = { "kiln._call.Calls", sizeof(calls), 0, Py_TPFLAGS_DEFAULT, calls_slots };

static PyMethodDef functions[] = {
    { "use", use, METH_VARARGS, use_doc },
    { "add_type", add_type, METH_VARARGS, add_type_doc },
    { NULL, NULL, 0, NULL },
};

static PyModuleDef module = { PyModuleDef_HEAD_INIT, .m_name = "kiln._call", .m_size = -1, .m_methods = functions };

PyMODINIT_FUNC PyInit__call(void)
{
    PyObject *made = PyModule_Create(&module), *type = PyType_FromSpec(&calls_spec);
    if (made == NULL || type == NULL || PyModule_AddObjectRef(made, "Calls", type) != 0)
        Py_CLEAR(made);
    Py_XDECREF(type);
    return made;
}
