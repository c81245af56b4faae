#include "files/draft.h"

#include <stdlib.h>

#include "cli/common.h"

static void need(bool there)
{
    if (!there)
        exit(fail(STATUS_FAILED, "out of memory"));
}

void draft_begin(struct draft *out)
{
    *out = (struct draft){ .text = NULL };
    out->stream = open_memstream(&out->text, &out->length);
    need(out->stream);
}

void draft_end(struct draft *draft)
{
    need(fflush(draft->stream) == 0 && !ferror(draft->stream));
}

void draft_drop(struct draft *draft)
{
    if (draft->stream)
        fclose(draft->stream);
    free(draft->text);
    *draft = (struct draft){ .stream = NULL };
}
