/* Says in one line why a process probably ends in a launch. The library installs no handler of signals, but the command
 * may: its launches of user-defined twins are the only code of others that runs in it. */
#include "kernels/crash.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "kernels/argvalues.h"

enum { LINE = 1024, STACK = 1 << 16 };

/* Filled before a launch, because a handler allocates nothing. */
static struct fault {
    int number;
    const char *name;
    struct sigaction before;
    char line[LINE];
} faults[] = {
    { .number = SIGSEGV, .name = "SIGSEGV" },
    { .number = SIGBUS, .name = "SIGBUS" },
    { .number = SIGFPE, .name = "SIGFPE" },
    { .number = SIGILL, .name = "SIGILL" },
};
static atomic_flag told = ATOMIC_FLAG_INIT;
static bool watching;

/* A search for the template that a spec names. */
typedef struct template_file {
    const char *name;
    char *twin; /* its file, or NULL */
} template_file;

static int find_twin(void *data, const kiln_template_info *info)
{
    template_file *search = data;
    if (strcmp(info->name, search->name) == 0 && strchr(info->origin, '/') && info->has_twin)
        search->twin = need_format("%.*s", (int)strlen(info->origin) - 1, info->origin);
    return 0;
}

char *crash_question(kiln_service *service, const kiln_spec *spec)
{
    template_file search = { .name = kiln_spec_field(spec, "template") };
    const kiln_signature *signature = spec_signature(spec);
    char *names = need_copy("");
    if (kiln_templates(service, find_twin, &search) != KILN_OK || !search.twin)
        return NULL;
    for (size_t i = 0; i < signature->param_count; i++)
        text_append(&names, ", ", "%s", signature->params[i]->name);
    return need_format("does %s read more than the %zu argument%s that the template declares (%s), or beyond an array?",
                       search.twin, signature->param_count, signature->param_count == 1 ? "" : "s", names);
}

/* The handler before this one ends the process, with the status of the signal. Other threads that fault meanwhile run
 * into this handler again until it is gone. */
static void tell_fault(int number)
{
    for (size_t i = 0; i < COUNT_OF(faults); i++) {
        const struct fault *one = &faults[i];
        if (one->number != number || atomic_flag_test_and_set(&told))
            continue;
        ssize_t written = write(STDERR_FILENO, one->line, strlen(one->line));
        (void)written;
        sigaction(number, &one->before, NULL);
        raise(number);
    }
}

void crash_watch(const char *question)
{
    static char stack[STACK]; /* for a stack that overflows; a sanitizer has given the thread one */
    const stack_t other = { .ss_sp = stack, .ss_size = sizeof(stack) };
    stack_t before = { .ss_flags = SS_DISABLE };
    struct sigaction action = { .sa_handler = tell_fault, .sa_flags = SA_ONSTACK };
    crash_forget();
    if (!question)
        return;
    sigaltstack(NULL, &before);
    if ((before.ss_flags & SS_DISABLE) != 0)
        sigaltstack(&other, NULL);
    for (size_t i = 0; i < COUNT_OF(faults); i++) {
        struct fault *one = &faults[i];
        snprintf(one->line, sizeof(one->line), "kiln: a launch ended the process (%s): %s\n", one->name, question);
        sigaction(one->number, &action, &one->before);
    }
    watching = true;
}

void crash_forget(void)
{
    for (size_t i = 0; i < COUNT_OF(faults) && watching; i++)
        sigaction(faults[i].number, &faults[i].before, NULL);
    watching = false;
}
