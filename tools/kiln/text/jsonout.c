#include "text/jsonout.h"

#include <math.h>
#include <stdlib.h>

#include "cli/common.h"

static void must(int good)
{
    if (!good) {
        fail(STATUS_FAILED, "out of memory");
        exit(STATUS_FAILED);
    }
}

json_t *json_new(void)
{
    json_t *object = json_object();
    must(object != NULL);
    return object;
}

json_t *json_list(void)
{
    json_t *list = json_array();
    must(list != NULL);
    return list;
}

void json_put(json_t *object, const char *key, json_t *value)
{
    must(value && json_object_set_new(object, key, value) == 0);
}

void json_add(json_t *list, json_t *value)
{
    must(value && json_array_append_new(list, value) == 0);
}

json_t *json_text(const char *text)
{
    json_t *value = json_string(text);
    if (!value) {
        char *plain = need_copy(text);
        for (char *c = plain; *c; c++)
            if ((unsigned char)*c >= 0x80)
                *c = '?';
        value = json_string(plain);
        free(plain);
    }
    return value;
}

void json_put_text(json_t *object, const char *key, const char *text)
{
    json_put(object, key, json_text(text));
}

void json_put_count(json_t *object, const char *key, uint64_t count)
{
    json_put(object, key, json_integer(count > INT64_MAX ? INT64_MAX : (json_int_t)count));
}

void json_put_real(json_t *object, const char *key, double value)
{
    json_put(object, key, isfinite(value) ? json_real(value) : json_null());
}

void json_put_bool(json_t *object, const char *key, int value)
{
    json_put(object, key, json_boolean(value));
}

void json_put_null(json_t *object, const char *key)
{
    json_put(object, key, json_null());
}

void json_put_known(json_t *object, const char *key, int count)
{
    json_put(object, key, count >= 0 ? json_integer(count) : json_null());
}

void json_print(json_t *object)
{
    char *text = json_dumps(object, 0);
    must(text != NULL);
    puts(text);
    free(text);
    json_decref(object);
}
