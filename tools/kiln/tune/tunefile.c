#include "tune/tunefile.h"

#include <kiln/cache.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "text/spectext.h"

enum { NAME_ROOM = 72 };

static bool sets_geometry(const kiln_spec *spec)
{
    char *geometry = spectext_geometry(kiln_spec_text(spec));
    bool sets = *geometry != '\0';
    free(geometry);
    return sets;
}

/* sm_90 and sm_90a are. */
static bool same_architecture(const char *a, const char *b)
{
    size_t length = strcspn(a, "af");
    return strcspn(b, "af") == length && strncmp(a, b, length) == 0;
}

/* As docs/tuning.md says what is learnt: else nobody has tried to store the winner. */
static bool was_to_be_kept(const kiln_spec *spec, const tune_job *job, const kiln_tuning_info *info,
                           const kiln_device_info *device)
{
    const char *target = kiln_spec_field(spec, "target");
    bool complete =
        strcmp(info->end, "stopped") != 0 && info->regret >= 0 && info->variants > 1 && info->results[0]->samples > 0;
    return !job->no_learn && !job->hot && complete && !sets_geometry(spec) &&
           (!*target || same_architecture(target, device->target));
}

/* "nvidia-h200" of "NVIDIA H200" */
static void write_name(char out[NAME_ROOM], const char *model)
{
    size_t length = 0;
    for (const char *c = model; *c && length < NAME_ROOM - 1; c++) {
        char low = (char)(*c >= 'A' && *c <= 'Z' ? *c - 'A' + 'a' : *c);
        if ((low >= 'a' && low <= 'z') || (low >= '0' && low <= '9'))
            out[length++] = low;
        else if (length && out[length - 1] != '-')
            out[length++] = '-';
    }
    while (length && out[length - 1] == '-')
        length--;
    out[length] = '\0';
}

/* As the library tells the path: it may be relative to the working directory, and end with slashes. */
static char *absolute(const char *directory)
{
    char *here = *directory != '/' ? getcwd(NULL, 0) : NULL;
    char *path = need_format("%s%s%s", here ? here : "", here && strcmp(here, "/") != 0 ? "/" : "", directory);
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        path[--length] = '\0';
    free(here);
    return path;
}

char *tune_file(kiln_service *service, const kiln_spec *spec, const tune_job *job, const kiln_tuning_info *info)
{
    kiln_device *device = NULL;
    kiln_device_info facts = KILN_INIT(kiln_device_info);
    kiln_cache_info store = KILN_INIT(kiln_cache_info);
    char name[NAME_ROOM];
    if (*info->wisdom)
        return need_copy(info->wisdom);
    if (kiln_device_open(&device, service, info->device, NULL) || kiln_device_get_info(device, &facts) ||
        !was_to_be_kept(spec, job, info, &facts))
        return need_copy("");
    kiln_status status = kiln_cache_get_info(service, &store, NULL);
    if (status && status != KILN_EIO) /* which has the directory all the same */
        return need_copy("");
    write_name(name, facts.model);
    char *root = absolute(store.directory);
    char *file = need_format("%s/wisdom/%s.json", root, *name ? name : "device");
    free(root);
    return file;
}
