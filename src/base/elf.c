/* Checks of ELF headers against the length of the file. */
#include "base/elf.h"

#include <stdio.h>
#include <string.h>

bool kiln__elf_within(uint64_t offset, uint64_t size, uint64_t length)
{
    return offset <= length && size <= length - offset;
}

Elf64_Ehdr kiln__elf_header(const void *bytes)
{
    Elf64_Ehdr header;
    memcpy(&header, bytes, sizeof(header));
    return header;
}

Elf64_Shdr kiln__elf_section(const void *bytes, unsigned index)
{
    Elf64_Shdr section;
    size_t offset = kiln__elf_header(bytes).e_shoff + index * sizeof(section);
    memcpy(&section, (const char *)bytes + offset, sizeof(section));
    return section;
}

static const char *refuse_header(const Elf64_Ehdr *header)
{
    const unsigned char *ident = header->e_ident;
    if (memcmp(ident, ELFMAG, SELFMAG) != 0)
        return "it is not an ELF file";
    if (ident[EI_CLASS] != ELFCLASS64 || ident[EI_DATA] != ELFDATA2LSB)
        return "it is not a 64-bit little-endian ELF file";
    if (header->e_shnum != 0 && header->e_shentsize != sizeof(Elf64_Shdr))
        return "its section table is malformed";
    if (header->e_phnum != 0 && header->e_phentsize != sizeof(Elf64_Phdr))
        return "its segment table is malformed";
    return NULL;
}

/* The part of the file that lies beyond its end; NULL if none does. */
static const char *find_beyond(const void *bytes, size_t length, const Elf64_Ehdr *header)
{
    if (!kiln__elf_within(header->e_shoff, (uint64_t)header->e_shnum * sizeof(Elf64_Shdr), length))
        return "the section table";
    if (!kiln__elf_within(header->e_phoff, (uint64_t)header->e_phnum * sizeof(Elf64_Phdr), length))
        return "the segment table";
    for (unsigned i = 0; i < header->e_shnum; i++) {
        Elf64_Shdr section = kiln__elf_section(bytes, i);
        if (section.sh_type != SHT_NULL && section.sh_type != SHT_NOBITS &&
            !kiln__elf_within(section.sh_offset, section.sh_size, length))
            return "a section";
    }
    for (unsigned i = 0; i < header->e_phnum; i++) {
        Elf64_Phdr segment;
        memcpy(&segment, (const char *)bytes + header->e_phoff + i * sizeof(segment), sizeof(segment));
        if (!kiln__elf_within(segment.p_offset, segment.p_filesz, length))
            return "a segment";
    }
    return NULL;
}

bool kiln__elf_check(const void *bytes, size_t length, unsigned machine, char reason[KILN__ELF_REASON_SIZE])
{
    reason[0] = '\0';
    if (length < sizeof(Elf64_Ehdr)) {
        snprintf(reason, KILN__ELF_REASON_SIZE, "it is too short for an ELF file: %zu bytes", length);
        return false;
    }
    Elf64_Ehdr header = kiln__elf_header(bytes);
    const char *refusal = refuse_header(&header), *beyond = NULL;
    if (refusal != NULL)
        snprintf(reason, KILN__ELF_REASON_SIZE, "%s", refusal);
    else if (header.e_machine != machine)
        snprintf(reason, KILN__ELF_REASON_SIZE, "it is ELF for machine %u, expected %u", (unsigned)header.e_machine,
                 machine);
    else if ((beyond = find_beyond(bytes, length, &header)) != NULL)
        snprintf(reason, KILN__ELF_REASON_SIZE, "it is truncated: %s ends beyond its %zu bytes", beyond, length);
    return reason[0] == '\0';
}
