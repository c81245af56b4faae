/* Sources of users' own: checked, copied, and what of them decides the compiled bytes. Pure: no file is looked at. */
#ifndef KILN_SOURCE_SOURCE_H
#define KILN_SOURCE_SOURCE_H

#include "base/digest.h"
#include "base/list.h"
#include "spec/unit.h"
#include <kiln/source.h>

/* Checks what the caller gave and copies it; places stay empty. KILN_EINVAL, KILN_ETARGET ("cpu"), KILN_ENOMEM. Any
 * other target is the caller's to set where source->target is NULL. */
kiln_status kiln__source_make(kiln__unit **out, const kiln_source *given, kiln_report *report);

/* Sets the target, and the text by which the unit is known to people. KILN_ENOMEM. */
kiln_status kiln__source_set_target(kiln__unit *unit, const kiln__target *target);

/* Appends the text of everything that decides the compiled bytes but the contents of files: `options` are those that
 * every such source is compiled with. Paths of directories are not in it. */
void kiln__source_key_text(kiln__text *out, const kiln__unit *unit, const char *options);

/* Fills unit->id from all that it has, places included. KILN_ENOMEM. */
kiln_status kiln__source_identify(kiln__unit *unit);

/* A compiler's log as the user is to see it: paths of places are those of the directories, and the file is called as
 * the user calls it. Of a template's unit a copy. NULL: out of memory. */
char *kiln__source_show_log(const kiln__unit *unit, const char *log);

#endif
