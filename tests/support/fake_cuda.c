#include "support/fake_cuda.h"

#include <check.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

const char *kiln_fake_path(void)
{
    const char *path = getenv("KILN_FAKE_LIBCUDA");
    ck_assert_msg(path != NULL, "KILN_FAKE_LIBCUDA must name the stand-in driver");
    return path;
}

static void find(void *library, void *member, const char *name)
{
    void *address = dlsym(library, name);
    ck_assert_msg(address != NULL, "the stand-in driver has no %s", name);
    memcpy(member, &address, sizeof(address));
}

const kiln_fake *kiln_fake_open(void)
{
    static kiln_fake fake;
    void *library = dlopen(kiln_fake_path(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    ck_assert_msg(library != NULL, "cannot open the stand-in driver: %s", dlerror());
#define FIND(result, name, parameters) find(library, &fake.name, "kiln_fake_" #name);
    KILN_FAKE_CONTROLS(FIND)
#undef FIND
    dlclose(library);
    fake.reset();
    return &fake;
}
