/* What the stand-in driver knows of images: which ones a GPU takes, what kernels they hold, and how to make a small
 * one. Included by fake_libcuda.c only. As with the real driver, no length comes with an image that is read. */
#ifndef KILN_TESTS_SUPPORT_FAKE_IMAGE_H
#define KILN_TESTS_SUPPORT_FAKE_IMAGE_H

#include "gpu/cuda_symbols.h"
#include "support/fake_cuda.h"
#include <elf.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAKE_KERNELS_MAX = 8, FAKE_GLOBALS_MAX = 8, FAKE_MACHINE = 190, FAKE_ABI = 0x41 };

/* Kinds of attribute records in .nv.info sections, and the format of those that have a length. */
enum { FAKE_PARAMETER = 0x17, FAKE_FRAME = 0x11, FAKE_REGISTERS = 0x2f, FAKE_SIZED = 4 };

typedef struct fake_facts {
    char name[64];
    int registers, local_bytes, shared_bytes;
    unsigned parameter_count, sizes[KILN_FAKE_PARAMETERS];
} fake_facts;

typedef struct fake_global {
    char name[64];
    size_t bytes;
} fake_global;

typedef struct fake_image {
    size_t count, global_count;
    fake_facts kernels[FAKE_KERNELS_MAX];
    fake_global globals[FAKE_GLOBALS_MAX];
} fake_image;

static Elf64_Shdr fake_section(const char *bytes, const Elf64_Ehdr *header, unsigned i)
{
    Elf64_Shdr section;
    memcpy(&section, bytes + header->e_shoff + i * sizeof(section), sizeof(section));
    return section;
}

static uint32_t fake_word(const char *bytes)
{
    uint32_t value;
    memcpy(&value, bytes, sizeof(value));
    return value;
}

static void fake_read_parameter(fake_facts *kernel, const char *record)
{
    unsigned ordinal = fake_word(record + 4) & 0xffff;
    if (ordinal >= KILN_FAKE_PARAMETERS)
        return;
    kernel->sizes[ordinal] = fake_word(record + 8) >> 18;
    if (kernel->parameter_count <= ordinal)
        kernel->parameter_count = ordinal + 1;
}

/* A kernel's own section has its parameters; the common one has registers and stack of each, by symbol. */
static void fake_read_attributes(fake_facts *kernel, const char *data, size_t length, bool own, uint32_t symbol)
{
    for (size_t at = 0; at + 4 <= length;) {
        const char *record = data + at + 4;
        unsigned format = (unsigned char)data[at], kind = (unsigned char)data[at + 1];
        size_t size = format == FAKE_SIZED ? fake_word(data + at) >> 16 : 0;
        if (own && kind == FAKE_PARAMETER && size >= 12)
            fake_read_parameter(kernel, record);
        else if (!own && kind == FAKE_REGISTERS && size >= 8 && fake_word(record) == symbol)
            kernel->registers = (int)fake_word(record + 4);
        else if (!own && kind == FAKE_FRAME && size >= 8 && fake_word(record) == symbol)
            kernel->local_bytes = (int)fake_word(record + 4);
        at += 4 + size;
    }
}

static void fake_read_kernel(fake_facts *kernel, const char *bytes, const Elf64_Ehdr *header, const char *names,
                             const Elf64_Shdr *text)
{
    snprintf(kernel->name, sizeof(kernel->name), "%s", names + text->sh_name + strlen(".text."));
    for (unsigned i = 0; i < header->e_shnum; i++) {
        Elf64_Shdr section = fake_section(bytes, header, i);
        const char *name = names + section.sh_name;
        if (strncmp(name, ".nv.shared.", 11) == 0 && strcmp(name + 11, kernel->name) == 0)
            kernel->shared_bytes = (int)section.sh_size;
        if (strncmp(name, ".nv.info", 8) != 0)
            continue;
        bool own = name[8] == '.' && strcmp(name + 9, kernel->name) == 0;
        if (own || name[8] == '\0')
            fake_read_attributes(kernel, bytes + section.sh_offset, section.sh_size, own, text->sh_info & 0xffffff);
    }
}

/* Reads every byte that the headers promise, as a driver that makes a copy does: a sanitizer then sees a short
 * image. */
static void fake_touch(const char *bytes, const Elf64_Shdr *section)
{
    volatile char seen;
    for (uint64_t i = 0; section->sh_type != SHT_NOBITS && i < section->sh_size; i++)
        seen = bytes[section->sh_offset + i];
    (void)seen;
}

/* Names that the device runtime has for itself, in code that is linked with it. */
static int fake_is_runtimes(const char *name)
{
    return name[0] == '$' || strncmp(name, "__nv_static_", 12) == 0;
}

