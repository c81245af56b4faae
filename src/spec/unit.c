/* From a resolved spec to the text of its unit, and the rule by which it is launched. */
#include "spec/unit.h"

#include "base/alloc.h"
#include "spec/option.h"
#include "spec/rows.h"

#define FAIL(report, ...) kiln__fail(report, KILN_ESPEC, KILN__STAGE_SPEC, 0, __VA_ARGS__)

static void append_upper(kiln__text *out, const char *name)
{
    for (; *name != '\0'; name++) {
        char c = (char)(*name >= 'a' && *name <= 'z' ? *name - 'a' + 'A' : *name);
        kiln__text_append_bytes(out, &c, 1);
    }
}

/* "#define KILN_CACHE_STREAM 1"; `word` may be NULL. */
static void append_define(kiln__text *out, const char *name, const char *word, int64_t value)
{
    kiln__text_append(out, "#define KILN_");
    append_upper(out, name);
    kiln__text_append(out, word != NULL ? "_" : "");
    append_upper(out, word != NULL ? word : "");
    kiln__text_append(out, value < 0 ? " -" : " ");
    kiln__text_append_uint(out, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, 1);
    kiln__text_append(out, "\n");
}

/* "#define KILN_ALL(M) M(0) M(1)" and "#define KILN_EACH(M) M(0), M(1)": one thing for each operand of a kind. */
static void append_lists(kiln__text *out, const char *suffix, uint32_t count)
{
    static const char *const names[] = { "ALL", "EACH" };
    for (int i = 0; i < 2; i++) {
        kiln__text_printf(out, "#define KILN_%s%s(M)", names[i], suffix);
        for (uint32_t k = 0; k < count; k++)
            kiln__text_printf(out, "%s M(%u)", i == 1 && k > 0 ? "," : "", k);
        kiln__text_append(out, "\n");
    }
}

/* "#define KILN_TYPE0 kiln_u8" and "#define KILN_VALUE0(e) (kiln_real)kiln_load_u8(e)" for each input. As PyTorch does,
 * a whole number that the dtype does not hold is rounded to it. Where values have several types, an input keeps its
 * own until it is used. */
static void append_inputs(kiln__text *out, const kiln__fields *spec, bool mixed)
{
    append_define(out, "INPUTS", NULL, kiln__spec_inputs(spec));
    append_lists(out, "", kiln__spec_inputs(spec));
    if (spec->typed > 0 || mixed)
        append_define(out, "TYPED", NULL, 1);
    for (uint32_t k = 0; k < (mixed ? spec->op->inputs : spec->typed); k++) {
        kiln__dtype type = kiln__spec_input(spec, k);
        const char *name = kiln__dtype_name(type);
        bool exact = kiln__dtype_holds(spec->dtype, type);
        kiln__text_printf(out, "#define KILN_TYPE%u kiln_%s\n", k, name);
        if (mixed)
            kiln__text_printf(out, "#define KILN_VALUE%u(e) kiln_load_%s(e)\n", k, name);
        else
            kiln__text_printf(out, "#define KILN_VALUE%u(e) %s(kiln_real)kiln_load_%s(e)%s\n", k,
                              exact ? "" : "kiln_load(kiln_store(", name, exact ? "" : "))");
    }
}

/* Where a template keeps rows: the number of each input among those that have rows, and the bytes of the widest
 * element. */
static void append_places(kiln__text *out, const kiln__fields *spec)
{
    uint32_t place = 0;
    for (uint32_t k = 0; k < spec->op->inputs; k++) {
        kiln__text_printf(out, "#define KILN_PLACE%u %u\n", k, place);
        place += kiln__spec_layout(spec, k) == KILN__LAYOUT_FULL;
    }
    append_define(out, "WIDEST", NULL, kiln__spec_bytes(spec));
}

