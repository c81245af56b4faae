/* JSON results: values, which never fail, and one object on stdout. Memory is the command's. */
#ifndef KILN_TOOLS_JSONOUT_H
#define KILN_TOOLS_JSONOUT_H

#include <stdint.h>

#include <jansson.h>

/* An object of members, each a name (const char *) and a value (json_t *), which the object takes over; NULL ends them:
 * json_new("file", json_text(path), "bytes", json_count(bytes), NULL). */
json_t *json_new(const char *name, ...) __attribute__((sentinel));

/* Adds members to an object in the same way. */
void json_put(json_t *object, const char *name, ...) __attribute__((sentinel));

/* Adds a value, which is taken over, to a list. */
void json_add(json_t *list, json_t *value);

/* Text; bytes that are not UTF-8 become '?'. NULL is null. */
json_t *json_text(const char *text);

json_t *json_count(uint64_t count);

/* A count of which -1 says that it is not known: null. */
json_t *json_known(int count);

/* A number that reads back as the same double; null if it is not finite. */
json_t *json_number(double value);

/* Prints the object on one line of stdout and frees it. */
void json_print(json_t *object);

#endif
