/* A cubin's entry points and the resources that they use, read from sections and symbols by their names. */
#include "gpu/cubin.h"

#include "base/bytes.h"
#include <stdio.h>
#include <string.h>

/* As NVIDIA's tools show them; the numbers have been the same since the first 64-bit cubins. */
enum {
    MACHINE_CUDA = 190,
    RESERVED_SHARED =
        1024, /* on the GPUs that keep some for the system, of every block: in the section, not the program's */
    KERNEL_FLAG = 0x10,      /* of a symbol that a host may launch */
    FORM_SIZED = 4,          /* a record whose last two bytes are the length of what follows */
    INFO_MAX_THREADS = 0x05, /* x, y and z of __launch_bounds__ */
    INFO_BLOCK = 0x10,       /* those of __block_size__ */
    INFO_FRAME_SIZE = 0x11,
    INFO_PARAMETER = 0x17,       /* number of the symbol, ordinal, offset, and a word with the bytes above bit 18 */
    INFO_LARGE_PARAMETER = 0x45, /* the same of kernels with more than 4 KiB of them; the bytes are the low half */
    INFO_REGISTERS = 0x2f,
    MOST_THREADS = 1024 /* of a block, on every GPU */
};

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

/* The section of a name, which is a prefix and the rest. Sections of no type may lie anywhere: they are passed over. */
static bool find_section(const void *bytes, const char *prefix, const char *name, Elf64_Shdr *out)
{
    Elf64_Ehdr header = kiln__elf_header(bytes);
    Elf64_Shdr names = kiln__elf_section(bytes, header.e_shstrndx);
    size_t first = strlen(prefix), second = strlen(name) + 1;
    for (unsigned i = 0; names.sh_type == SHT_STRTAB && i < header.e_shnum; i++) {
        *out = kiln__elf_section(bytes, i);
        if (out->sh_type == SHT_NULL || !kiln__elf_within(out->sh_name, first + second, names.sh_size))
            continue;
        const char *text = (const char *)bytes + names.sh_offset + out->sh_name;
        if (memcmp(text, prefix, first) == 0 && memcmp(text + first, name, second) == 0)
            return true;
    }
    return false;
}

bool kiln__cubin_has_entry(const void *bytes, const char *name)
{
    Elf64_Shdr section;
    return find_section(bytes, ".text.", name, &section) && section.sh_type != SHT_NOBITS && section.sh_size > 0;
}

typedef struct symbol_table {
    const char *bytes;
    Elf64_Shdr table, names;
    uint64_t count;
} symbol_table;

static bool find_symbols(const void *bytes, symbol_table *out)
{
    Elf64_Ehdr header = kiln__elf_header(bytes);
    for (unsigned i = 0; i < header.e_shnum; i++) {
        out->table = kiln__elf_section(bytes, i);
        if (out->table.sh_type != SHT_SYMTAB || out->table.sh_entsize != sizeof(Elf64_Sym) ||
            out->table.sh_link >= header.e_shnum)
            continue;
        out->names = kiln__elf_section(bytes, out->table.sh_link);
        out->bytes = bytes;
        out->count = out->table.sh_size / sizeof(Elf64_Sym);
        return out->names.sh_type == SHT_STRTAB;
    }
    return false;
}

/* The name of a symbol, NULL if it does not end within the table of names. */
static const char *symbol_at(const symbol_table *symbols, uint64_t index, Elf64_Sym *out)
{
    memcpy(out, symbols->bytes + symbols->table.sh_offset + index * sizeof(*out), sizeof(*out));
    if (out->st_name >= symbols->names.sh_size)
        return NULL;
    const char *name = symbols->bytes + symbols->names.sh_offset + out->st_name;
    return memchr(name, '\0', symbols->names.sh_size - out->st_name) != NULL ? name : NULL;
}

void kiln__cubin_kernels(const void *bytes, void (*fn)(void *data, const char *name), void *data)
{
    symbol_table symbols;
    Elf64_Sym symbol;
    if (!find_symbols(bytes, &symbols))
        return;
    for (uint64_t i = 0; i < symbols.count; i++) {
        const char *name = symbol_at(&symbols, i, &symbol);
        if (name != NULL && ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && ELF64_ST_BIND(symbol.st_info) != STB_LOCAL &&
            (symbol.st_other & KERNEL_FLAG) != 0)
            fn(data, name);
    }
}

void kiln__cubin_definitions(const void *bytes, void (*fn)(void *data, const char *name), void *data)
{
    symbol_table symbols;
    Elf64_Sym symbol;
    if (!find_symbols(bytes, &symbols))
        return;
    for (uint64_t i = 0; i < symbols.count; i++) {
        const char *name = symbol_at(&symbols, i, &symbol);
        if (name != NULL && ELF64_ST_BIND(symbol.st_info) == STB_GLOBAL && symbol.st_shndx != SHN_UNDEF)
            fn(data, name);
    }
}

unsigned kiln__cubin_count(const void *bytes, const char *name)
{
    symbol_table symbols;
    Elf64_Sym symbol;
    unsigned count = 0;
    size_t length = strlen(name);
    if (!find_symbols(bytes, &symbols))
        return 0;
    for (uint64_t i = 0; i < symbols.count; i++) {
        const char *found = symbol_at(&symbols, i, &symbol);
        unsigned type = ELF64_ST_TYPE(symbol.st_info);
        count += found != NULL && (type == STT_FUNC || type == STT_OBJECT) && strncmp(found, name, length) == 0 &&
                 (found[length] == '\0' || found[length] == '$');
    }
    return count;
}

