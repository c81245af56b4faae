/* Headers of .npy files: the dictionary, and whole files through npy_open. */
#include "fuzz/command.h"
#include "fuzz/fuzz.h"

#include "cli/common.h"
#include "files/npy.h"
#include <sys/mman.h>
#include <unistd.h>

/* What was read can be written and read again. */
static void require_round_trip(const npy_array *array)
{
    char *header = NULL;
    npy_array again = { .path = "again" };
    size_t length = npy_header(&header, array);
    char *start = memchr(header, '{', length);
    FUZZ_REQUIRE(start != NULL && length % 64 == 0, "a header of whole blocks");
    FUZZ_REQUIRE(npy_parse_header(&again, start, length - (size_t)(start - header)) == STATUS_DONE,
                 "a header that was written is read");
    FUZZ_REQUIRE(npy_same_shape(array, &again) && memcmp(array->descr, again.descr, sizeof(again.descr)) == 0 &&
                     array->bytes == again.bytes && array->elements == again.elements,
                 "a header comes back");
}

static void require_sound(const npy_array *array)
{
    FUZZ_REQUIRE(array->dimensions <= NPY_MOST_DIMENSIONS && array->bytes <= INT64_MAX &&
                     array->bytes == array->elements * array->element_size,
                 "the sizes fit");
    const dtype *type = dtype_of_descr(array->descr);
    FUZZ_REQUIRE(type && type->size == array->element_size, "a known type");
    FUZZ_REQUIRE(!array->fortran || (array->dimensions > 1 && array->elements > 3), "an array with two orders");
    FUZZ_REQUIRE(!array->big_endian || array->element_size > 1, "an element with two orders");
    require_round_trip(array);
}

/* The place of an element in the file, by its place in C order. */
static uint64_t place_in_file(const npy_array *array, uint64_t element)
{
    uint64_t place = 0, stride = array->elements;
    if (!array->fortran)
        return element;
    for (uint32_t d = array->dimensions; d-- > 0; element /= array->shape[d]) {
        stride /= array->shape[d];
        place += element % array->shape[d] * stride;
    }
    return place;
}

/* Element by element, as a reader would do it that need not be fast. */
static void require_values(const npy_array *array, const uint8_t *file, const uint8_t *values)
{
    uint32_t size = array->element_size;
    for (uint64_t i = 0; i < array->elements; i++)
        for (uint32_t k = 0; k < size; k++) {
            uint32_t byte = array->big_endian ? size - 1 - k : k;
            FUZZ_REQUIRE(values[i * size + k] == file[place_in_file(array, i) * size + byte], "the file's values");
        }
}

static void open_file(const uint8_t *data, size_t size)
{
    char path[64];
    npy_array array;
    int fd = memfd_create("npy", MFD_CLOEXEC);
    FUZZ_REQUIRE(fd >= 0 && write(fd, data, size) == (ssize_t)size, "a file in memory");
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (npy_open(&array, path) == STATUS_DONE) {
        require_sound(&array);
        FUZZ_REQUIRE(array.bytes <= size, "no more data than the file holds");
        uint8_t *values = need_alloc(array.bytes);
        FUZZ_REQUIRE(npy_read(&array, values) == STATUS_DONE, "what was checked can be read");
        require_values(&array, data + size - array.bytes, values);
    }
    npy_close(&array);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    npy_array array = { .path = "input" };
    if (npy_parse_header(&array, (const char *)data, size) == STATUS_DONE)
        require_sound(&array);
    open_file(data, size);
    command_end();
    return 0;
}
