/* kiln run: computes a spec on .npy files. Arguments are those of the kernel's signature, sizes come from the shapes of
 * the inputs. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/words.h"
#include "commands.h"
#include "files/npy.h"
#include "files/output.h"
#include "kernels/argvalues.h"
#include "kernels/broadcast.h"
#include "kernels/built.h"
#include "kernels/crash.h"
#include "kernels/trial.h"
#include "text/format.h"
#include "text/jsonout.h"
#include "text/spectext.h"
#include "warm/counters.h"

enum { POISON = 0xa5, TIMED_ROUNDS = 20, TIMED_WARMUP = 3 };

typedef struct run_args {
    const char *spec;
    text_list in;
    arg_texts texts;
    text_list out;
    const char *axis;
    bool keep, verify, time, stats;
    common_args common;
} run_args;

/* An array that is an argument of the kernel. */
typedef struct run_array {
    const kiln_param *param;
    uint32_t index;        /* among the parameters of the kernel */
    size_t place;          /* among the arguments of a launch */
    npy_array npy;         /* its file or, of a result that is not read, its shape */
    const char *from, *to; /* the files of an input and of a result */
    void *host, *device;   /* its memory, NULL until it is made; the same where that is enough */
    struct output output;  /* of a result */
} run_array;

/* One run, from the files to the result. Parts that are not yet made are NULL. */
typedef struct run_job {
    const run_args *args;
    struct session *session;
    kiln_spec *spec;
    kiln_kernel *kernel;
    kiln_kernel_info info;
    kiln_device_info device_info;
    kiln_device *device;
    bool flat;
    bool settled;    /* an input decided the dtype of the spec */
    bool broadcasts; /* the inputs have other shapes than the results: */
    broadcast common;
    bool reduces; /* the op reduces an axis of that shape, */
    bool keeps;   /* which results have with the extent 1 */
    run_array arrays[ARGVALUES_ARGS];
    size_t count;
    run_array *result; /* the first that is written */
    arg_values values;
    uint64_t bytes; /* that a launch reads and writes */
    kiln_timing timing;
    verified_launch verified;
} run_job;

static const struct usage usage = {
    "kiln run SPEC --in [NAME=]FILE.npy ... --out [NAME=]FILE.npy ... [options]",
    "Computes SPEC, for example op=hardsigmoid, on the input arrays and writes the results with their shape and\n"
    "dtype, or the type of the op's result or of out=. Arrays are .npy files of shapes that broadcast: <f4 is f32,\n"
    "<f8 f64, <f2 f16, |i1 i8, |u1 u8, <i2 i16, <i4 i32, <i8 i64, |b1 bool. bf16 is stored as <u2 bits, f8e4m3 and\n"
    "f8e5m2 as |u1, where SPEC names the dtype. Inputs may be in Fortran order and big-endian (>f4); results are in C\n"
    "order, little endian. Files of several types are converted as PyTorch does. A template can declare other shapes\n"
    "of its arrays, several results, and unsigned numbers: <u2 is u16, <u4 u32, <u8 u64. FILE of --out may be one of\n"
    "the inputs: it is replaced only when all results are there. A text that begins with NAME= is for the array of\n"
    "that name: write ./x=x.npy for a file that is called x=x.npy.",
    "  kiln run 'op=hardsigmoid' --in x.npy --out y.npy\n"
    "  kiln run 'op=x * ?rate + y' --in y=y.npy --in x=x.npy --arg rate=0.5 --out z.npy --device cpu --verify --time",
};

/* The length of NAME in "NAME=FILE"; 0: the text is the path of a file. */
static size_t name_length(const char *text)
{
    size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_");
    return text[length] == '=' ? length : 0;
}

static const char *file_part(const char *text)
{
    size_t length = name_length(text);
    return length > 0 ? text + length + 1 : text;
}

static void parse_args(run_args *args, int argc, char **argv)
{
    const option_row rows[] = {
        { "in", 'i', OPTION_LIST, "FILE", "an input, FILE or NAME=FILE; once for each, by name or in order",
          &args->in },
        { "out", 'o', OPTION_LIST, "FILE", "write a result to FILE or NAME=FILE; once for each, likewise", &args->out },
        { "arg", 0, OPTION_LIST, "NAME=VALUE", "a scalar of the op, or a number of a template", &args->texts.numbers },
        { "axis", 0, OPTION_TEXT, "AXIS", "the dimensions that the op reduces: -1, (1,2) or all; default the last",
          &args->axis },
        { "keep", 0, OPTION_FLAG, NULL, "keep reduced dimensions with the extent 1", &args->keep },
        { "size", 0, OPTION_LIST, "NAME=VALUE", "a size of a user-defined template that no input has",
          &args->texts.sizes },
        { "verify", 0, OPTION_FLAG, NULL, "compare with the cpu, bit for bit or within a tolerance", &args->verify },
        { "time", 0, OPTION_FLAG, NULL, "time several launches and take the median", &args->time },
        { "stats", 0, OPTION_FLAG, NULL, "count hits, misses, compiles and faults, by reason", &args->stats },
    };
    text_list words = { NULL, 0 };
    options_parse(&usage, OPTION_ROWS(rows), &args->common, &words, argc, argv);
    args->spec = words_spec(&usage, &words, 0);
    if (args->out.count == 0)
        options_refuse(&usage, "no output given, expected --in FILE.npy for each input and --out FILE.npy");
}

