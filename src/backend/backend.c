#include "backend/backend.h"

const kiln__backend_open_fn kiln__backend_open[KILN__BACKEND_END] = {
#define ROW(id, name, prefix, numbered, section, twin, words) kiln__##name##_open,
    KILN__BACKENDS(ROW)
#undef ROW
};

const kiln__compiler_open_fn kiln__compiler_open[KILN__BACKEND_END] = {
#define ROW(id, name, prefix, numbered, section, twin, words) kiln__##name##_compiler_open,
    KILN__BACKENDS(ROW)
#undef ROW
};
