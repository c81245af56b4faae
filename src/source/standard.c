#include "source/standard.h"

#include "base/digest.h"
#include "source/reads.h"
#include "spec/embedded.h"
#include <pthread.h>
#include <string.h>

/* Whether ours is taken wherever the compiler would find one: CUDA's own files of these names hold what NVRTC has
 * built in, or what it refuses. */
static bool is_always_ours(const char *name)
{
    static const char *const names[] = { "cuda_runtime.h", "device_launch_parameters.h", "cuda.h", "cub/cub.cuh" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

static bool has_own(const kiln__unit *source, const char *name)
{
    const char *own = NULL, *text;
    while (kiln__list_next_pair(&source->headers, &own, &text))
        if (strcmp(own, name) == 0)
            return true;
    return false;
}

/* Lines that include the file `name` of the first of the user's directories that has one: what the compiler has in
 * memory hides all files of that name, but not their paths. These places are called by a number. False if there is
 * none. */
static bool add_search(kiln__text *out, const kiln__unit *source, const char *name)
{
    const char *place = NULL, *path;
    bool asked = false;
    while (kiln__list_next_pair(&source->places, &place, &path)) {
        if (*place < '0' || *place > '9')
            continue;
        kiln__text_printf(out, "#%s __has_include(\"%s/%s/%s\")\n#include \"%s/%s/%s\"\n", asked ? "elif" : "if",
                          KILN__READS_ROOT, place, name, KILN__READS_ROOT, place, name);
        asked = true;
    }
    return asked;
}

static void add_header(kiln__list *out, const kiln__unit *source, const kiln__embedded_file *file)
{
    kiln__text text = { 0 };
    bool asked = !is_always_ours(file->name) && add_search(&text, source, file->name);
    kiln__text_printf(&text, "%s%s%s", asked ? "#else\n" : "", file->text, asked ? "#endif\n" : "");
    kiln__list_add(out, file->name);
    kiln__list_add(out, kiln__text_string(&text));
    out->bytes.failed = out->bytes.failed || text.failed;
    kiln__text_fini(&text);
}

void kiln__standard_headers(const kiln__unit *source, kiln__list *out)
{
    for (const char *at = NULL; (at = kiln__list_next(&source->headers, at)) != NULL;)
        kiln__list_add(out, at);
    for (size_t i = 0; i < kiln__standard_count; i++)
        if (!has_own(source, kiln__standard_files[i].name))
            add_header(out, source, &kiln__standard_files[i]);
}

/* ---- What they are, for keys */

static char id[KILN__DIGEST_HEX];
static pthread_once_t id_once = PTHREAD_ONCE_INIT;

/* Each digest covers the one before it, so that the order counts too. */
static void fold(uint8_t chain[KILN__DIGEST_SIZE], const void *bytes, size_t length)
{
    uint8_t both[2 * KILN__DIGEST_SIZE];
    memcpy(both, chain, KILN__DIGEST_SIZE);
    kiln__digest(both + KILN__DIGEST_SIZE, bytes, length);
    kiln__digest(chain, both, sizeof(both));
}

static void make_id(void)
{
    uint8_t chain[KILN__DIGEST_SIZE] = { 0 };
    for (size_t i = 0; i < kiln__standard_count; i++) {
        const kiln__embedded_file *file = &kiln__standard_files[i];
        fold(chain, file->name, strlen(file->name));
        fold(chain, file->text, file->length);
    }
    kiln__digest_hex(id, chain);
}

const char *kiln__standard_id(void)
{
    pthread_once(&id_once, make_id);
    return id;
}