static int refuse(const run_job *job, kiln_status status)
{
    return session_status(job->session, status, NULL);
}

/* ---- Arguments of the kernel */

static bool is_read(const run_array *array)
{
    return array->param->role != KILN_ROLE_OUT;
}

static int check_counts(const run_job *job, kernel_takes takes)
{
    const run_args *args = job->args;
    size_t inputs = takes.in + takes.inout, results = takes.out + takes.inout;
    if (inputs > 0 && args->in.count == 0)
        return fail(STATUS_USAGE, "no input given, expected --in FILE.npy; see kiln run --help");
    if (inputs != args->in.count)
        return fail(STATUS_USAGE, "'%s' reads %zu array%s, %zu given; give --in once for each", args->spec, inputs,
                    inputs == 1 ? "" : "s", args->in.count);
    if (results != args->out.count)
        return fail(STATUS_USAGE, "'%s' writes %zu array%s, and %zu --out %s given; give --out once for each",
                    args->spec, results, results == 1 ? "" : "s", args->out.count, args->out.count == 1 ? "is" : "are");
    return STATUS_DONE;
}

/* The place of the file that an array is read from, or written to; NULL: it is not. */
static const char **file_of(run_array *array, bool result)
{
    if (result)
        return array->param->role != KILN_ROLE_IN ? &array->to : NULL;
    return is_read(array) ? &array->from : NULL;
}

/* Refuses "NAME=FILE" where no array has the name, and no file the whole text as its path. */
static int check_name(run_job *job, const char *text, bool result)
{
    char *names = need_copy("");
    if (name_length(text) == 0 || access(text, F_OK) == 0)
        return STATUS_DONE;
    for (size_t i = 0; i < job->count; i++)
        if (file_of(&job->arrays[i], result))
            text_append(&names, ", ", "%s", job->arrays[i].param->name);
    return fail(STATUS_USAGE, "--%s %s: the kernel %s no such array: %s", result ? "out" : "in", text,
                result ? "writes" : "reads", names);
}

/* The array that "NAME=FILE" names, or NULL. */
static run_array *find_named(run_job *job, const char *text, bool result)
{
    for (size_t i = 0; i < job->count; i++) {
        const char *name = job->arrays[i].param->name;
        if (file_of(&job->arrays[i], result) && strlen(name) == name_length(text) &&
            strncmp(name, text, strlen(name)) == 0)
            return &job->arrays[i];
    }
    return NULL;
}

static int bind_named(run_array *array, const char *text, bool result)
{
    const char **file = file_of(array, result);
    if (*file)
        return fail(STATUS_USAGE, "--%s %s: the array has a file already, %s", result ? "out" : "in", text, *file);
    *file = file_part(text);
    return STATUS_DONE;
}

/* check_counts reports a file too many, when the kernel is known. */
static int bind_next(run_job *job, const char *text, bool result)
{
    int status = check_name(job, text, result);
    for (size_t i = 0; i < job->count && !status; i++) {
        const char **file = file_of(&job->arrays[i], result);
        if (!file || *file)
            continue;
        *file = text;
        break;
    }
    return status;
}

/* "NAME=FILE" is for the array of that name, and any other text a file for the first array that has none. */
static int bind_files(run_job *job, const text_list *texts, bool result)
{
    int status = STATUS_DONE;
    for (size_t i = 0; i < texts->count && !status; i++) {
        run_array *named = find_named(job, texts->items[i], result);
        status = named ? bind_named(named, texts->items[i], result) : STATUS_DONE;
    }
    for (size_t i = 0; i < texts->count && !status; i++)
        if (!find_named(job, texts->items[i], result))
            status = bind_next(job, texts->items[i], result);
    return status;
}

/* Of two results in one file the first would be lost. */
static int check_results(const run_job *job)
{
    for (size_t i = 0; i < job->count; i++)
        for (size_t k = 0; k < i; k++) {
            const char *to = job->arrays[i].to, *before = job->arrays[k].to;
            if (to && before && output_is_same(before, to))
                return fail(STATUS_USAGE, "--out %s and --out %s are one file: give each result its own", before, to);
        }
    return STATUS_DONE;
}