/* Variables: symbols of data that are somewhere. */
static void fake_read_globals(fake_image *out, const char *bytes, const Elf64_Ehdr *header, const Elf64_Shdr *table)
{
    Elf64_Shdr strings = fake_section(bytes, header, table->sh_link);
    for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= table->sh_size; at += sizeof(Elf64_Sym)) {
        Elf64_Sym symbol;
        memcpy(&symbol, bytes + table->sh_offset + at, sizeof(symbol));
        if (ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT || symbol.st_size == 0 || symbol.st_shndx == SHN_UNDEF ||
            fake_is_runtimes(bytes + strings.sh_offset + symbol.st_name) || out->global_count == FAKE_GLOBALS_MAX)
            continue;
        fake_global *global = &out->globals[out->global_count++];
        snprintf(global->name, sizeof(global->name), "%s", bytes + strings.sh_offset + symbol.st_name);
        global->bytes = symbol.st_size;
    }
}

static kiln__cu_enum fake_read_cubin(fake_image *out, const char *bytes, int sm)
{
    Elf64_Ehdr header;
    memcpy(&header, bytes, sizeof(header));
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != FAKE_MACHINE || header.e_shnum == 0)
        return KILN__CUDA_ERROR_INVALID_IMAGE;
    /* CUDA 13 moved the architecture to other bits of the flags. */
    int built_for = (int)(header.e_ident[EI_OSABI] == FAKE_ABI ? header.e_flags >> 8 : header.e_flags) & 0xff;
    if (built_for / 10 != sm / 10 || built_for > sm)
        return KILN__CUDA_ERROR_NO_BINARY_FOR_GPU;
    Elf64_Shdr strings = fake_section(bytes, &header, header.e_shstrndx);
    const char *names = bytes + strings.sh_offset;
    for (unsigned i = 0; i < header.e_shnum; i++) {
        Elf64_Shdr section = fake_section(bytes, &header, i);
        fake_touch(bytes, &section);
        if (section.sh_type == SHT_SYMTAB)
            fake_read_globals(out, bytes, &header, &section);
        if (strncmp(names + section.sh_name, ".text.", 6) == 0 && !fake_is_runtimes(names + section.sh_name + 6) &&
            out->count < FAKE_KERNELS_MAX)
            fake_read_kernel(&out->kernels[out->count++], bytes, &header, names, &section);
    }
    return KILN__CUDA_SUCCESS;
}

/* ".entry name(" and ".param .u64 ..." for each parameter up to the ')'. */
static void fake_read_entry(fake_facts *kernel, const char *name, const char *open)
{
    const char *close = strchr(open, ')');
    snprintf(kernel->name, sizeof(kernel->name), "%.*s", (int)(open - name), name);
    kernel->registers = 16;
    for (const char *at = strstr(open, ".param"); at != NULL && close != NULL && at < close;
         at = strstr(at + 1, ".param")) {
        const char *type = at + strlen(".param");
        type += strspn(type, " .");
        if (kernel->parameter_count < KILN_FAKE_PARAMETERS)
            kernel->sizes[kernel->parameter_count++] = (unsigned)atoi(type + 1) / 8;
    }
}

static kiln__cu_enum fake_read_ptx(fake_image *out, const char *text, int sm, int version)
{
    const char *directive = strstr(text, ".version"), *target = strstr(text, ".target");
    int major = 0, minor = 0, built_for = 0;
    if (directive == NULL || sscanf(directive, ".version %d.%d", &major, &minor) != 2 || target == NULL ||
        sscanf(target, ".target sm_%d", &built_for) != 1 || built_for > sm)
        return KILN__CUDA_ERROR_INVALID_PTX;
    /* CUDA 12.4 brought PTX 8.4, CUDA 13.0 PTX 9.0. */
    if (major * 1000 + minor * 10 > version - 4000)
        return KILN__CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    for (const char *at = strstr(target, ".entry "); at != NULL && out->count < FAKE_KERNELS_MAX;
         at = strstr(at, ".entry ")) {
        const char *name = at + strlen(".entry ");
        at = name + strcspn(name, "(\n");
        if (*at == '(')
            fake_read_entry(&out->kernels[out->count++], name, at);
    }
    return KILN__CUDA_SUCCESS;
}

/* 0, or the code that a driver for CUDA `version` has for the image on a GPU of `sm`: 200, 209, 218 or 222. */
static kiln__cu_enum fake_image_read(fake_image *out, const void *bytes, int sm, int version)
{
    memset(out, 0, sizeof(*out));
    if (memcmp(bytes, ELFMAG, SELFMAG) == 0)
        return fake_read_cubin(out, bytes, sm);
    if (strncmp(bytes, "//", 2) == 0 || strncmp(bytes, ".version", 8) == 0)
        return fake_read_ptx(out, bytes, sm, version);
    return KILN__CUDA_ERROR_INVALID_IMAGE;
}

