#include "kiln-worker/sandbox_parts.h"

#include "base/alloc.h"
#include "base/text.h"
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void free_paths(char **paths)
{
    for (size_t i = 0; paths[i] != NULL; i++)
        kiln__free(paths[i]);
    kiln__free(paths);
}

/* A resolved copy. NULL with a reason. */
static char **resolve(const char *const *allowed, char *reason, size_t size)
{
    static const char *const none[] = { NULL };
    size_t count = 0, kept = 0;
    char resolved[PATH_MAX];
    allowed = allowed != NULL ? allowed : none;
    while (allowed[count] != NULL)
        count++;
    char **paths = kiln__calloc(count + 1, sizeof(*paths));
    bool failed = paths == NULL;
    reason[0] = '\0';
    for (size_t i = 0; i < count && !failed && reason[0] == '\0'; i++) {
        if (allowed[i][0] != '/')
            snprintf(reason, size, "'%s' is no absolute path", allowed[i]);
        else if (realpath(allowed[i], resolved) != NULL)
            failed = (paths[kept++] = kiln__strdup(resolved)) == NULL;
    }
    if (failed)
        kiln__text_copy(reason, size, "out of memory");
    if (reason[0] == '\0')
        return paths;
    if (paths != NULL)
        free_paths(paths);
    return NULL;
}

/* What the C library would open by itself later on, past the calls: the time zone, which __TIME__ needs, and the
 * library by which a thread ends itself. */
static void load_late_files(void)
{
    tzset();
    if (dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_LOCAL) == NULL)
        dlerror();
}

bool kiln__sandbox_enter_nets(unsigned nets, const char *const *allowed, char *reason, size_t size)
{
    static bool entered;
    if (entered) {
        kiln__text_copy(reason, size, "the sandbox has been entered before");
        return false;
    }
    if ((nets & KILN__SANDBOX_CALLS) != 0 && !kiln__calls_are_in_place(reason, size))
        return false;
    char **paths = resolve(allowed, reason, size);
    if (paths == NULL)
        return false;
    load_late_files();
    kiln__text_copy(reason, size, "no Landlock asked for");
    bool calls = (nets & KILN__SANDBOX_CALLS) != 0;
    bool kernel = (nets & KILN__SANDBOX_KERNEL) != 0 && kiln__landlock_enter(paths, reason, size);
    if (calls)
        kiln__judge_start(paths);
    else
        free_paths(paths);
    entered = calls || kernel;
    return entered;
}

bool kiln__sandbox_enter(const char *const *allowed, char *reason, size_t size)
{
    return kiln__sandbox_enter_nets(KILN__SANDBOX_CALLS | KILN__SANDBOX_KERNEL, allowed, reason, size);
}

bool kiln__sandbox_enter_places(const kiln__list *places, char *reason, size_t size)
{
    static kiln__list kept;
    const char **paths = kiln__list_array(places, 1, 2);
    if (paths == NULL || !kiln__list_read(&kept, places->bytes.data, places->bytes.length)) {
        kiln__free(paths);
        kiln__text_copy(reason, size, "out of memory");
        return false;
    }
    kiln__judge_set_places(&kept);
    bool entered = kiln__sandbox_enter(paths, reason, size);
    kiln__free(paths);
    return entered;
}
