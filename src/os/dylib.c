/* Shared libraries by dlopen, and the redirection of one import. */
#include "os/dylib.h"

#include "base/alloc.h"
#include "base/text.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct kiln__dylib {
    void *handle;
    const char *name; /* the loader's; "" if it does not tell */
    char *path;       /* of that name by realpath; NULL until the first call of kiln__dylib_path */
};

static void *open_first(const char *const *names, kiln__text *reasons)
{
    for (size_t i = 0; names[i]; i++) {
        /* The empty name would open the host program itself. */
        void *handle = names[i][0] ? dlopen(names[i], RTLD_NOW | RTLD_LOCAL) : NULL;
        if (handle)
            return handle;
        const char *reason = names[i][0] ? dlerror() : "the name is empty";
        kiln__text_printf(reasons, "%s%s", reasons->length ? "; " : "", reason ? reason : names[i]);
    }
    return NULL;
}

static const char *name_of(void *handle)
{
    struct link_map *map = NULL;
    return dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map->l_name ? map->l_name : "";
}

/* EMFILE or ENFILE where no file can be opened, else 0. The loader must not be asked then: it would take its list of
 * libraries for missing, for as long as the process lives. */
static int descriptor_shortage(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == EMFILE || errno == ENFILE ? errno : 0;
    close(fd);
    return 0;
}

kiln__dylib *kiln__dylib_open(const char *const *names, char *error, size_t size)
{
    kiln__text reasons = { 0 };
    int shortage = descriptor_shortage();
    kiln__dylib *library = shortage ? NULL : kiln__calloc(1, sizeof *library);
    if (!library) {
        kiln__text_copy(error, size, shortage ? strerrordesc_np(shortage) : "out of memory");
        errno = shortage ? shortage : ENOMEM;
        return NULL;
    }
    library->handle = open_first(names, &reasons);
    if (library->handle) {
        library->name = name_of(library->handle);
    } else {
        kiln__text_copy(error, size, reasons.length ? kiln__text_string(&reasons) : "no name to try");
        kiln__dylib_close(library);
        library = NULL;
        shortage = descriptor_shortage(); /* another thread may have taken the last one */
    }
    kiln__text_fini(&reasons);
    if (!library)
        errno = shortage ? shortage : ENOENT;
    return library;
}

static bool touch_library(const char *name, int flags)
{
    void *handle = dlopen(name, RTLD_NOW | RTLD_NOLOAD | flags);
    if (handle)
        dlclose(handle);
    return handle != NULL;
}

bool kiln__dylib_is_loaded(const char *name)
{
    return touch_library(name, 0);
}

bool kiln__dylib_pin(const kiln__dylib *library)
{
    return library->name[0] && touch_library(library->name, RTLD_NODELETE);
}

bool kiln__dylib_pin_own(const void *address)
{
    Dl_info info;
    struct link_map *map = NULL;
    if (dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP) == 0 || map == NULL || map->l_name == NULL)
        return false;
    return map->l_name[0] == '\0' || touch_library(map->l_name, RTLD_NODELETE);
}

void kiln__dylib_close(kiln__dylib *library)
{
    if (!library)
        return;
    if (library->handle)
        dlclose(library->handle);
    free(library->path);
    kiln__free(library);
}

void *kiln__dylib_symbol(kiln__dylib *library, const char *name)
{
    return dlsym(library->handle, name);
}

/* The parts of a library's dynamic section that lead to its imports. */
typedef struct imports {
    const ElfW(Rela) * tables[2]; /* of calls, of addresses */
    size_t sizes[2];
    const ElfW(Sym) * symbols;
    const char *names;
} imports;

static imports imports_of(const struct link_map *map)
{
    imports out = { 0 };
    for (const ElfW(Dyn) *row = map->l_ld; row->d_tag != DT_NULL; row++)
        if (row->d_tag == DT_JMPREL)
            out.tables[0] = (const void *)row->d_un.d_ptr;
        else if (row->d_tag == DT_PLTRELSZ)
            out.sizes[0] = row->d_un.d_val;
        else if (row->d_tag == DT_RELA)
            out.tables[1] = (const void *)row->d_un.d_ptr;
        else if (row->d_tag == DT_RELASZ)
            out.sizes[1] = row->d_un.d_val;
        else if (row->d_tag == DT_SYMTAB)
            out.symbols = (const void *)row->d_un.d_ptr;
        else if (row->d_tag == DT_STRTAB)
            out.names = (const void *)row->d_un.d_ptr;
    return out;
}

/* The loader may have made the page read-only once it had filled it. */
static bool overwrite(void **slot, void *to)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)slot & ~(page - 1);
    if (mprotect((void *)start, page, PROT_READ | PROT_WRITE) != 0)
        return false;
    __atomic_store_n(slot, to, __ATOMIC_RELEASE);
    return true;
}

bool kiln__dylib_redirect(const kiln__dylib *library, const char *name, void *to)
{
    struct link_map *map = NULL;
    bool found = false;
    if (dlinfo(library->handle, RTLD_DI_LINKMAP, &map) != 0)
        return false;
    imports of = imports_of(map);
    for (int i = 0; i < 2 && !found && of.symbols != NULL && of.names != NULL; i++)
        for (size_t k = 0; k < of.sizes[i] / sizeof(*of.tables[i]); k++) {
            uint32_t symbol = (uint32_t)(of.tables[i][k].r_info >> 32);
            if (symbol != 0 && strcmp(of.names + of.symbols[symbol].st_name, name) == 0)
                found |= overwrite((void **)(map->l_addr + of.tables[i][k].r_offset), to);
        }
    return found;
}

const char *kiln__dylib_name(const kiln__dylib *library)
{
    return library->name;
}

/* Links are resolved only now: a system call for each part of the path is most of the cost of opening a loaded
 * library. */
const char *kiln__dylib_path(kiln__dylib *library)
{
    if (!library->path && library->name[0])
        library->path = realpath(library->name, NULL);
    return library->path ? library->path : "";
}
