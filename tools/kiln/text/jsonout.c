/* Makes JSON values with jansson, which takes its memory from the command's. */
#include "text/jsonout.h"

#include <math.h>

#include "cli/common.h"

static void put_members(json_t *object, const char *name, va_list args)
{
    for (; name; name = va_arg(args, const char *))
        if (json_object_set_new(object, name, va_arg(args, json_t *)) != 0)
            out_of_memory();
}

json_t *json_new(const char *name, ...)
{
    json_t *object = json_object();
    va_list args;
    va_start(args, name);
    put_members(object, name, args);
    va_end(args);
    return object;
}

void json_put(json_t *object, const char *name, ...)
{
    va_list args;
    va_start(args, name);
    put_members(object, name, args);
    va_end(args);
}

void json_add(json_t *list, json_t *value)
{
    if (json_array_append_new(list, value) != 0)
        out_of_memory();
}

json_t *json_text(const char *text)
{
    if (!text)
        return json_null();
    json_t *value = json_string(text);
    if (!value) {
        char *plain = need_copy(text);
        for (char *c = plain; *c; c++)
            if ((unsigned char)*c >= 0x80)
                *c = '?';
        value = json_string(plain);
    }
    return value;
}

json_t *json_count(uint64_t count)
{
    return json_integer(count > INT64_MAX ? INT64_MAX : (json_int_t)count);
}

json_t *json_known(int count)
{
    return count >= 0 ? json_integer(count) : json_null();
}

json_t *json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

void json_print(json_t *object)
{
    puts(need_keep(json_dumps(object, 0)));
    json_decref(object);
}
