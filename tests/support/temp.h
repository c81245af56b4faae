/* A temporary directory for each test of a case, removed afterwards, also when the test fails or crashes. */
#ifndef KILN_TESTS_SUPPORT_TEMP_H
#define KILN_TESTS_SUPPORT_TEMP_H

#include <check.h>
#include <stddef.h>

/* Gives every test of the case an empty directory (mode 0700) of its own. */
void kiln_test_temp_use(TCase *tcase);

/* Absolute path of the current test's directory. */
const char *kiln_test_temp_dir(void);

/* Absolute path of a name in it; valid for the next 15 calls. Not for several threads at once. */
const char *kiln_test_temp_path(const char *name);

/* Writes a file in it (mode 0600), whatever was there. Fails the test if it cannot. */
void kiln_test_temp_write(const char *name, const void *bytes, size_t length);

/* How many names there are in a directory of it ("." for the directory itself). */
int kiln_test_temp_count(const char *name);

/* Removes a file or a directory with all in it, links not followed; it need not exist. */
void kiln_test_temp_remove(const char *path);

#endif
