/* Shared libraries found and opened at run time. */
#ifndef KILN_OS_DYLIB_H
#define KILN_OS_DYLIB_H

#include <stdbool.h>
#include <stddef.h>

typedef struct kiln__dylib kiln__dylib;

/* Opens the first of `names` (NULL-terminated; paths or sonames for the loader's own search) that opens, RTLD_NOW
 * and RTLD_LOCAL. On failure NULL, `error` (size bytes) says why for each name tried, and errno is ENOENT; it is
 * ENOMEM if Kiln's own memory ran out, and EMFILE or ENFILE if descriptors did, so that nothing was found out. */
kiln__dylib *kiln__dylib_open(const char *const *names, char *error, size_t size);

/* Whether a library is loaded under this very name. */
bool kiln__dylib_is_loaded(const char *name);

/* Closes it; NULL is allowed. */
void kiln__dylib_close(kiln__dylib *library);

/* Keeps it loaded for the rest of the process, closed or not. False: the loader does not find it again by its name. */
bool kiln__dylib_pin(const kiln__dylib *library);

/* The same for the shared library that an address lies in. True where that is a program, which stays loaded anyway. */
bool kiln__dylib_pin_own(const void *address);

/* Address of a symbol, NULL if missing. */
void *kiln__dylib_symbol(kiln__dylib *library, const char *name);

/* Makes the library call `to` instead of the function of another library that it imports as `name`. The caller
 * guarantees that `to` fits. Calls that are made meanwhile see one or the other. False: no import of that name. */
bool kiln__dylib_redirect(const kiln__dylib *library, const char *name, void *to);

/* The name that the loader opened the file by: a path, absolute unless a relative one was asked for; "" if it does
 * not tell. Borrowed. */
const char *kiln__dylib_name(const kiln__dylib *library);

/* The absolute path of that file, links resolved; "" if the loader does not tell. Borrowed. Not for two threads at
 * once. */
const char *kiln__dylib_path(kiln__dylib *library);

#endif
