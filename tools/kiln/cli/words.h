/* The words of a command line that name kernels. One rule holds for all commands: FIELD=VALUE belongs to the spec
 * before it, in one word with it or in another. Where that spec has the field already, the next one begins. FILE.cu
 * begins a spec too, and stands for template=FILE.cu. */
#ifndef KILN_TOOLS_WORDS_H
#define KILN_TOOLS_WORDS_H

#include "cli/options.h"

/* A spec, or a CUDA file that declares no template. */
typedef struct kernel_words {
    const char *fields; /* "op=relu6 dtype=f32"; without the template where there is a file */
    const char *file;   /* FILE.cu, or NULL; a template's is not defined yet */
    bool is_source;     /* the file declares no template, so there are no fields */
} kernel_words;

/* Each of these reads `words` from index `first` on. A word that fits nothing ends the command with a message. */

/* The one spec or file that there must be. */
kernel_words words_kernel(const struct usage *usage, const text_list *words, size_t first);

/* The text of a spec whose file, if it has one, is a template: defines that as --template does. */
const char *words_text(const struct usage *usage, const kernel_words *kernel);

/* The one spec that there must be, as text. */
const char *words_spec(const struct usage *usage, const text_list *words, size_t first);

/* Adds all specs as texts. */
void words_specs(text_list *out, const struct usage *usage, const text_list *words, size_t first);

/* Adds all words as CUDA files. */
void words_files(text_list *out, const struct usage *usage, const text_list *words);

#endif