/* "#define KILN_LAYOUT1 1" for each input, and "#define KILN_OUT_LAYOUT0 4" for each output where these differ, too. */
static void append_layouts(kiln__text *out, const kiln__fields *spec)
{
    const bool strided = kiln__template_strided(spec->template);
    const bool varied = strided || kiln__arguments_reduce(&spec->template->arguments);
    for (uint32_t k = strided ? KILN__LAYOUT_STRIDED : 0; k < (strided ? KILN__LAYOUT_END : KILN__LAYOUT_STRIDED); k++)
        append_define(out, "LAYOUT", kiln__layout_name((kiln__layout)k), k);
    for (uint32_t k = 0; varied && k < kiln__spec_outputs(spec); k++)
        kiln__text_printf(out, "#define KILN_OUT_LAYOUT%u %d\n", k, (int)kiln__spec_out_layout(spec, k));
    if (strided)
        append_define(out, "DIMS", NULL, spec->layout_dims > 0 ? spec->layout_dims : 1);
    for (uint32_t k = 0; k < spec->op->inputs; k++)
        kiln__text_printf(out, "#define KILN_LAYOUT%u %d\n", k, (int)kiln__spec_layout(spec, k));
    if (varied && !strided)
        append_places(out, spec);
}

/* "i64_" before the names of what calculates in a type, "" where that is the unit's own. */
static void append_prefix(kiln__text *out, const kiln__typing *typing, kiln__dtype in)
{
    bool apart = typing->mixed && in != typing->dtype;
    kiln__text_printf(out, "%s%s", apart ? kiln__dtype_name(in) : "", apart ? "_" : "");
}

/* The type that an output's function returns: that of its last step, and the dtype in a template whose results have no
 * other. */
static kiln__dtype returned(const kiln__fields *spec, const kiln__typing *typing, uint32_t output)
{
    return kiln__template_has_result(spec->template) ? kiln__typing_in(typing, spec->op, output) : typing->dtype;
}

/* "#define KILN_RESULT1 kiln_f16" and "#define KILN_STORE1(v) kiln_store_f16(v)" for each of several outputs. */
static void append_outputs(kiln__text *out, const kiln__fields *spec, const kiln__typing *typing)
{
    uint32_t count = kiln__spec_outputs(spec);
    if (kiln__spec_result(spec, 0) != spec->dtype)
        append_define(out, "OUT", kiln__dtype_macro(kiln__spec_result(spec, 0)), 1);
    if (kiln__arguments_each(&spec->template->arguments, KILN__ARG_OUT)) {
        append_define(out, "OUTPUTS", NULL, count);
        append_lists(out, "_OUT", count);
        kiln__text_append(out, "#define kiln_value0 kiln_value\n");
    }
    for (uint32_t k = 0; k < count && (count > 1 || typing->mixed); k++) {
        const char *name = kiln__dtype_name(kiln__spec_result(spec, k));
        kiln__text_printf(out, "#define KILN_RESULT%u kiln_%s\n", k, name);
        kiln__text_printf(out, "#define KILN_STORE%u(v) kiln_", k);
        append_prefix(out, typing, returned(spec, typing, k));
        kiln__text_printf(out, "store_%s(v)\n", name);
    }
}

static void append_math(kiln__text *out, const kiln__fields *spec)
{
    if (spec->math == KILN__MATH_PORTABLE)
        append_define(out, "MATH", "PORTABLE", 1);
    if (spec->math == KILN__MATH_FAST)
        append_define(out, "MATH", "FAST", 1);
}

/* Whether a formula of the template, which may be NULL, holds. */
static bool holds(const kiln__fields *spec, const char *formula)
{
    int64_t value = 0;
    return formula != NULL && kiln__spec_eval(spec, formula, &value, NULL) == KILN_OK && value != 0;
}

static bool folds_jointly(const kiln__fields *spec)
{
    return spec->op->reductions > 0 && holds(spec, spec->template->joint) && kiln__rows_may_join(spec);
}

