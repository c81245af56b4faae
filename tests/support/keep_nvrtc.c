/* LeakSanitizer goes on looking at the thread-local data of a library that has been closed, and crashes where these were large.
 * NVRTC's are: here it stays once it is open. */
#include <dlfcn.h>
#include <link.h>
#include <string.h>

int __real_dlclose(void *handle);
int __wrap_dlclose(void *handle);

int __wrap_dlclose(void *handle)
{
    struct link_map *map = NULL;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && strstr(map->l_name, "libnvrtc") != NULL)
        return 0;
    return __real_dlclose(handle);
}