/* Finds the arrays of the signature that the spec has now. Opens no file. */
static int find_arrays(run_job *job)
{
    const kiln_signature *signature = spec_signature(job->spec);
    kernel_takes takes = signature_takes(signature);
    size_t place = 0;
    /* A spec without the op that its template wants has no inputs, and is refused with the kernel. */
    int status = takes.in + takes.inout > 0 ? check_counts(job, takes) : STATUS_DONE;
    if (status)
        return status;
    job->flat = takes.flat;
    job->count = 0;
    job->result = NULL;
    for (uint32_t i = 0; i < signature->param_count && place < ARGVALUES_ARGS; i++) {
        const kiln_param *param = signature->params[i];
        run_array *array = &job->arrays[job->count];
        size_t at = place;
        place += param->role != KILN_ROLE_FORMULA;
        if (param->dims == 0 || param->role == KILN_ROLE_FORMULA)
            continue;
        *array = (run_array){ .param = param, .index = i, .place = at, .npy.fd = -1, .output.fd = -1 };
        job->count++;
        if (param->role != KILN_ROLE_IN && !job->result)
            job->result = array;
    }
    status = bind_files(job, &job->args->in, false);
    if (!status)
        status = bind_files(job, &job->args->out, true);
    if (!status)
        status = check_results(job);
    for (size_t i = 0; i < job->count; i++) {
        run_array *array = &job->arrays[i];
        array->to = array->param->role == KILN_ROLE_IN ? NULL : array->to ? array->to : "";
        array->npy.path = array->to; /* until an input of the same argument is opened */
    }
    return status;
}

/* Whether the spec gives the type of an argument that is read. */
static bool follows_spec(const run_array *array)
{
    return is_read(array) && (array->param->follows_dtype == 1 || array->param->follows_dtype == 3);
}

/* The dtype that the files have, "f32" or "(bool,f32,f32)"; "" where one of them has none. Inputs that may differ name
 * a type each, of others the first. */
static const char *natural_dtype(const run_job *job)
{
    const char *list = "", *first = "";
    bool equal = true;
    for (size_t i = 0; i < job->count; i++) {
        const dtype *natural = follows_spec(&job->arrays[i]) ? dtype_of_descr(job->arrays[i].npy.descr) : NULL;
        if (!follows_spec(&job->arrays[i]))
            continue;
        if (!natural || !natural->of_specs)
            return "";
        if (*first && job->arrays[i].param->follows_dtype == 1)
            break;
        equal = equal && (!*first || strcmp(first, natural->name) == 0);
        first = *first ? first : natural->name;
        list = need_format("%s%s%s", list, *list ? "," : "", natural->name);
    }
    return equal ? first : need_format("(%s)", list);
}

/* Takes another spec, whose arrays are those of the former one. */
static int change_spec(run_job *job, const char *fields)
{
    kiln_spec *changed = NULL;
    kiln_status status = kiln_spec_with(&changed, job->spec, fields, &job->session->report);
    if (status)
        return refuse(job, status);
    kiln_spec_free(job->spec);
    job->spec = changed;
    for (size_t i = 0; i < job->count; i++)
        job->arrays[i].param = spec_signature(changed)->params[job->arrays[i].index];
    return STATUS_DONE;
}

/* Of several inputs with open types, one whose file can mean two. */
static int check_natural(const run_job *job)
{
    for (size_t i = 0; i < job->count; i++) {
        const run_array *array = &job->arrays[i];
        const dtype *natural = dtype_of_descr(array->npy.descr);
        if (follows_spec(array) && array->param->follows_dtype == 3 && natural && strcmp(natural->descr, "<u2") == 0)
            return fail(STATUS_USAGE,
                        "%s: has dtype %s, which may be the bits of bf16: name all types, such as "
                        "dtype=(f32,bf16)",
                        array->npy.path, npy_descr_text(&array->npy));
    }
    return STATUS_DONE;
}

/* An open dtype is that of the inputs whose types are the spec's. */
static int settle_dtype(run_job *job)
{
    const char *natural = *kiln_spec_field(job->spec, "dtype") ? "" : natural_dtype(job);
    if (!*natural)
        return *kiln_spec_field(job->spec, "dtype") || job->args->in.count < 2 ? STATUS_DONE : check_natural(job);
    job->settled = true;
    return change_spec(job, need_format("dtype=%s", natural));
}

/* The type that an argument can have by its file: its own if that fits, so that u8 and the bits of f8 stay apart; "" if
 * no spec names one. */
