/* Bounds of ELF files: 64-bit little-endian ones, as cubins and the objects of x86-64 and 64-bit Arm are. */
#ifndef KILN_BASE_ELF_H
#define KILN_BASE_ELF_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>

enum { KILN__ELF_REASON_SIZE = 128 };

/* True if the bytes are such a file for `machine` (EM_X86_64...) whose tables, sections and segments all lie within
 * `length`; else `reason` gets the reason in words. Bytes need no alignment. Looks only at headers: it keeps a
 * truncated file from a loader that is told no length, and is no guard against damage or malice. */
bool kiln__elf_check(const void *bytes, size_t length, unsigned machine, char reason[KILN__ELF_REASON_SIZE]);

/* The header of a checked file, and its section number `index`, which is less than the header's e_shnum. */
Elf64_Ehdr kiln__elf_header(const void *bytes);
Elf64_Shdr kiln__elf_section(const void *bytes, unsigned index);

/* Whether `size` bytes at `offset` end within `length`, whatever the numbers. */
bool kiln__elf_within(uint64_t offset, uint64_t size, uint64_t length);

#endif
