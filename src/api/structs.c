#include "api/structs.h"

#include <string.h>

static size_t size_of(const void *sized)
{
    size_t size;
    memcpy(&size, sized, sizeof(size));
    return size;
}

/* All but the size itself. */
static void copy_fields(void *to, const void *from, size_t size)
{
    memcpy((char *)to + sizeof(size), (const char *)from + sizeof(size), size - sizeof(size));
}

kiln_status kiln__hand_out(void *out, const void *full, size_t full_size)
{
    if (out == NULL)
        return KILN_OK;
    size_t size = size_of(out);
    if (size < sizeof(size))
        return KILN_EINVAL;
    copy_fields(out, full, size < full_size ? size : full_size);
    return KILN_OK;
}

enum { SIZE_MAX_EVER = 65536 }; /* no struct of the API will be larger: a size that was never set may say anything */

static bool is_zero(const void *given, size_t from, size_t to)
{
    const char *bytes = given;
    while (from < to && bytes[from] == 0)
        from++;
    return from >= to;
}

kiln_status kiln__take_in(void *full, size_t full_size, const void *given, const char *name, const char *stage,
                          kiln_report *report)
{
    if (given == NULL)
        return KILN_OK;
    size_t size = size_of(given);
    if (size < sizeof(size) || size > SIZE_MAX_EVER)
        return kiln__fail(report, KILN_EINVAL, stage, 0, "%s.size is %zu: initialise the struct with KILN_INIT(%s)",
                          name, size, name);
    if (!is_zero(given, full_size, size))
        return kiln__fail(report, KILN_EINVAL, stage, 0,
                          "%s.size is %zu, this library knows %zu bytes of it, and those beyond are not 0: the program "
                          "was built with a header newer than the library, which is %s",
                          name, size, full_size, kiln_version());
    copy_fields(full, given, size < full_size ? size : full_size);
    return KILN_OK;
}

kiln_status kiln__take_grid(kiln_grid *full, const kiln_kernel *kernel, const kiln_grid *grid, size_t size_count,
                            kiln_report *report)
{
    *full = (kiln_grid)KILN_INIT(kiln_grid);
    if (kernel->plan != NULL)
        return grid == NULL ? KILN_OK
                            : kiln__fail(report, KILN_EINVAL, KILN__STAGE_LAUNCH, 0,
                                         "the kernel's signature has the grid: grid must be NULL");
    if (grid == NULL || size_count > 0)
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_LAUNCH, 0,
                          "a function of a source takes a grid and no sizes");
    kiln_status status = kiln__take_in(full, sizeof(*full), grid, "kiln_grid", KILN__STAGE_LAUNCH, report);
    for (int i = 0; i < 3; i++) {
        full->grid[i] += full->grid[i] == 0;
        full->block[i] += full->block[i] == 0;
    }
    return status;
}
