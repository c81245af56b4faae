#include "draft.h"

#include <stdlib.h>

#include "common.h"

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

int draft_commit(struct draft *draft, struct output *output)
{
    need(fflush(draft->stream) == 0 && !ferror(draft->stream));
    int status = output_write(output, draft->text, draft->length);
    return status ? status : output_commit(output);
}

void draft_drop(struct draft *draft)
{
    if (draft->stream)
        fclose(draft->stream);
    free(draft->text);
    *draft = (struct draft){ .stream = NULL };
}