static const char *fitting_type(const run_array *array)
{
    const char *descr = array->npy.descr;
    const dtype *own = dtype_named(array->param->type), *natural = dtype_of_descr(descr);
    if (own && strcmp(own->descr, descr) == 0)
        return own->name;
    return strcmp(descr, "<u2") == 0 ? "bf16" : natural && natural->of_specs ? natural->name : "";
}

/* The dtype with which the spec reads the files, or "" if there is none. */
static const char *fitting_dtype(const run_job *job)
{
    const char *list = "", *first = "";
    bool equal = true, one = false;
    for (size_t i = 0; i < job->count; i++) {
        const char *type = fitting_type(&job->arrays[i]);
        if (!follows_spec(&job->arrays[i]))
            continue;
        if (!*type)
            return "";
        first = *first ? first : type;
        equal = equal && strcmp(first, type) == 0;
        one = one || job->arrays[i].param->follows_dtype == 1;
        list = need_format("%s%s%s", list, *list ? "," : "", type);
    }
    return equal ? first : one ? "" : need_format("(%s)", list);
}

/* Whether there is a kernel of that dtype: the template or the op may take others. */
static bool takes_dtype(const run_job *job, const char *types)
{
    char *source = NULL;
    kiln_spec *changed = NULL;
    kiln_status status = kiln_spec_with(&changed, job->spec, need_format("dtype=%s", types), NULL);
    if (status == KILN_OK)
        status = kiln_spec_source(&source, changed, NULL);
    kiln_text_free(source);
    kiln_spec_free(changed);
    return status == KILN_OK;
}

/* The change of the spec with which a file fits an argument; "" where there is none. */
static const char *hint_of(const run_job *job, const run_array *array)
{
    const char *types = fitting_dtype(job);
    bool is_open = strcmp(types, natural_dtype(job)) == 0;
    if (!follows_spec(array) || job->settled || !*types || !takes_dtype(job, types))
        return "";
    if (strcmp(array->npy.descr, "<u2") == 0)
        return need_format("; name dtype=%s in the spec if it holds the bits of bf16 values", types);
    return need_format("; %sname dtype=%s%s", is_open ? "leave dtype out of the spec or " : "", types,
                       is_open ? "" : " in the spec");
}

/* A file has the type of its argument, in either byte order. "<u2" is that of u16 and of bf16, "|u1" that of u8 and
 * of f8. */
static int check_type(const run_job *job, const run_array *array)
{
    const npy_array *npy = &array->npy;
    const dtype *type = dtype_named(array->param->type);
    if (type && strcmp(type->descr, npy->descr) == 0)
        return STATUS_DONE;
    return fail(STATUS_USAGE, "%s: has dtype %s, and argument %s is %s, in a file %s%s", npy->path, npy_descr_text(npy),
                array->param->name, array->param->type, type ? type->descr : "none", hint_of(job, array));
}

static int bind_size(run_job *job, const run_array *array, const char *formula, uint64_t size)
{
    const kiln_signature *signature = spec_signature(job->spec);
    arg_values *values = &job->values;
    for (size_t i = 0; i < signature->size_count && i < ARGVALUES_SIZES; i++) {
        if (strcmp(formula, signature->sizes[i]) != 0)
            continue;
        if (values->bound[i] && values->sizes[i] != size)
            return fail(STATUS_USAGE, "%s: %s is %" PRIu64 " here, and %" PRIu64 " in an input before", array->npy.path,
                        signature->sizes[i], size, values->sizes[i]);
        values->sizes[i] = size;
        values->bound[i] = true;
    }
    return STATUS_DONE;
}

/* Takes the sizes that the shape of an input has. The arrays of a flat kernel have any shape, all the same. */
static int bind_input(run_job *job, const run_array *array, const npy_array *first)
{
    const npy_array *npy = &array->npy;
    int status = check_type(job, array);
    if (status || job->broadcasts)
        return status;
    if (job->flat && !npy_same_shape(npy, first))
        return fail(STATUS_USAGE, "%s: has shape %s, but %s has %s; all inputs must have one shape", npy->path,
                    npy_shape_text(npy), first->path, npy_shape_text(first));
    if (job->flat)
        return bind_size(job, array, array->param->shape[0], npy->elements);
    if (npy->dimensions != array->param->dims)
        return fail(STATUS_USAGE, "%s: has %u dimensions, and argument %s has %u", npy->path, npy->dimensions,
                    array->param->name, array->param->dims);
    for (uint32_t d = 0; d < npy->dimensions && !status; d++)
        status = bind_size(job, array, array->param->shape[d], npy->shape[d]);
    return status;
}

static bool reduces_axis(const run_job *job)
{
    static const char *const templates[] = { "rows", "cluster", "split", "columns" };
    const char *template = kiln_spec_field(job->spec, "template");
    for (size_t i = 0; i < sizeof(templates) / sizeof(templates[0]); i++)
        if (strcmp(template, templates[i]) == 0)
            return true;
    return *template == '\0' && !spec_is_flat(job->spec);
}