/* The record at *at, which goes on behind it: form, attribute, and two bytes that are a value or the length of one.
 * NULL at the end, and where a record is not whole. */
static const uint8_t *next_record(const uint8_t **at, const uint8_t *end, size_t *size)
{
    const uint8_t *record = *at;
    if (end - record < 4)
        return NULL;
    *size = record[0] == FORM_SIZED ? kiln__read_u16(record + 2) : 0;
    if (*size > (size_t)(end - record) - 4)
        return NULL;
    *at = record + 4 + *size;
    return record;
}

/* Reads the records of all kernels. Those wanted are a symbol and a number. */
static void read_info(const uint8_t *at, uint64_t length, uint32_t symbol, kiln__cubin_usage *out)
{
    const uint8_t *end = at + length, *record;
    for (size_t size; (record = next_record(&at, end, &size)) != NULL;) {
        if (size != 8 || kiln__read_u32(record + 4) != symbol)
            continue;
        int value = (int)(kiln__read_u32(record + 8) & INT32_MAX);
        if (record[1] == INFO_REGISTERS)
            out->registers = value;
        else if (record[1] == INFO_FRAME_SIZE)
            out->stack_bytes = value;
    }
}

/* The threads of x by y by z; MOST_THREADS for more. */
static int read_threads(const uint8_t *value)
{
    uint64_t threads = 1;
    for (int i = 0; i < 3 && threads <= MOST_THREADS; i++)
        threads *= kiln__read_u32(value + (ptrdiff_t)4 * i);
    return threads > MOST_THREADS ? MOST_THREADS : (int)threads;
}

/* Reads the records of one kernel about its blocks. */
static void read_blocks(const uint8_t *at, uint64_t length, kiln__cubin_usage *out)
{
    const uint8_t *end = at + length, *record;
    for (size_t size; (record = next_record(&at, end, &size)) != NULL;) {
        if (size != 12 || (record[1] != INFO_MAX_THREADS && record[1] != INFO_BLOCK))
            continue;
        out->max_threads = read_threads(record + 4);
        out->block_threads = record[1] == INFO_BLOCK ? out->max_threads : out->block_threads;
    }
}

/* Notes a parameter. False if it is none that fits. */
static bool read_parameter(const uint8_t *record, size_t *sizes, int most)
{
    uint32_t packed = kiln__read_u32(record + 12);
    unsigned ordinal = kiln__read_u16(record + 8);
    if (ordinal >= (unsigned)most)
        return false;
    sizes[ordinal] = record[1] == INFO_PARAMETER ? packed >> 18 : packed & UINT16_MAX;
    return sizes[ordinal] > 0;
}

int kiln__cubin_parameters(const void *bytes, const char *name, size_t *sizes, int most)
{
    Elf64_Shdr section;
    int count = 0;
    if (!find_section(bytes, ".nv.info.", name, &section) || section.sh_type == SHT_NOBITS)
        return -1;
    for (int i = 0; i < most; i++)
        sizes[i] = 0;
    const uint8_t *at = (const uint8_t *)bytes + section.sh_offset, *end = at + section.sh_size;
    const uint8_t *record;
    for (size_t size; (record = next_record(&at, end, &size)) != NULL;) {
        if (size != 12 || (record[1] != INFO_PARAMETER && record[1] != INFO_LARGE_PARAMETER))
            continue;
        if (!read_parameter(record, sizes, most))
            return -1;
        count++;
    }
    if (end - at >= 4)
        return -1;
    for (int i = 0; i < count; i++)
        if (i == most || sizes[i] == 0)
            return -1;
    return count < most ? count : -1;
}

static int shared_bytes(const void *bytes, const char *name)
{
    Elf64_Shdr section, reserved;
    if (!find_section(bytes, ".nv.shared.", name, &section) || section.sh_size > INT32_MAX)
        return 0;
    bool keeps = find_section(bytes, ".nv.shared.reserved.", "0", &reserved) && section.sh_size >= RESERVED_SHARED;
    return (int)section.sh_size - (keeps ? RESERVED_SHARED : 0);
}

void kiln__cubin_usage_of(const void *bytes, const char *name, kiln__cubin_usage *out)
{
    symbol_table symbols;
    Elf64_Sym symbol;
    Elf64_Shdr section;
    *out = (kiln__cubin_usage){ -1, -1, -1, -1, -1 };
    if (!find_symbols(bytes, &symbols))
        return;
    for (uint64_t i = 0; i < symbols.count; i++) {
        const char *found = symbol_at(&symbols, i, &symbol);
        if (found == NULL || ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || strcmp(found, name) != 0)
            continue;
        out->shared_bytes = shared_bytes(bytes, name);
        out->max_threads = MOST_THREADS;
        out->block_threads = 0;
        if (find_section(bytes, ".nv.info.", name, &section) && section.sh_type != SHT_NOBITS)
            read_blocks((const uint8_t *)bytes + section.sh_offset, section.sh_size, out);
        if (find_section(bytes, ".nv.info", "", &section) && section.sh_type != SHT_NOBITS)
            read_info((const uint8_t *)bytes + section.sh_offset, section.sh_size, (uint32_t)i, out);
    }
}
