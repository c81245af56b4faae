/* JSON results: values that cannot fail (out of memory ends the command), and one object on stdout. */
#ifndef KILN_TOOLS_JSONOUT_H
#define KILN_TOOLS_JSONOUT_H

#include <stdint.h>

#include <jansson.h>

json_t *json_new(void);
json_t *json_list(void);

/* Text; bytes that are not UTF-8 become '?'. For json_put and json_add. */
json_t *json_text(const char *text);
void json_put_text(json_t *object, const char *key, const char *text);
void json_put_count(json_t *object, const char *key, uint64_t count);

/* A number that reads back as the same double; null if it is not finite. */
void json_put_real(json_t *object, const char *key, double value);
void json_put_bool(json_t *object, const char *key, int value);
void json_put_null(json_t *object, const char *key);

/* A count of which -1 says that it is not known: null. */
void json_put_known(json_t *object, const char *key, int count);

/* Takes over `value`. */
void json_put(json_t *object, const char *key, json_t *value);
void json_add(json_t *list, json_t *value);

/* Prints the object on one line of stdout and frees it. */
void json_print(json_t *object);

#endif
