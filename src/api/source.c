/* The public functions of <kiln/source.h>. */
#include "source/source.h"

unsigned kiln_source_option_words(const char *option)
{
    return option != NULL ? kiln__option_words(option) : 0;
}
