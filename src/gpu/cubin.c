#include "gpu/cubin.h"

#include <stdio.h>
#include <string.h>

enum { MACHINE_CUDA = 190 };

bool kiln__cubin_check(const void *bytes, size_t length, char reason[KILN__CUBIN_REASON_SIZE])
{
    if (!kiln__elf_check(bytes, length, MACHINE_CUDA, reason))
        return false;
    Elf64_Ehdr header = kiln__elf_header(bytes);
    if (header.e_shstrndx < header.e_shnum)
        return true;
    snprintf(reason, KILN__CUBIN_REASON_SIZE, "its sections have no names");
    return false;
}

bool kiln__cubin_has_entry(const void *bytes, const char *name)
{
    static const char prefix[] = ".text.";
    const size_t prefix_length = sizeof(prefix) - 1, size = prefix_length + strlen(name) + 1;
    Elf64_Ehdr header = kiln__elf_header(bytes);
    Elf64_Shdr names = kiln__elf_section(bytes, header.e_shstrndx);
    for (unsigned i = 0; i < header.e_shnum; i++) {
        Elf64_Shdr section = kiln__elf_section(bytes, i);
        if (names.sh_type != SHT_STRTAB || !kiln__elf_within(section.sh_name, size, names.sh_size) ||
            section.sh_size == 0)
            continue;
        const char *text = (const char *)bytes + names.sh_offset + section.sh_name;
        if (memcmp(text, prefix, prefix_length) == 0 && memcmp(text + prefix_length, name, size - prefix_length) == 0)
            return true;
    }
    return false;
}