/* Of an op that reduces: rows, with the axis as columns, whose template follows from their length. Dimensions behind
 * the axis take the template columns. */
static int settle_rows(run_job *job, npy_array *const *inputs, const bool *columns, size_t count)
{
    int status = broadcast_find_rows(&job->common, inputs, columns, count, kiln_spec_field(job->spec, "axis"));
    if (status)
        return status;
    job->broadcasts = job->reduces = true;
    job->keeps = strcmp(kiln_spec_field(job->spec, "keep"), "1") == 0;
    const broadcast *common = &job->common;
    const bool followed = common->inner != 1;
    const char *template = kiln_spec_field(job->spec, "template");
    if (*template && followed != (strcmp(template, "columns") == 0))
        return fail(STATUS_USAGE, "template %s takes an axis that is %sfollowed by other dimensions", template,
                    followed ? "not " : "");
    const uint64_t sizes[] = { common->rows, common->cols, common->inner };
    const char *layout = kiln_spec_field(job->spec, "layout");
    if (*layout && strcmp(layout, common->layout) != 0)
        return fail(STATUS_USAGE, "the shapes of the inputs give layout=%s: leave layout=%s out", common->layout,
                    layout);
    memcpy(job->values.sizes, sizes, sizeof(sizes));
    job->values.bound[0] = job->values.bound[1] = job->values.bound[2] = true;
    return change_spec(job, need_format("%slayout=%s axis= keep= n=%" PRIu64 "x%" PRIu64,
                                        followed ? "template=columns " : "", common->layout,
                                        common->rows * common->inner, common->cols > 0 ? common->cols : 1));
}

/* Inputs of several shapes broadcast. If some have fewer elements than the result, the template of rows and columns
 * computes it, or these are repeated while they are read. */
static int settle_broadcast(run_job *job)
{
    npy_array *inputs[ARGVALUES_ARGS];
    bool columns[ARGVALUES_ARGS], same = true;
    size_t count = 0;
    for (size_t i = 0; i < job->count; i++)
        if (is_read(&job->arrays[i])) {
            columns[count] = job->arrays[i].param->column;
            inputs[count++] = &job->arrays[i].npy;
        }
    if (reduces_axis(job))
        return settle_rows(job, inputs, columns, count);
    for (size_t i = 1; i < count; i++)
        same = same && npy_same_shape(inputs[i], inputs[0]);
    const char *template = kiln_spec_field(job->spec, "template");
    if (same || (*template && strcmp(template, "elementwise") != 0))
        return STATUS_DONE;
    int status = broadcast_find(&job->common, inputs, count);
    if (status)
        return status;
    job->broadcasts = true;
    job->values.sizes[0] = job->common.full ? job->common.rows * job->common.cols : job->common.rows;
    job->values.sizes[1] = job->common.cols;
    job->values.bound[0] = job->values.bound[1] = true;
    if (job->common.full)
        return STATUS_DONE;
    job->flat = false;
    return change_spec(job, need_format("template=broadcast layout=%s", job->common.layout));
}

static int open_inputs(run_job *job)
{
    int status = STATUS_DONE;
    const npy_array *first = NULL;
    for (size_t i = 0; i < job->count && !status; i++)
        if (is_read(&job->arrays[i]))
            status = npy_open(&job->arrays[i].npy, job->arrays[i].from);
    if (!status)
        status = settle_dtype(job);
    if (!status)
        status = settle_broadcast(job);
    for (size_t i = 0; i < job->count && !status; i++) {
        if (!is_read(&job->arrays[i]))
            continue;
        first = first ? first : &job->arrays[i].npy;
        status = bind_input(job, &job->arrays[i], first);
    }
    return status;
}

/* ---- Shapes */

static int check_input(const run_array *array, const uint64_t *shape)
{
    const npy_array *npy = &array->npy;
    for (uint32_t d = 0; d < npy->dimensions; d++)
        if (shape[d] != npy->shape[d])
            return fail(STATUS_USAGE, "%s: dimension %u is %" PRIu64 ", and %s = %" PRIu64 " is declared", npy->path, d,
                        npy->shape[d], array->param->shape[d], shape[d]);
    return STATUS_DONE;
}

static bool is_result(const run_array *array)
{
    return array->param->role != KILN_ROLE_IN;
}

