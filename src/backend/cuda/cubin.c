#include "backend/cuda/cubin.h"

#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { MACHINE_CUDA = 190 };

static bool within(uint64_t offset, uint64_t size, size_t length)
{
    return offset <= length && size <= length - offset;
}

static bool refuse(char *reason, const char *text)
{
    snprintf(reason, KILN__CUBIN_REASON_SIZE, "%s", text);
    return false;
}

static bool check_header(const Elf64_Ehdr *header, char *reason)
{
    const unsigned char *ident = header->e_ident;
    if (memcmp(ident, ELFMAG, SELFMAG) != 0)
        return refuse(reason, "it is not an ELF file");
    if (ident[EI_CLASS] != ELFCLASS64 || ident[EI_DATA] != ELFDATA2LSB)
        return refuse(reason, "it is not a 64-bit little-endian ELF file");
    if (header->e_machine != MACHINE_CUDA) {
        snprintf(reason, KILN__CUBIN_REASON_SIZE, "it is ELF for machine %u, a cubin is for machine %d",
                 (unsigned)header->e_machine, MACHINE_CUDA);
        return false;
    }
    if (header->e_shnum == 0 || header->e_shentsize != sizeof(Elf64_Shdr) || header->e_shstrndx >= header->e_shnum)
        return refuse(reason, "its section table is malformed");
    if (header->e_phnum != 0 && header->e_phentsize != sizeof(Elf64_Phdr))
        return refuse(reason, "its segment table is malformed");
    return true;
}

static Elf64_Shdr section_at(const char *bytes, const Elf64_Ehdr *header, unsigned index)
{
    Elf64_Shdr section;
    memcpy(&section, bytes + header->e_shoff + index * sizeof(section), sizeof(section));
    return section;
}

static bool check_sections(const char *bytes, size_t length, const Elf64_Ehdr *header, char *reason)
{
    for (unsigned i = 0; i < header->e_shnum; i++) {
        Elf64_Shdr section = section_at(bytes, header, i);
        if (section.sh_type != SHT_NULL && section.sh_type != SHT_NOBITS &&
            !within(section.sh_offset, section.sh_size, length)) {
            snprintf(reason, KILN__CUBIN_REASON_SIZE, "section %u ends beyond its %zu bytes", i, length);
            return false;
        }
    }
    return true;
}

static bool check_segments(const char *bytes, size_t length, const Elf64_Ehdr *header, char *reason)
{
    for (unsigned i = 0; i < header->e_phnum; i++) {
        Elf64_Phdr segment;
        memcpy(&segment, bytes + header->e_phoff + i * sizeof(segment), sizeof(segment));
        if (!within(segment.p_offset, segment.p_filesz, length)) {
            snprintf(reason, KILN__CUBIN_REASON_SIZE, "segment %u ends beyond its %zu bytes", i, length);
            return false;
        }
    }
    return true;
}

bool kiln__cubin_check(const void *bytes, size_t length, char reason[KILN__CUBIN_REASON_SIZE])
{
    Elf64_Ehdr header;
    reason[0] = '\0';
    if (length < sizeof(header)) {
        snprintf(reason, KILN__CUBIN_REASON_SIZE, "it has %zu bytes, fewer than an ELF header", length);
        return false;
    }
    memcpy(&header, bytes, sizeof(header));
    if (!check_header(&header, reason))
        return false;
    if (!within(header.e_shoff, (uint64_t)header.e_shnum * sizeof(Elf64_Shdr), length) ||
        !within(header.e_phoff, (uint64_t)header.e_phnum * sizeof(Elf64_Phdr), length)) {
        snprintf(reason, KILN__CUBIN_REASON_SIZE, "its section or segment table ends beyond its %zu bytes", length);
        return false;
    }
    return check_sections(bytes, length, &header, reason) && check_segments(bytes, length, &header, reason);
}

bool kiln__cubin_has_entry(const void *bytes, const char *name)
{
    static const char prefix[] = ".text.";
    const size_t prefix_length = sizeof(prefix) - 1, size = prefix_length + strlen(name) + 1;
    Elf64_Ehdr header;
    memcpy(&header, bytes, sizeof(header));
    Elf64_Shdr names = section_at(bytes, &header, header.e_shstrndx);
    for (unsigned i = 0; i < header.e_shnum; i++) {
        Elf64_Shdr section = section_at(bytes, &header, i);
        if (names.sh_type != SHT_STRTAB || !within(section.sh_name, size, names.sh_size) || section.sh_size == 0)
            continue;
        const char *text = (const char *)bytes + names.sh_offset + section.sh_name;
        if (memcmp(text, prefix, prefix_length) == 0 && memcmp(text + prefix_length, name, size - prefix_length) == 0)
            return true;
    }
    return false;
}
