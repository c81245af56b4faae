#include "run/specchange.h"

#include <stdlib.h>

#include "cli/common.h"

kiln_status spec_change(kiln_spec **spec, const char *fields, kiln_report *report)
{
    kiln_spec *changed;
    kiln_status status = kiln_spec_with(&changed, *spec, fields, report);
    if (status)
        return status;
    kiln_spec_free(*spec);
    *spec = changed;
    return KILN_OK;
}

kiln_status spec_set(kiln_spec **spec, const char *field, const char *value, kiln_report *report)
{
    char *fields = need_format("%s=%s", field, value);
    kiln_status status = spec_change(spec, fields, report);
    free(fields);
    return status;
}
