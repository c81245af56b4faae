/* Targets: "sm_90", "sm_90a", "sm_100f" or "cpu". Says what a name means, not who can build it. */
#ifndef KILN_TEMPLATE_TARGET_H
#define KILN_TEMPLATE_TARGET_H

#include <stdbool.h>
#include <stddef.h>

enum { KILN__TARGET_SIZE = 16 };

typedef struct kiln__target {
    int sm;      /* 90 for sm_90; 0 for the cpu */
    char suffix; /* 'a', 'f' or '\0' */
    char name[KILN__TARGET_SIZE];
} kiln__target;

/* False if the text is not a target's name (sm_ with two or three digits and an optional a or f, or cpu). */
bool kiln__target_parse(const char *text, size_t length, kiln__target *out);
bool kiln__target_is_cpu(const kiln__target *target);

#endif
