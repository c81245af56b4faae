#include "show/signature.h"

#include <string.h>

#include "cli/common.h"
#include "text/format.h"
#include "text/table.h"

/* The declared word for a role; a number has none. */
static const char *role_word(const kiln_param *param)
{
    return param->role == KILN_ROLE_IN      ? "in"
           : param->role == KILN_ROLE_OUT   ? (param->in_place ? "out inplace" : "out")
           : param->role == KILN_ROLE_INOUT ? "inout"
                                            : "number";
}

static const char *type_word(const kiln_param *param, bool declared)
{
    static const char *const names[] = { NULL, "dtype", "otype", "itype" };
    return declared && names[param->follows_dtype] ? names[param->follows_dtype] : param->type;
}

/* "[rows, cols]" of an array, "= n" of a number with a formula. */
static const char *shape_text(const kiln_param *param)
{
    char *text = need_copy("");
    if (param->role == KILN_ROLE_FORMULA)
        return need_format("= %s", param->shape[0]);
    if (param->dims == 0)
        return "given at launch";
    for (uint32_t i = 0; i < param->dims; i++)
        text_append(&text, ", ", "%s", param->shape[i]);
    return need_format("[%s]", text);
}

void signature_print(const kiln_signature *signature, bool declared)
{
    struct table *table = table_new("argument|role|type|shape or value");
    for (size_t i = 0; i < signature->param_count; i++) {
        const kiln_param *param = signature->params[i];
        table_row(table, (const char *const[]){ param->name, role_word(param), type_word(param, declared),
                                                shape_text(param) });
    }
    table_print(table, stdout);
}

json_t *texts_json(const char *const *texts, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_add(list, json_text(texts[i]));
    return list;
}

/* The value of a number that no formula gives is null, and so is that of an array. */
static json_t *argument_json(const kiln_param *param, bool declared)
{
    return json_new("name", json_text(param->name), "role", json_text(role_word(param)), "type",
                    json_text(type_word(param, declared)), "shape", texts_json(param->shape, param->dims), "value",
                    json_text(param->role == KILN_ROLE_FORMULA ? param->shape[0] : NULL), NULL);
}

json_t *signature_json(const kiln_signature *signature, bool declared)
{
    json_t *arguments = json_array();
    for (size_t i = 0; i < signature->param_count; i++)
        json_add(arguments, argument_json(signature->params[i], declared));
    return arguments;
}