/* ---- Making one */

enum { FAKE_SECTIONS_MAX = 3 + 2 * FAKE_KERNELS_MAX, FAKE_MADE_REGISTERS = 24, FAKE_MADE_LOCAL_BYTES = 16 };

typedef struct fake_writer {
    char *out;
    size_t size, at; /* `at` goes on counting beyond size */
    Elf64_Shdr sections[FAKE_SECTIONS_MAX];
    unsigned section_count;
    char names[1024];
    size_t names_length;
} fake_writer;

static void fake_write(fake_writer *writer, const void *bytes, size_t length)
{
    if (writer->at + length <= writer->size)
        memcpy(writer->out + writer->at, bytes, length);
    writer->at += length;
}

static void fake_write_record(fake_writer *writer, unsigned kind, uint32_t first, uint32_t second, uint32_t third,
                              unsigned count)
{
    uint32_t words[] = { FAKE_SIZED | kind << 8 | count * 4 << 16, first, second, third };
    fake_write(writer, words, (1 + count) * sizeof(words[0]));
}

/* Begins a section at the end of what is written; what is written until the next one belongs to it. */
static void fake_begin_section(fake_writer *writer, uint32_t type, uint32_t info, const char *prefix, const char *name)
{
    Elf64_Shdr *section = &writer->sections[writer->section_count++];
    section->sh_name = (uint32_t)writer->names_length;
    section->sh_type = type;
    section->sh_info = info;
    section->sh_offset = writer->at;
    int length = snprintf(writer->names + writer->names_length, sizeof(writer->names) - writer->names_length, "%s%s",
                          prefix, name);
    writer->names_length += (size_t)length + 1;
    if (writer->names_length >= sizeof(writer->names) || writer->section_count == FAKE_SECTIONS_MAX)
        abort();
}

static void fake_end_section(fake_writer *writer)
{
    Elf64_Shdr *section = &writer->sections[writer->section_count - 1];
    section->sh_size = writer->at - section->sh_offset;
}

/* Code, and one attribute for each parameter: pointers and a count of 8 bytes each. */
static void fake_write_kernel(fake_writer *writer, const char *name, uint32_t symbol, unsigned parameters)
{
    static const char code[64];
    fake_begin_section(writer, SHT_PROGBITS, symbol, ".text.", name);
    fake_write(writer, code, sizeof(code));
    fake_end_section(writer);
    fake_begin_section(writer, SHT_LOPROC, 0, ".nv.info.", name);
    for (unsigned i = 0; i < parameters; i++)
        fake_write_record(writer, FAKE_PARAMETER, 0, i | i * 8 << 16, 8u << 18, 3);
    fake_end_section(writer);
}

static size_t fake_image_make(void *out, size_t size, int sm, const char *const *names, size_t count, unsigned inputs)
{
    fake_writer writer = { .out = out, .size = size, .at = sizeof(Elf64_Ehdr), .section_count = 1, .names_length = 1 };
    fake_begin_section(&writer, SHT_LOPROC, 0, ".nv.info", "");
    for (uint32_t i = 0; i < count; i++) {
        fake_write_record(&writer, FAKE_REGISTERS, i + 1, FAKE_MADE_REGISTERS, 0, 2);
        fake_write_record(&writer, FAKE_FRAME, i + 1, FAKE_MADE_LOCAL_BYTES, 0, 2);
    }
    fake_end_section(&writer);
    for (uint32_t i = 0; i < count; i++)
        fake_write_kernel(&writer, names[i], i + 1, inputs + 2);
    fake_begin_section(&writer, SHT_STRTAB, 0, ".shstrtab", "");
    fake_write(&writer, writer.names, writer.names_length);
    fake_end_section(&writer);
    Elf64_Ehdr header = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT, FAKE_ABI, 8 },
                          .e_type = ET_EXEC,
                          .e_machine = FAKE_MACHINE,
                          .e_version = EV_CURRENT,
                          .e_shoff = writer.at,
                          .e_flags = (uint32_t)sm << 8 | 4,
                          .e_ehsize = sizeof(header),
                          .e_shentsize = sizeof(Elf64_Shdr),
                          .e_shnum = (uint16_t)writer.section_count,
                          .e_shstrndx = (uint16_t)(writer.section_count - 1) };
    fake_write(&writer, writer.sections, writer.section_count * sizeof(writer.sections[0]));
    if (size >= sizeof(header))
        memcpy(out, &header, sizeof(header));
    return writer.at;
}

#endif