static int shape_result(run_array *result, const uint64_t *shape, uint32_t dimensions)
{
    npy_array *npy = &result->npy;
    const dtype *type = dtype_named(result->param->type);
    if (!type)
        return fail(STATUS_USAGE, "argument %s is an array of %s, which kiln run does not write", result->param->name,
                    result->param->type);
    memcpy(npy->descr, type->descr, sizeof(npy->descr));
    npy->dimensions = dimensions;
    npy->elements = 1;
    for (uint32_t d = 0; d < dimensions; d++) {
        npy->shape[d] = shape[d];
        if (__builtin_mul_overflow(npy->elements, shape[d], &npy->elements) || npy->elements > INT64_MAX / 8)
            return fail(STATUS_FAILED, "the result is larger than any memory");
    }
    npy->bytes = npy->elements * result->param->bytes;
    return STATUS_DONE;
}

/* The shape to which the inputs broadcast; without the axis where the op reduces it, or with 1 there. */
static int shape_broadcast(const run_job *job, run_array *result)
{
    uint64_t shape[NPY_MOST_DIMENSIONS];
    uint32_t dimensions = 0;
    const bool reduced = job->reduces && strcmp(result->param->shape[1], "1") == 0;
    for (uint32_t d = 0; d < job->common.dimensions; d++) {
        const bool inside = reduced && d >= job->common.axis && d < job->common.axis_end;
        if (!inside || job->keeps)
            shape[dimensions++] = inside ? 1 : job->common.shape[d];
    }
    return shape_result(result, shape, dimensions);
}

/* Checks the inputs' shapes against the declared ones and gives the result its shape. */
static int settle_shapes(run_job *job)
{
    int status = STATUS_DONE;
    const npy_array *first = NULL;
    for (size_t i = 0; i < job->count && !first; i++)
        first = is_read(&job->arrays[i]) ? &job->arrays[i].npy : NULL;
    for (size_t i = 0; i < job->count && !status; i++) {
        run_array *array = &job->arrays[i];
        uint64_t shape[KILN_DIMS_MAX];
        if (job->broadcasts) {
            status = is_read(array) ? STATUS_DONE : shape_broadcast(job, array);
            continue;
        }
        if (job->flat && first) {
            status = is_read(array) ? STATUS_DONE : shape_result(array, first->shape, first->dimensions);
            continue;
        }
        kiln_status known = kiln_signature_shape(shape, job->info.signature, array->index, job->values.sizes,
                                                 job->values.size_count, &job->session->report);
        status = known            ? refuse(job, known)
                 : is_read(array) ? check_input(array, shape)
                                  : shape_result(array, shape, array->param->dims);
    }
    return status;
}

static int get_kernel(run_job *job)
{
    kiln_report *report = &job->session->report;
    kiln_status status = kiln_get_kernel(&job->kernel, job->session->service, job->spec, report);
    if (status)
        return refuse(job, status);
    job->info = kernel_info(job->kernel);
    kernel_takes takes = signature_takes(job->info.signature);
    int result = check_counts(job, takes);
    if (result)
        return result;
    char *problem = argvalues_read(&job->values, job->spec, &job->args->texts);
    if (problem)
        return fail(STATUS_USAGE, "%s", problem);
    return refuse(job, session_device(&job->device, &job->device_info, job->session, job->info.device));
}

/* ---- Memory and launches */

/* The bytes that a launch reads or writes. */
static uint64_t array_bytes(const run_job *job, const run_array *array)
{
    if (job->common.expands && is_read(array))
        return broadcast_expanded(&job->common, &array->npy, array->param->column);
    return array->npy.bytes;
}

static int read_array(const run_job *job, run_array *array)
{
    if (!job->common.expands)
        return npy_read(&array->npy, array->host);
    void *own = malloc(array->npy.bytes ? array->npy.bytes : 1);
    int status =
        own ? npy_read(&array->npy, own)
            : fail(STATUS_FAILED, "%s: no memory for its %" PRIu64 " bytes", array->npy.path, array->npy.bytes);
    if (!status)
        broadcast_expand(&job->common, &array->npy, array->param->column, own, array->host);
    free(own);
    return status;
}

/* Fills the result with bytes that no kernel writes by chance, so that an element that is not computed is seen. On the
 * cpu the kernel gets the host's memory, unless launches change their input: then the result is kept apart. */
static int load_array(run_job *job, run_array *array)
{
    uint64_t bytes = array_bytes(job, array), room = bytes ? bytes : 1;
    kiln_report *report = &job->session->report;
    bool shared = strcmp(job->info.device, "cpu") == 0 && array->param->role != KILN_ROLE_INOUT;
    if (room > SIZE_MAX / 2 || posix_memalign(&array->host, 256, room) != 0) {
        array->host = NULL;
        return fail(STATUS_FAILED, "%s: no memory for its %" PRIu64 " bytes", array->npy.path, bytes);
    }
    memset(array->host, POISON, is_read(array) ? 0 : bytes);
    int result = is_read(array) ? read_array(job, array) : STATUS_DONE;
    if (result)
        return result;
    kiln_status status = KILN_OK;
    if (shared)
        array->device = array->host;
    else if (!(status = kiln_alloc(&array->device, job->device, room, report)) && bytes)
        status = kiln_upload(job->device, array->device, array->host, bytes, report);
    job->values.args[array->place] = KILN_ARRAY(array->device, bytes);
    job->bytes += bytes;
    return refuse(job, status);
}