static void append_defines(kiln__text *out, const kiln__fields *spec, const kiln__typing *typing, bool joint,
                           uint64_t tile)
{
    append_define(out, "UNIT", NULL, 1);
    append_define(out, "DTYPE", kiln__dtype_macro(spec->dtype), 1);
    if (!typing->mixed && !kiln__dtype_is_real(spec->dtype) && kiln__dtype_is_real(typing->step))
        append_define(out, "REAL", kiln__dtype_macro(KILN__DTYPE_F32), 1);
    append_math(out, spec);
    if (typing->mixed)
        append_define(out, "MIXED", NULL, 1);
    if (spec->op->indexed)
        append_define(out, "INDEXED", NULL, 1);
    if (spec->op->reductions > 0)
        append_define(out, "REDUCES", NULL, 1);
    if (joint)
        append_define(out, "JOINT", NULL, 1);
    if (spec->op->scans) {
        append_define(out, "SCANS", NULL, 1);
        append_define(out, "REVERSE", NULL, spec->op->reverse);
    }
    append_inputs(out, spec, typing->mixed);
    append_outputs(out, spec, typing);
    if (kiln__template_broadcasts(spec->template) || kiln__template_strided(spec->template))
        append_layouts(out, spec);
    if (kiln__arguments_each(&spec->template->arguments, KILN__ARG_SCALAR))
        append_lists(out, "_SCALARS", spec->op->scalars);
    for (uint32_t i = 0; i < spec->template->param_count; i++) {
        const kiln__declared_param *param = &spec->template->params[i];
        for (uint32_t j = 0; j < param->count && param->is_enum; j++)
            append_define(out, param->name, param->words[j], j);
        append_define(out, param->name, NULL, spec->params[i]);
    }
    if (tile > 0)
        append_define(out, "TILE", NULL, (int64_t)tile);
}

/* The function of an output: kiln_value, kiln_value1, ... */
static void append_value(kiln__text *out, const kiln__fields *spec, const kiln__typing *typing, const kiln__rows *rows,
                         uint32_t output)
{
    const kiln__real_style style = { typing, spec->round == KILN__ROUND_EAGER, rows->places };
    kiln__dtype in = kiln__typing_in(typing, spec->op, output), gives = returned(spec, typing, output);
    bool casts = typing->mixed && in != gives;
    kiln__text_append(out, "KILN_FN kiln_");
    append_prefix(out, typing, gives);
    kiln__text_append(out, "real kiln_value");
    if (output > 0)
        kiln__text_append_uint(out, output, 1);
    kiln__text_append(out, "(");
    kiln__rows_append_parameters(spec, typing, out);
    kiln__text_append(out, spec->op->indexed ? ", long long position" : "");
    kiln__text_append(out, rows->count > 0 ? ", const kiln_row *row" : "");
    kiln__text_append(out, spec->op->scans ? ", const kiln_folds_scan *before, const kiln_folds_scan *after, unsigned j"
                                           : "");
    kiln__text_append(out, ") { return ");
    if (casts) {
        kiln__text_append(out, "kiln_load(kiln_");
        append_prefix(out, typing, in);
        kiln__text_printf(out, "store_%s(", kiln__dtype_name(gives));
    }
    kiln__real_emit(spec->op, &spec->catalog->ops, NULL, &style, output, out);
    kiln__text_append(out, casts ? ")); }\n" : "; }\n");
}

/* Appends a text whose names that begin with kiln_ and KILN_ are others: "kiln_i64_add", "KILN_I64_FN". */
static void append_renamed(kiln__text *out, const char *text, kiln__dtype type)
{
    static const char names[] = "kiln_", macros[] = "KILN_";
    for (const char *next; *text != '\0'; text = next) {
        bool name = strncmp(text, names, sizeof(names) - 1) == 0,
             macro = strncmp(text, macros, sizeof(macros) - 1) == 0;
        next = text;
        while (kiln__word_is_name_char(*next))
            next++;
        if (name || macro) {
            kiln__text_append_bytes(out, text, sizeof(names) - 1);
            kiln__text_printf(out, "%s_", name ? kiln__dtype_name(type) : kiln__dtype_macro(type));
            text += sizeof(names) - 1;
        }
        next += next == text && *next != '\0';
        kiln__text_append_bytes(out, text, (size_t)(next - text));
    }
}

/* Where values have several types, each type but the spec's has its own copy of all that calculates in it, under other
 * names. */
