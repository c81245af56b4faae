/* Units made by hand, as users' own sources will be, and a look at the processes and files that this one has. For
 * suites that include support/temp.h. */
#ifndef KILN_TESTS_SUPPORT_FOREIGN_H
#define KILN_TESTS_SUPPORT_FOREIGN_H

#include "spec/unit.h"
#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A unit for sm_90 with the stand-in NVRTC's two entry points; borrows `source`. */
static inline kiln__unit foreign_unit(char *source)
{
    static char spec[] = "a foreign unit";
    kiln__unit unit = { .spec = spec, .source = source, .source_length = strlen(source), .foreign = true };
    ck_assert(kiln__target_parse("sm_90", 5, &unit.target));
    unit.rule = (kiln__rule){ .block = { 128, 1, 1 }, .tile = 512, .entry_count = 2 };
    strcpy(unit.rule.entries[0].name, "kiln_vector");
    strcpy(unit.rule.entries[1].name, "kiln_scalar");
    unit.rule.entries[0].align = unit.rule.entries[1].align = 4;
    return unit;
}

/* The children of this process, zombies included; returns how many there are. */
static inline int list_children(pid_t *out, int most)
{
    char path[64];
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    ck_assert_ptr_nonnull(tasks);
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
        int pid;
        snprintf(path, sizeof(path), "/proc/self/task/%.20s/children", task->d_name);
        FILE *file = task->d_name[0] != '.' ? fopen(path, "r") : NULL;
        while (file != NULL && fscanf(file, "%d", &pid) == 1) {
            if (count < most)
                out[count] = pid;
            count++;
        }
        if (file != NULL)
            fclose(file);
    }
    closedir(tasks);
    return count;
}

/* The one child of this process. */
static inline pid_t only_child(void)
{
    pid_t pid = 0;
    ck_assert_int_eq(list_children(&pid, 1), 1);
    return pid;
}

static inline int count_descriptors(void)
{
    int count = 0;
    DIR *list = opendir("/proc/self/fd");
    ck_assert_ptr_nonnull(list);
    while (readdir(list) != NULL)
        count++;
    closedir(list);
    return count;
}

/* Whether a process has mapped a file whose path has `name` in it; pid 0 is this one. */
static inline bool has_mapped(pid_t pid, const char *name)
{
    char line[4096], path[64];
    bool found = false;
    if (pid == 0)
        snprintf(path, sizeof(path), "/proc/self/maps");
    else
        snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
    FILE *file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    while (fgets(line, sizeof(line), file) != NULL)
        found = found || strstr(line, name) != NULL;
    fclose(file);
    return found;
}

/* Dead, or a zombie that nobody has reaped yet. */
static inline bool is_dead(pid_t pid)
{
    char path[64], line[512] = "";
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return true;
    const char *read = fgets(line, sizeof(line), file);
    fclose(file);
    const char *end = read != NULL ? strrchr(line, ')') : NULL;
    return end == NULL || end[2] == 'Z' || end[2] == 'X';
}

#endif