static kiln_status time_once(run_job *job, launch_job *work)
{
    double start = now_seconds();
    kiln_status status = submit_launch(work, NULL);
    if (!status)
        status = kiln_sync(job->device, work->report);
    job->timing.median_ms = 1e3 * (now_seconds() - start);
    return status;
}

/* The result is that of the first launch. It is not timed: it may load code, touch new memory or wake a GPU. */
static int launch(run_job *job)
{
    kiln_report *report = &job->session->report;
    const arg_values *values = &job->values;
    launch_job work = { job->kernel, values->sizes, values->size_count, values->args, values->arg_count, report };
    kiln_contender contender = { submit_launch, &work };
    const kiln_measure_options options = { .size = sizeof(options), .warmup = TIMED_WARMUP, .rounds = TIMED_ROUNDS };
    if (job->args->verify) {
        int verdict = verify_launch(&job->verified, job->session, job->kernel, values->sizes, values->size_count,
                                    values->args, values->arg_count);
        if (verdict)
            return verdict;
    }
    kiln_status status = job->args->verify ? KILN_OK : time_once(job, &work);
    job->timing.median_ms = 0;
    for (size_t i = 0; i < job->count && !status; i++) {
        const run_array *array = &job->arrays[i];
        if (is_result(array) && array->npy.bytes && array->device != array->host)
            status = kiln_download(job->device, array->host, array->device, array->npy.bytes, report);
    }
    if (!status && job->bytes)
        status = job->args->time ? kiln_measure(&job->timing, job->device, &contender, 1, &options, report)
                                 : time_once(job, &work);
    return refuse(job, status);
}

/* ---- The result */

static void print_json(const run_job *job)
{
    const verified_launch *verified = job->args->verify ? &job->verified : NULL;
    double ms = job->timing.median_ms;
    json_t *object = json_new("device", json_text(job->info.device), "spec", json_text(job->info.spec), "source",
                              json_text(job->info.origin_name), "compile_ms", json_number(job->info.compile_ms),
                              "time_ms", json_number(ms), "gbps", json_number(gigabytes_per_second(job->bytes, ms)),
                              "elements", json_count(job->result->npy.elements), "bytes", json_count(job->bytes),
                              "verified", verified ? json_boolean(!verified->differs) : json_null(), NULL);
    if (verified)
        json_put(object, "tolerance",
                 json_text(tolerance_text(verified->found.ulp, verified->found.relative, verified->found.absolute)),
                 NULL);
    if (verified && verified->found.bound >= 0)
        json_put(object, "reference_ulps", json_number(verified->found.worst), NULL);
    if (job->args->stats)
        json_put(object, "stats", counters_json(job->session->service), NULL);
    json_print(object);
}

/* "n=1003", where the spec names a template, which calls its sizes as it likes; else "". */
static char *sizes_text(const run_job *job)
{
    char *text = need_copy("");
    for (size_t i = 0; i < job->values.size_count && spectext_field(job->info.spec, "template"); i++)
        text_append(&text, " ", "%s=%" PRIu64, job->info.signature->sizes[i], job->values.sizes[i]);
    return text;
}

static void print_verified(FILE *stream, const kiln_verification *found)
{
    const char *tolerance = tolerance_text(found->ulp, found->relative, found->absolute);
    if (found->bounded)
        fprintf(stream, "verified  %" PRIu64 " elements agree with %s, within the bounds of the op's functions\n",
                found->compared, found->against);
    else if (*tolerance)
        fprintf(stream, "verified  %" PRIu64 " elements agree with %s within %s\n", found->compared, found->against,
                tolerance);
    else
        fprintf(stream, "verified  %" PRIu64 " elements equal to %s, bit for bit\n", found->compared, found->against);
}

static void print_text(const run_job *job, FILE *stream)
{
    double ms = job->timing.median_ms;
    const kiln_verification *found = job->args->verify ? &job->verified.found : NULL;
    const char *sizes = sizes_text(job);
    fprintf(stream, "device    %s (%s)\n", job->info.device, job->device_info.model);
    fprintf(stream, "spec      %s\n", job->info.spec);
    if (job->info.origin == KILN_ORIGIN_COMPILED)
        fprintf(stream, "kernel    compiled in %s\n", format_ms(job->info.compile_ms));
    else
        fprintf(stream, "kernel    %s\n", job->info.origin_name);
    if (*sizes)
        fprintf(stream, "sizes     %s\n", sizes);
    fprintf(stream, "time      %s%s, %.1f GB/s, %" PRIu64 " elements\n", format_ms(ms),
            job->args->time ? " (median)" : "", gigabytes_per_second(job->bytes, ms), job->result->npy.elements);
    if (found)
        print_verified(stream, found);
    if (found && found->bound >= 0)
        fprintf(stream, "reference at most %.3g ulp away, %.3g are allowed\n", found->worst, found->bound);
    if (job->args->stats)
        counters_print(job->session->service, stream);
}