static void append_type(kiln__text *out, const kiln__fields *spec, kiln__dtype type, const bool *nodes)
{
    kiln__text text = { 0 };
    append_define(&text, "UNIT", NULL, 1);
    append_define(&text, "DTYPE", kiln__dtype_macro(type), 1);
    if (spec->op->reductions > 0)
        append_define(&text, "REDUCES", NULL, 1);
    append_math(&text, spec);
    kiln__text_append(&text, spec->catalog->prelude);
    kiln__ops_append(&spec->catalog->ops, &spec->catalog->functions, !kiln__dtype_is_real(type), spec->op, nodes,
                     &text);
    append_renamed(out, kiln__text_string(&text), type);
    out->failed = out->failed || text.failed;
    kiln__text_fini(&text);
}

static void append_values(kiln__text *out, const kiln__fields *spec, const kiln__typing *typing, bool joint)
{
    kiln__rows rows;
    bool nodes[KILN__REAL_NODES_MAX], whole = !kiln__dtype_is_real(typing->mixed ? spec->dtype : typing->step);
    for (int i = KILN__DTYPE_UNSET + 1; i < KILN__DTYPE_SPECS_END && typing->mixed; i++)
        if (kiln__typing_mark(typing, spec->op, (kiln__dtype)i, nodes) && (kiln__dtype)i != spec->dtype)
            append_type(out, spec, (kiln__dtype)i, nodes);
    kiln__typing_mark(typing, spec->op, spec->dtype, nodes);
    kiln__ops_append(&spec->catalog->ops, &spec->catalog->functions, whole, spec->op, typing->mixed ? nodes : NULL,
                     out);
    kiln__rows_make(&rows, spec, typing, joint);
    if (rows.count > 0)
        kiln__rows_append(&rows, spec, typing, holds(spec, spec->template->picks), out);
    for (uint32_t i = 0; i < spec->op->outputs; i++)
        append_value(out, spec, typing, &rows, i);
    if (typing->mixed) /* for a template of one output, whose value has the type of the last step */
        kiln__text_append(out, "#define kiln_store_out(value) KILN_STORE0(value)\n");
    kiln__text_append(out, "\n");
}

/* Compiled from its twin. */
static bool has_twin(const kiln__fields *spec)
{
    return kiln__target_facts(&spec->target)->twin;
}

/* The user's text has a name and lines for the compiler's messages: those of the template and of its file. A path is
 * not among them, so that it is not in the key. The lines before it are Kiln's, and called so. */
static void append_line(kiln__text *out, const kiln__fields *spec)
{
    const kiln__template *template = spec->template;
    kiln__text_printf(out, "#line %u \"%s%s\"\n", has_twin(spec) ? 1 : template->body_line, template->name,
                      has_twin(spec) ? ".c" : ".cu");
}

/* The bytes of each argument. */
static kiln_status make_arguments(kiln__unit *unit, kiln_report *report)
{
    kiln__text out = { 0 };
    for (uint32_t i = 0; i < unit->plan->arg_count; i++) {
        kiln__text_append(&out, i > 0 ? " " : "");
        kiln__text_append_uint(&out, kiln__plan_arg_bytes(&unit->plan->args[i]), 1);
    }
    unit->arguments = kiln__text_take(&out);
    return unit->arguments != NULL ? KILN_OK : kiln__fail_memory(report, KILN__STAGE_SPEC);
}

/* The first line leaves out the target, so that targets with equal source have equal text. The template's declarations
 * are left out too: a change of the values worth trying, or of their documentation, keeps what is cached valid. */
static void append_source(kiln__text *out, const kiln__fields *spec, const kiln__unit *unit)
{
    const kiln__template *template = spec->template;
    kiln__typing typing;
    const bool joint = folds_jointly(spec);
    kiln__spec_type(spec, &typing);
    kiln__text_append(out, "// ");
    kiln__spec_format_anywhere(spec, out);
    kiln__text_append(out, "\n");
    /* Other bytes are another unit, so that all code that is found was compared with them. */
    if (template->origin != NULL)
        kiln__text_printf(out, "// arguments of %s bytes\n#line 4 \"kiln\"\n", unit->arguments);
    append_defines(out, spec, &typing, joint, unit->rule.tile);
    kiln__text_append(out, "\n");
    kiln__text_append(out, spec->catalog->prelude);
    kiln__text_append(out, "\n");
    if (spec->op->reductions > 0)
        kiln__text_append(out, spec->catalog->rows);
    if (kiln__template_takes_op(template))
        append_values(out, spec, &typing, joint);
    if (spec->op->scans && !has_twin(spec))
        kiln__text_append(out, spec->catalog->scan);
    if (template->origin != NULL)
        append_line(out, spec);
    kiln__text_append(out, has_twin(spec) ? template->cpu_text : template->body);
}

/* The definitions of the user-defined ops that the spec and the reference of its template need. */
static void append_definitions(const kiln__fields *spec, kiln__text *out)
{
    const kiln__op_table *ops = &spec->catalog->ops;
    kiln__fields reference;
    kiln__real room;
    bool needed[KILN__OPS_MAX] = { false };
    if (spec->op_set)
        kiln__real_calls(spec->op, NULL, needed, NULL, NULL);
    if (spec->template->reference != NULL && kiln__spec_reference(&reference, &room, spec, NULL) == KILN_OK)
        kiln__real_calls(reference.op, NULL, needed, NULL, NULL);
    kiln__ops_close(ops, needed, true);
    for (uint32_t i = ops->row_count; i < ops->count; i++)
        if (needed[i]) {
            kiln__text_append(out, " --define-op ");
            kiln__text_quote(out, kiln__op_at(ops, i)->definition);
        }
}

/* Ops come before the template, whose reference may be one of them. */
static void append_warm_options(kiln__text *out, const kiln__fields *spec)
{
    const kiln__op_table *ops = &spec->catalog->ops;
    const char *origin = spec->template->origin;
    if (ops->count > ops->row_count || origin != NULL)
        append_definitions(spec, out);
    if (origin != NULL && origin[0] == '/') {
        kiln__text_append(out, " --template ");
        kiln__text_quote(out, origin);
    }
}

static kiln_status make_texts(kiln__unit *unit, const kiln__fields *spec, kiln_report *report)
{
    kiln__text text = { 0 }, source = { 0 }, options = { 0 };
    kiln__spec_format(spec, false, &text);
    append_source(&source, spec, unit);
    append_warm_options(&options, spec);
    bool failed = text.failed || source.failed || options.failed;
    unit->source_length = source.length;
    unit->spec = kiln__text_take(&text);
    unit->source = kiln__text_take(&source);
    unit->warm_options = options.length > 0 ? kiln__text_take(&options) : NULL;
    kiln__text_fini(&options);
    return failed ? kiln__fail_memory(report, KILN__STAGE_SPEC) : KILN_OK;
}

bool kiln__unit_will_include(const kiln__fields *spec)
{
    return has_twin(spec) ? spec->template->cpu_includes : spec->template->includes;
}

kiln_status kiln__unit_take_options(kiln__unit *unit, const kiln__template *template, kiln_report *report)
{
    kiln_status status = KILN_OK;
    for (uint32_t i = 0; i < template->option_count && status == KILN_OK; i++) {
        const char *option = template->options[i];
        const char *next = i + 1 < template->option_count ? template->options[i + 1] : NULL;
        status = kiln__option_take(unit, option, next, report);
        i += kiln__option_words(option) > 1;
    }
    return status;
}

/* What a user's template has more than one of Kiln's: names in messages, options, and headers to come. The file of its
 * twin has the same path without the last letter. */