static int write_result(run_array *result)
{
    char *header = NULL;
    size_t length = npy_header(&header, &result->npy);
    int status = output_write(&result->output, header, length);
    return status ? status : output_write(&result->output, result->host, result->npy.bytes);
}

/* Does this for each result, until one fails. */
static int each_result(run_job *job, int (*act)(run_array *result))
{
    int status = STATUS_DONE;
    for (size_t i = 0; i < job->count && !status; i++)
        status = is_result(&job->arrays[i]) ? act(&job->arrays[i]) : STATUS_DONE;
    return status;
}

static int open_result(run_array *result)
{
    return output_open(&result->output, result->to, result->npy.bytes);
}

static int commit_result(run_array *result)
{
    return output_commit(&result->output);
}

/* Writes the files, puts them in place once all are whole, and tells of them: on stdout, or on stderr where a file goes
 * to stdout. Of a result that differs only JSON tells. */
static int give_results(run_job *job, int status)
{
    FILE *stream = stdout;
    for (size_t i = 0; i < job->count && !status; i++)
        stream = is_result(&job->arrays[i]) && output_is_stdout(&job->arrays[i].output) ? stderr : stream;
    if (!status)
        status = each_result(job, write_result);
    if (!status)
        status = each_result(job, commit_result);
    if (job->args->common.json && stream == stdout && (!status || job->verified.differs))
        print_json(job);
    else if (!status)
        print_text(job, stream);
    return status;
}

/* A run launches one kernel. */
static int refuse_reduce(run_job *job)
{
    char *first = NULL, *second = NULL;
    if (!*kiln_spec_field(job->spec, "reduce"))
        return STATUS_DONE;
    kiln_status status =
        kiln_apply_parts(&first, &second, job->session->service, kiln_spec_text(job->spec), &job->session->report);
    int result = refuse(job, status);
    if (!result)
        result = fail(STATUS_USAGE, "reduce=%s takes two kernels: run '%s', and '%s' on its results",
                      kiln_spec_field(job->spec, "reduce"), first, second);
    kiln_text_free(first);
    kiln_text_free(second);
    return result;
}

/* An option that is a field of the spec, where the spec has none. */
static int set_field(run_job *job, const char *field, const char *value)
{
    const char *given = kiln_spec_field(job->spec, field);
    if (value == NULL || strcmp(given, value) == 0)
        return STATUS_DONE;
    if (*given)
        return fail(STATUS_USAGE, "the spec has %s=%s, and --%s is given", field, given, field);
    return change_spec(job, need_format("%s=%s", field, value));
}

static int compute(run_job *job)
{
    kiln_status parsed = kiln_spec_parse(&job->spec, job->session->service, job->args->spec, &job->session->report);
    int status = parsed ? refuse(job, parsed) : STATUS_DONE;
    if (!status)
        status = set_field(job, "axis", job->args->axis);
    if (!status)
        status = set_field(job, "keep", job->args->keep ? "1" : NULL);
    if (!status)
        status = refuse_reduce(job);
    if (!status)
        status = find_arrays(job);
    if (!status)
        status = open_inputs(job);
    if (!status)
        status = get_kernel(job);
    if (!status)
        status = settle_shapes(job);
    if (!status)
        status = each_result(job, open_result);
    for (size_t i = 0; i < job->count && !status; i++)
        status = load_array(job, &job->arrays[i]);
    if (!status) {
        crash_watch(crash_question(job->session->service, job->spec));
        status = launch(job);
        crash_forget();
    }
    return give_results(job, status);
}

static int run(struct session *session, void *data)
{
    run_job job = { .args = data, .session = session, .values.by_inputs = true };
    int status = compute(&job);
    for (size_t i = 0; i < job.count; i++) {
        run_array *array = &job.arrays[i];
        npy_close(&array->npy);
        if (array->device != array->host)
            kiln_free(job.device, array->device);
        free(array->host);
        output_close(&array->output);
    }
    kiln_kernel_release(job.kernel);
    kiln_spec_free(job.spec);
    return status;
}

int command_run(int argc, char **argv)
{
    run_args args = { .spec = NULL };
    parse_args(&args, argc, argv);
    return session_run(&args.common, run, &args);
}