static kiln_status make_foreign(kiln__unit *unit, const kiln__fields *spec, kiln_report *report)
{
    const kiln__template *template = spec->template;
    const char *origin = template->origin, *slash = strrchr(origin, '/');
    kiln__text name = { 0 }, shown = { 0 }, folder = { 0 };
    kiln__text_printf(&name, "%s%s", template->name, has_twin(spec) ? ".c" : ".cu");
    kiln__text_append_bytes(&shown, origin, strlen(origin) - has_twin(spec));
    kiln__text_append_bytes(&folder, origin, slash != NULL && slash > origin ? (size_t)(slash - origin) : 1);
    kiln_status status = has_twin(spec) ? KILN_OK : kiln__unit_take_options(unit, template, report);
    bool failed = name.failed || shown.failed || folder.failed || unit->options.bytes.failed;
    unit->foreign = true;
    unit->homeless = origin[0] != '/';
    unit->includes = kiln__unit_will_include(spec);
    unit->as_source = unit->includes || unit->options.count > 0;
    unit->name = kiln__text_take(&name);
    unit->shown = slash != NULL ? kiln__text_take(&shown) : NULL;
    unit->folder = slash != NULL ? kiln__text_take(&folder) : NULL;
    kiln__text_fini(&shown);
    kiln__text_fini(&folder);
    return failed ? kiln__fail_memory(report, KILN__STAGE_SPEC) : status;
}

static kiln_status make_rule(kiln__rule *rule, const kiln__fields *spec, const kiln__plan *plan, kiln_report *report)
{
    const kiln__template *template = spec->template;
    memcpy(rule->block, plan->block, sizeof(rule->block));
    rule->shared = plan->shared;
    rule->scratch = plan->scratch != UINT32_MAX;
    rule->arg_count = plan->arg_count;
    kiln_status status = kiln__spec_tile(spec, &rule->tile, report);
    for (uint32_t i = 0; i < template->entry_count && status == KILN_OK; i++) {
        const kiln__entry_point *entry = &template->entries[i];
        int64_t align = 1;
        status = kiln__spec_eval(spec, entry->align, &align, report);
        if (align < 1 || align > UINT32_MAX || (align & (align - 1)) != 0)
            return FAIL(report, "template %s: entry %s is to be aligned to %lld bytes, which is not a power of two",
                        template->name, entry->name, (long long)align);
        kiln__text_copy(rule->entries[rule->entry_count].name, KILN__NAME_SIZE, entry->name);
        rule->entries[rule->entry_count++].align = (uint32_t)align;
    }
    return status;
}

kiln_status kiln__unit_make(kiln__unit **out, const kiln__fields *spec, kiln_report *report)
{
    *out = NULL;
    if (has_twin(spec) && spec->template->cpu_text == NULL)
        return FAIL(report, "template %s has no cpu twin: give a GPU target, such as target=sm_90",
                    spec->template->name);
    kiln__unit *unit = kiln__calloc(1, sizeof(*unit));
    if (unit == NULL)
        return kiln__fail_memory(report, KILN__STAGE_SPEC);
    unit->target = spec->target;
    unit->contracts = spec->math != KILN__MATH_PORTABLE;
    unit->operations = spec->op->operations;
    kiln_status status = kiln__spec_plan(&unit->plan, spec, report);
    if (status == KILN_OK)
        status = make_rule(&unit->rule, spec, unit->plan, report);
    if (status == KILN_OK)
        status = make_arguments(unit, report);
    if (status == KILN_OK)
        status = make_texts(unit, spec, report);
    if (status == KILN_OK && spec->template->origin != NULL)
        status = make_foreign(unit, spec, report);
    if (status == KILN_OK)
        *out = unit;
    else
        kiln__unit_free(unit);
    return status;
}

void kiln__unit_fini_source(kiln__unit *unit)
{
    kiln__free(unit->name);
    kiln__free(unit->shown);
    kiln__free(unit->folder);
    kiln__list_fini(&unit->functions);
    kiln__list_fini(&unit->headers);
    kiln__list_fini(&unit->parts);
    kiln__list_fini(&unit->options);
    kiln__text_fini(&unit->notes);
    kiln__list_fini(&unit->places);
    unit->name = unit->shown = unit->folder = NULL;
}

void kiln__unit_free(kiln__unit *unit)
{
    if (unit == NULL)
        return;
    kiln__free(unit->spec);
    kiln__free(unit->source);
    kiln__free(unit->warm_options);
    kiln__free(unit->arguments);
    kiln__free(unit->plan);
    kiln__unit_fini_source(unit);
    kiln__free(unit);
}
